/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector; the header describes how it finds the order.
 *
 * Offsets count the bytes of a pipe from its beginning: n_read were read, n_read minus the buffer's
 * content were delivered. Everything happens in pump(), which only the loop calls. Each pump reads
 * at most one piece of each pipe and a few of the wire, then takes single steps (a frame, or text
 * up to the next marker) until none is possible. Invariant: whatever waits, waits for bytes that
 * are in a watched fd, or for the loop's next turn.
 */
#include "kernel/output.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/child-output.h"
#include "kernel/marker.h"
#include "kernel/wire.h"

/* Read from a pipe at once: the default capacity of a pipe. */
#define MAX_PIPE_READ (64 * 1024)
/* If one read gives so much, more is likely to follow. */
#define MIN_STREAM_READ (16 * 1024)
/* Reads from the wire in one pump. */
#define MAX_WIRE_READS 4
/* Frames and texts delivered in one pump; then the loop runs other sources. */
#define MAX_STEPS 512
/* The buffer of decoded text may keep this much memory between pumps. */
#define MAX_IDLE_TEXT 4096

typedef struct {
    IpbOutput *output;
    bool is_stderr;
    int fd;
    IpbWatch *watch;
    bool is_ended; /* end of file: no process has it open for writing */
    bool is_held;  /* the buffer's content may be the beginning of a marker */
    IpbBuffer buffer;
    uint64_t n_read;
    uint32_t passed;      /* the last marker's number */
    uint64_t late_end;    /* text before this offset came before the running cell */
    uint64_t frame_limit; /* text before the oldest frame ends here */
    uint64_t lag_limit;   /* text before the other pipe's available text ends here */
    bool has_frame_limit, has_lag_limit;
    uint64_t finish_end; /* when finishing: nothing is read beyond this */
    IpbUtf8Decoder decoder;
} Pipe;

struct IpbOutput {
    IpbLoop *loop;
    uint8_t key[IPB_MARKER_KEY_SIZE];
    IpbOutputFuncs funcs;
    void *data;
    Pipe pipes[2];
    IpbWireReader wire; /* is_dry: since the last read from a pipe */
    IpbWatch *wire_watch;
    bool has_reported_wire_end;
    IpbTimer *pump_timer;
    GString *text;
    bool is_paused, is_finishing, is_stopped, is_pumping;
    bool expects_pipes;  /* all text is late, of the cell: */
    uint64_t late_cell;  /* 0: not known */
    IpbChildOutput *old; /* pipes that were replaced; NULL: none was */
    bool is_streaming;   /* more is likely to follow, so buffers are kept */
};

static size_t
bytes_waiting(int fd)
{
    int n = 0;
    return ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (size_t) n : 0;
}

static uint64_t
n_delivered(const Pipe *pipe)
{
    return pipe->n_read - ipb_buffer_size(&pipe->buffer);
}

static Pipe *
other_pipe(Pipe *pipe)
{
    return &pipe->output->pipes[pipe->is_stderr ? 0 : 1];
}

static bool
is_resting(const IpbOutput *output)
{
    return output->is_stopped || (output->is_paused && !output->is_finishing);
}

/* Whether everything before @end was delivered. A held beginning of a marker counts as delivered: a
 * marker is written in one piece, so its rest would be there. */
static bool
is_delivered_until(const Pipe *pipe, uint64_t end)
{
    if (n_delivered(pipe) >= end)
        return true;
    bool is_all_read = pipe->is_ended || pipe->n_read >= end;
    return is_all_read && (pipe->is_held || ipb_buffer_size(&pipe->buffer) == 0);
}

/* The end of what is in the pipe now. */
static uint64_t
current_end(const Pipe *pipe)
{
    if (pipe->output->is_finishing)
        return pipe->finish_end;
    return pipe->n_read + (pipe->is_ended ? 0 : bytes_waiting(pipe->fd));
}

static bool
is_frame_reached(Pipe *pipe, const IpbFrame *frame)
{
    if (frame->marker == 0 || pipe->passed >= frame->marker)
        return true;
    if (!pipe->has_frame_limit) {
        pipe->frame_limit = current_end(pipe);
        pipe->has_frame_limit = true;
    }
    return is_delivered_until(pipe, pipe->frame_limit);
}

/* Whether the other pipe must wait for this one, which has passed fewer markers. */
static bool
is_lagging(Pipe *pipe)
{
    if (pipe->passed >= other_pipe(pipe)->passed)
        return false;
    if (!pipe->has_lag_limit) {
        pipe->lag_limit = current_end(pipe);
        pipe->has_lag_limit = true;
    }
    return !is_delivered_until(pipe, pipe->lag_limit);
}

static bool
may_deliver_text(Pipe *pipe)
{
    IpbOutput *output = pipe->output;
    Pipe *other = other_pipe(pipe);
    if (pipe->is_held || ipb_buffer_size(&pipe->buffer) == 0)
        return false;
    if (output->wire.has_frame ? is_frame_reached(pipe, &output->wire.frame)
                               : !output->wire.is_dry && !output->wire.is_ended)
        return false;
    if (is_lagging(other))
        return false;
    /* Late text of both pipes comes before anything of the cell, unless that would block. */
    return n_delivered(pipe) < pipe->late_end || is_delivered_until(other, other->late_end) ||
           other->passed > pipe->passed;
}

/* The last offset up to which text may be delivered now. */
static uint64_t
text_bound(const Pipe *pipe)
{
    uint64_t bound = pipe->n_read;
    if (pipe->output->wire.has_frame && pipe->has_frame_limit)
        bound = MIN(bound, pipe->frame_limit);
    if (n_delivered(pipe) < pipe->late_end)
        bound = MIN(bound, pipe->late_end);
    return bound;
}

/* Delivers what was decoded into output->text. */
static void
deliver_decoded(Pipe *pipe, bool is_late)
{
    IpbOutput *output = pipe->output;
    if (output->text->len > 0)
        output->funcs.on_text(pipe->is_stderr, is_late || output->expects_pipes, output->late_cell,
                              output->text->str, output->text->len, output->data);
    g_string_truncate(output->text, 0);
}

static void
deliver_text(Pipe *pipe)
{
    IpbOutput *output = pipe->output;
    Pipe *other = other_pipe(pipe);
    bool is_late =
        n_delivered(pipe) < pipe->late_end || !is_delivered_until(other, other->late_end);
    size_t bound = (size_t) (text_bound(pipe) - n_delivered(pipe));
    size_t text_size;
    uint32_t number;
    IpbMarkerResult result =
        ipb_marker_find(output->key, pipe->passed, ipb_buffer_data(&pipe->buffer),
                        ipb_buffer_size(&pipe->buffer), &text_size, &number);
    if (text_size >= bound) {
        text_size = bound;
        result = IPB_MARKER_NONE; /* the rest is examined later */
    }
    ipb_marker_decode_text(&pipe->decoder, ipb_buffer_data(&pipe->buffer), text_size, output->text);
    ipb_buffer_consume(&pipe->buffer, text_size);
    if (result == IPB_MARKER_FOUND) {
        pipe->passed = number;
        ipb_buffer_consume(&pipe->buffer, IPB_MARKER_SIZE);
    }
    pipe->is_held = result == IPB_MARKER_CUT;
    deliver_decoded(pipe, is_late);
}

/* Delivers what is held back because more of it might have come. */
static void
deliver_rest(Pipe *pipe, bool with_held)
{
    IpbOutput *output = pipe->output;
    if (with_held && pipe->is_held) {
        ipb_marker_decode_text(&pipe->decoder, ipb_buffer_data(&pipe->buffer),
                               ipb_buffer_size(&pipe->buffer), output->text);
        ipb_buffer_clear(&pipe->buffer);
        pipe->is_held = false;
    }
    ipb_marker_decode_end(&pipe->decoder, output->text);
    deliver_decoded(pipe, /* is_late= */ false);
}

static void
look_for_frame(IpbOutput *output)
{
    if (ipb_wire_reader_find(&output->wire))
        output->pipes[0].has_frame_limit = output->pipes[1].has_frame_limit = false;
}

static void
deliver_frame(IpbOutput *output)
{
    /* An incomplete character at the end of the cell's output belongs to the cell. */
    if (output->wire.frame.type == IPB_FRAME_DONE)
        for (int i = 0; i < 2 && !is_resting(output); i++)
            deliver_rest(&output->pipes[i], /* with_held= */ false);
    if (is_resting(output))
        return;
    output->funcs.on_frame(&output->wire.frame, output->data); /* may end the wire */
    ipb_wire_reader_consume(&output->wire);
}

/* Delivers one frame or one text; false if nothing can be delivered now. */
static bool
take_step(IpbOutput *output)
{
    look_for_frame(output);
    if (output->wire.has_frame && is_frame_reached(&output->pipes[0], &output->wire.frame) &&
        is_frame_reached(&output->pipes[1], &output->wire.frame)) {
        deliver_frame(output);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        if (may_deliver_text(&output->pipes[i])) {
            deliver_text(&output->pipes[i]);
            return true;
        }
    }
    return false;
}

static bool
wants_pipe(const Pipe *pipe)
{
    return !is_resting(pipe->output) && !pipe->is_ended &&
           (pipe->is_held || ipb_buffer_size(&pipe->buffer) == 0) &&
           (!pipe->output->is_finishing || pipe->n_read < pipe->finish_end);
}

static bool
wants_wire(const IpbOutput *output)
{
    return !is_resting(output) && !output->wire.is_ended && !output->wire.has_frame;
}

static void
read_pipe(Pipe *pipe)
{
    if (!wants_pipe(pipe))
        return;
    size_t size = MAX_PIPE_READ;
    if (pipe->output->is_finishing)
        size = (size_t) MIN(size, pipe->finish_end - pipe->n_read);
    ssize_t n = read(pipe->fd, ipb_buffer_reserve(&pipe->buffer, size), size);
    if (n > 0) {
        ipb_buffer_commit(&pipe->buffer, (size_t) n);
        pipe->n_read += (size_t) n;
        pipe->output->is_streaming |= (size_t) n >= MIN_STREAM_READ;
        pipe->is_held = false;
        /* What came before this text: in the other pipe and on the wire at this moment. */
        other_pipe(pipe)->has_lag_limit = false;
        pipe->output->wire.is_dry = false;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        pipe->is_ended = true;
    }
}

/* Whether available text waits for a read from the wire, or a frame may come from it. */
static bool
needs_wire(const IpbOutput *output)
{
    return wants_wire(output) && (!output->wire.is_dry || output->is_finishing);
}

static void
update_watches(IpbOutput *output)
{
    for (int i = 0; i < 2; i++) {
        Pipe *pipe = &output->pipes[i];
        if (pipe->watch != NULL) /* NULL: it could not be replaced, and the kernel is killed */
            ipb_watch_set_events(pipe->watch, wants_pipe(pipe) ? EPOLLIN : 0);
        if (!output->is_streaming && ipb_buffer_size(&pipe->buffer) == 0)
            ipb_buffer_clear(&pipe->buffer);
    }
    ipb_watch_set_events(output->wire_watch, wants_wire(output) ? EPOLLIN : 0);
    if (!output->is_streaming && output->text->allocated_len > MAX_IDLE_TEXT) {
        g_string_free(output->text, TRUE);
        output->text = g_string_new(NULL);
    }
}

static void on_pump_timer(void *data);

static void
pump_soon(IpbOutput *output)
{
    if (output->pump_timer == NULL && !output->is_stopped)
        output->pump_timer = ipb_timer_new(output->loop, 0, on_pump_timer, output);
}

static bool
is_all_delivered(const IpbOutput *output)
{
    return output->wire.is_ended && !output->wire.has_frame &&
           is_delivered_until(&output->pipes[0], output->pipes[0].finish_end) &&
           is_delivered_until(&output->pipes[1], output->pipes[1].finish_end);
}

/* Reports ends; the last thing that a pump does. */
static void
report_ends(IpbOutput *output)
{
    if (output->wire.is_ended && !output->has_reported_wire_end && !is_resting(output)) {
        output->has_reported_wire_end = true;
        if (!output->is_finishing)
            output->funcs.on_wire_end(output->wire.error, output->data);
    }
    if (!output->is_finishing || output->is_stopped || !is_all_delivered(output))
        return;
    for (int i = 0; i < 2 && !output->is_stopped; i++)
        deliver_rest(&output->pipes[i], /* with_held= */ true);
    if (!output->is_stopped && output->old != NULL)
        ipb_child_output_drain(output->old);
    if (output->is_stopped)
        return;
    ipb_output_stop(output);
    output->funcs.on_finished(output->data);
}

static void
pump(IpbOutput *output)
{
    if (output->is_pumping || is_resting(output))
        return;
    output->is_pumping = true;
    output->is_streaming = false;
    read_pipe(&output->pipes[0]);
    read_pipe(&output->pipes[1]);
    output->wire.is_dry = false;
    int n_steps = 0, n_reads = 0;
    while (n_steps < MAX_STEPS && !is_resting(output)) {
        if (take_step(output))
            n_steps++;
        else if (needs_wire(output) && n_reads++ < MAX_WIRE_READS)
            ipb_wire_reader_read(&output->wire);
        else
            break;
    }
    if (n_steps == MAX_STEPS || n_reads > MAX_WIRE_READS)
        pump_soon(output);
    else
        report_ends(output);
    update_watches(output);
    output->is_pumping = false;
}

static void
on_pump_timer(void *data)
{
    IpbOutput *output = data;
    g_clear_pointer(&output->pump_timer, ipb_timer_free);
    pump(output);
}

static void
on_pipe_ready(uint32_t events, void *data)
{
    pump(((Pipe *) data)->output);
}

static void
on_wire_ready(uint32_t events, void *data)
{
    pump(data);
}

static bool
init_pipe(IpbOutput *output, int index, int fd, GError **error)
{
    Pipe *pipe = &output->pipes[index];
    pipe->watch = ipb_watch_new(output->loop, fd, EPOLLIN, on_pipe_ready, pipe, error);
    if (pipe->watch == NULL)
        return false;
    /* A held beginning of a marker, and a whole read after it. */
    ipb_buffer_init(&pipe->buffer, MAX_PIPE_READ + IPB_MARKER_SIZE);
    pipe->output = output;
    pipe->is_stderr = index == 1;
    return true;
}

IpbOutput *
ipb_output_new(IpbLoop *loop, int stdout_fd, int stderr_fd, int wire_fd, const uint8_t *key,
               const IpbOutputFuncs *funcs, void *data, GError **error)
{
    g_autoptr(IpbOutput) output = g_new0(IpbOutput, 1);
    output->loop = ipb_loop_ref(loop);
    output->funcs = *funcs;
    output->data = data;
    ipb_wire_reader_init(&output->wire, -1);
    output->pipes[0].fd = output->pipes[1].fd = -1;
    output->text = g_string_new(NULL);
    memcpy(output->key, key, IPB_MARKER_KEY_SIZE);
    output->wire_watch = ipb_watch_new(loop, wire_fd, EPOLLIN, on_wire_ready, output, error);
    if (output->wire_watch == NULL || !init_pipe(output, 0, stdout_fd, error) ||
        !init_pipe(output, 1, stderr_fd, error))
        return NULL;
    output->pipes[0].fd = stdout_fd;
    output->pipes[1].fd = stderr_fd;
    output->wire.fd = wire_fd;
    return g_steal_pointer(&output);
}

void
ipb_output_mark_cell(IpbOutput *output)
{
    for (int i = 0; i < 2; i++)
        output->pipes[i].late_end = current_end(&output->pipes[i]);
}

/* --- new pipes -------------------------------------------------------------------------------- */

void
ipb_output_expect_pipes(IpbOutput *output, uint64_t cell)
{
    output->expects_pipes = true;
    output->late_cell = cell;
}

void
ipb_output_keep_pipes(IpbOutput *output)
{
    output->expects_pipes = false;
    output->late_cell = 0;
}

bool
ipb_output_has_too_many_pipes(const IpbOutput *output)
{
    return output->old != NULL && ipb_child_output_is_full(output->old);
}

static void
on_old_text(uint64_t cell, bool is_stderr, const char *text, size_t size, void *data)
{
    IpbOutput *output = data;
    output->funcs.on_text(is_stderr, /* is_late= */ true, cell, text, size, output->data);
}

/* Its buffer has what followed the kernel's last marker. */
static bool
retire_pipe(IpbOutput *output, Pipe *pipe, GError **error)
{
    deliver_rest(pipe, /* with_held= */ false);
    g_clear_pointer(&pipe->watch, ipb_watch_free);
    int fd = ipb_fd_steal(&pipe->fd);
    bool is_added =
        ipb_child_output_add(output->old, output->late_cell, pipe->is_stderr, fd,
                             ipb_buffer_data(&pipe->buffer), ipb_buffer_size(&pipe->buffer), error);
    ipb_buffer_clear(&pipe->buffer);
    return is_added;
}

static bool
replace_pipe(IpbOutput *output, int index, int fd, uint32_t marker, GError **error)
{
    Pipe *pipe = &output->pipes[index];
    ipb_autofd owned = fd;
    if (!retire_pipe(output, pipe, error))
        return false;
    *pipe = (Pipe){
        .output = output, .is_stderr = index == 1, .fd = -1, .passed = MAX(pipe->passed, marker)};
    if (!init_pipe(output, index, fd, error))
        return false;
    pipe->fd = ipb_fd_steal(&owned);
    if (output->is_finishing)
        pipe->finish_end = bytes_waiting(fd);
    return true;
}

bool
ipb_output_replace_pipes(IpbOutput *output, const int fds[2], uint32_t marker, GError **error)
{
    if (output->old == NULL)
        output->old = ipb_child_output_new(output->loop, on_old_text, output);
    ipb_child_output_set_paused(output->old, output->is_paused || output->is_stopped);
    ipb_autofd stderr_fd = fds[1];
    if (!replace_pipe(output, 0, fds[0], marker, error))
        return false;
    if (!replace_pipe(output, 1, ipb_fd_steal(&stderr_fd), marker, error))
        return false;
    ipb_output_keep_pipes(output);
    return true;
}

/* --- the interface ---------------------------------------------------------------------------- */

void
ipb_output_set_paused(IpbOutput *output, bool paused)
{
    if (output->is_paused == paused || output->is_stopped)
        return;
    output->is_paused = paused;
    if (output->old != NULL)
        ipb_child_output_set_paused(output->old, paused);
    if (!output->is_pumping)
        update_watches(output);
    if (!paused)
        pump_soon(output);
}

void
ipb_output_finish(IpbOutput *output, bool with_frames)
{
    if (output->is_finishing || output->is_stopped)
        return;
    for (int i = 0; i < 2; i++) {
        Pipe *pipe = &output->pipes[i];
        pipe->finish_end = current_end(pipe);
        pipe->has_frame_limit = pipe->has_lag_limit = false;
    }
    output->is_finishing = true;
    ipb_wire_reader_limit(&output->wire);
    if (!with_frames)
        ipb_wire_reader_end(&output->wire);
    pump_soon(output);
}

void
ipb_output_stop(IpbOutput *output)
{
    if (output->is_stopped)
        return;
    output->is_stopped = true;
    if (output->old != NULL)
        ipb_child_output_set_paused(output->old, true);
    g_clear_pointer(&output->pump_timer, ipb_timer_free);
    if (!output->is_pumping)
        update_watches(output);
}

void
ipb_output_free(IpbOutput *output)
{
    if (output == NULL)
        return;
    g_assert(!output->is_pumping);
    for (int i = 0; i < 2; i++) {
        ipb_watch_free(output->pipes[i].watch);
        ipb_buffer_clear(&output->pipes[i].buffer);
        ipb_fd_close(&output->pipes[i].fd);
    }
    ipb_child_output_free(output->old);
    ipb_watch_free(output->wire_watch);
    ipb_wire_reader_clear(&output->wire);
    ipb_timer_free(output->pump_timer);
    g_string_free(output->text, TRUE);
    ipb_loop_unref(output->loop);
    g_free(output);
}
