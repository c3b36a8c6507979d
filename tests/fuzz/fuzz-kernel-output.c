/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector against a hostile kernel: the input is a list of actions on the kernel's
 * channels, and of points at which the core acts. In every case finish ends, and all text is
 * valid UTF-8.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "kernel/marker.h"
#include "kernel/output.h"

#define MAX_TURNS 100000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[IPB_MARKER_KEY_SIZE] = "kkkkkkkkkkk";

typedef struct {
    IpbOutput *output;
    int fds[3]; /* of the kernel: stdout, stderr, wire */
    bool is_finished;
    bool pauses, finishes; /* in the next callback */
} Kernel;

static void
misbehave(Kernel *kernel)
{
    if (kernel->pauses)
        ipb_output_set_paused(kernel->output, true);
    if (kernel->finishes)
        ipb_output_finish(kernel->output, /* with_frames= */ false);
    kernel->pauses = kernel->finishes = false;
}

static void
on_text(bool is_stderr, bool is_late, uint64_t cell, const char *text, size_t size, void *data)
{
    g_assert(size > 0 && strlen(text) == size && g_utf8_validate(text, (gssize) size, NULL));
    g_assert(!((Kernel *) data)->is_finished);
    misbehave(data);
}

static void
on_frame(const IpbFrame *frame, void *data)
{
    g_assert(!((Kernel *) data)->is_finished);
    misbehave(data);
}

static void
on_wire_end(const GError *error, void *data)
{
    misbehave(data);
}

static void
on_finished(void *data)
{
    g_assert(!((Kernel *) data)->is_finished);
    ((Kernel *) data)->is_finished = true;
}

static void
run(void)
{
    for (int i = 0; g_main_context_iteration(NULL, FALSE); i++)
        g_assert(i < MAX_TURNS);
}

static void
write_marker(Kernel *kernel, int which, uint32_t number)
{
    uint8_t marker[IPB_MARKER_SIZE] = {0};
    memcpy(marker + 1, key, sizeof key);
    memcpy(marker + 13, &number, 4);
    marker[17] = '\n';
    (void) !write(kernel->fds[which], marker, sizeof marker);
}

static void
write_frame(Kernel *kernel, uint8_t marker)
{
    uint8_t frame[] = {5, 0, 0, 0, IPB_FRAME_DISPLAY + (marker & 7) % 6, marker >> 3, 0, 0, 0};
    (void) !send(kernel->fds[2], frame, sizeof frame, MSG_NOSIGNAL);
}

/* One action: an operation and an argument. Returns the number of bytes that it used. */
static size_t
take_step(Kernel *kernel, const uint8_t *data, size_t size)
{
    uint8_t op = data[0] & 0x0f, which = (data[0] >> 4) % 3, argument = data[1];
    size_t n = MIN(size - 2, argument);
    switch (op) {
    case 0:
    case 1:
        (void) !send(kernel->fds[2], data + 2, which == 2 ? n : 0, MSG_NOSIGNAL);
        if (which != 2)
            (void) !write(kernel->fds[which], data + 2, n);
        return 2 + n;
    case 2:
    case 3:
        write_marker(kernel, which % 2, argument);
        return 2;
    case 4:
        write_marker(kernel, 0, argument);
        write_marker(kernel, 1, argument);
        return 2;
    case 5:
    case 6:
        write_frame(kernel, argument);
        return 2;
    case 7:
        ipb_output_mark_cell(kernel->output);
        return 2;
    case 8:
        ipb_output_set_paused(kernel->output, argument % 2 == 1);
        return 2;
    case 9:
        kernel->pauses = argument % 2 == 1;
        kernel->finishes = argument == 255;
        return 2;
    case 10:
        ipb_fd_close(&kernel->fds[which]);
        return 2;
    case 11:
        if (argument == 255)
            ipb_output_finish(kernel->output, /* with_frames= */ true);
        return 2;
    default:
        run();
        return 1;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const IpbOutputFuncs funcs = {on_text, on_frame, on_wire_end, on_finished};
    Kernel kernel = {0};
    int out[2], err[2], wire[2];
    IpbLoop *loop = ipb_loop_new(NULL, NULL);
    g_assert(ipb_fd_pipe(out, NULL) && ipb_fd_pipe(err, NULL));
    g_assert(ipb_fd_socketpair(SOCK_STREAM, wire, NULL));
    int fds[] = {out[0], out[1], err[0], err[1], wire[0], wire[1]};
    for (size_t i = 0; i < G_N_ELEMENTS(fds); i++)
        g_assert(ipb_fd_set_nonblocking(fds[i], true, NULL));
    memcpy(kernel.fds, (int[]){out[1], err[1], wire[1]}, sizeof kernel.fds);
    kernel.output = ipb_output_new(loop, out[0], err[0], wire[0], key, &funcs, &kernel, NULL);
    for (size_t at = 0; at + 2 <= size;)
        at += take_step(&kernel, data + at, size - at);
    run();
    ipb_output_finish(kernel.output, /* with_frames= */ true);
    for (int i = 0; !kernel.is_finished; i++) {
        g_assert(i < MAX_TURNS);
        /* It never waits: everything that it needs has arrived. */
        g_assert(g_main_context_iteration(NULL, FALSE));
    }
    ipb_output_free(kernel.output);
    for (int i = 0; i < 3; i++)
        ipb_fd_close(&kernel.fds[i]);
    ipb_loop_unref(loop);
    return 0;
}
