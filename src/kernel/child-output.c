/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipes of cells that have ended; see the header.
 */
#include "kernel/child-output.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "kernel/marker.h"

#define READ_SIZE (16 * 1024)

typedef struct {
    IpbChildOutput *output;
    uint64_t cell;
    bool is_stderr;
    int fd;
    IpbWatch *watch;
    IpbTimer *rest_timer; /* there is a rest to deliver */
    GByteArray *rest;     /* or NULL */
    IpbUtf8Decoder decoder;
} Source;

struct IpbChildOutput {
    IpbLoop *loop;
    IpbChildTextFunc on_text;
    void *data;
    GPtrArray *sources; /* Source */
    bool is_paused;
};

static void
free_source(void *data)
{
    Source *source = data;
    ipb_watch_free(source->watch);
    ipb_timer_free(source->rest_timer);
    if (source->rest != NULL)
        g_byte_array_unref(source->rest);
    ipb_fd_close(&source->fd);
    g_free(source);
}

static void
deliver(Source *source, const uint8_t *bytes, size_t size, bool is_end)
{
    g_autoptr(GString) text = g_string_sized_new(size + 1);
    ipb_marker_decode_text(&source->decoder, bytes, size, text);
    if (is_end)
        ipb_marker_decode_end(&source->decoder, text);
    if (text->len > 0)
        source->output->on_text(source->cell, source->is_stderr, text->str, text->len,
                                source->output->data);
}

static void
deliver_rest(Source *source)
{
    g_clear_pointer(&source->rest_timer, ipb_timer_free);
    g_autoptr(GByteArray) rest = g_steal_pointer(&source->rest);
    if (rest != NULL)
        deliver(source, rest->data, rest->len, /* is_end= */ false);
}

static void
update_watch(Source *source)
{
    ipb_watch_set_events(source->watch, source->output->is_paused ? 0 : EPOLLIN);
}

static void
on_rest_timer(void *data)
{
    Source *source = data;
    g_clear_pointer(&source->rest_timer, ipb_timer_free);
    if (!source->output->is_paused)
        deliver_rest(source);
}

/* False at the end of file. */
static bool
read_some(Source *source, size_t max)
{
    uint8_t bytes[READ_SIZE];
    ssize_t n = read(source->fd, bytes, MIN(max, sizeof bytes));
    if (n > 0)
        deliver(source, bytes, (size_t) n, /* is_end= */ false);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void
on_readable(uint32_t events, void *data)
{
    Source *source = data;
    deliver_rest(source);
    if (read_some(source, READ_SIZE))
        return;
    deliver(source, NULL, 0, /* is_end= */ true);
    g_ptr_array_remove(source->output->sources, source);
}

IpbChildOutput *
ipb_child_output_new(IpbLoop *loop, IpbChildTextFunc on_text, void *data)
{
    IpbChildOutput *output = g_new0(IpbChildOutput, 1);
    output->loop = ipb_loop_ref(loop);
    output->on_text = on_text;
    output->data = data;
    output->sources = g_ptr_array_new_with_free_func(free_source);
    return output;
}

bool
ipb_child_output_add(IpbChildOutput *output, uint64_t cell, bool is_stderr, int fd,
                     const uint8_t *rest, size_t rest_size, GError **error)
{
    Source *source = g_new0(Source, 1);
    source->output = output;
    source->cell = cell;
    source->is_stderr = is_stderr;
    source->fd = fd;
    source->watch = ipb_watch_new(output->loop, fd, 0, on_readable, source, error);
    if (source->watch == NULL) {
        free_source(source);
        return false;
    }
    if (rest_size > 0) {
        source->rest = g_byte_array_append(g_byte_array_new(), rest, (guint) rest_size);
        source->rest_timer = ipb_timer_new(output->loop, 0, on_rest_timer, source);
    }
    g_ptr_array_add(output->sources, source);
    update_watch(source);
    return true;
}

bool
ipb_child_output_is_full(const IpbChildOutput *output)
{
    return output->sources->len + 2 > 2 * IPB_CHILD_OUTPUT_MAX;
}

void
ipb_child_output_set_paused(IpbChildOutput *output, bool paused)
{
    output->is_paused = paused;
    for (guint i = 0; i < output->sources->len; i++) {
        Source *source = g_ptr_array_index(output->sources, i);
        update_watch(source);
        if (!paused && source->rest != NULL && source->rest_timer == NULL)
            source->rest_timer = ipb_timer_new(output->loop, 0, on_rest_timer, source);
    }
}

static void
drain(Source *source)
{
    int size = 0;
    if (ioctl(source->fd, FIONREAD, &size) < 0)
        size = 0;
    deliver_rest(source);
    for (; size > 0 && read_some(source, (size_t) size); size -= READ_SIZE)
        ;
    deliver(source, NULL, 0, /* is_end= */ true);
}

void
ipb_child_output_drain(IpbChildOutput *output)
{
    while (output->sources->len > 0) {
        drain(g_ptr_array_index(output->sources, 0));
        g_ptr_array_remove_index(output->sources, 0);
    }
}

void
ipb_child_output_free(IpbChildOutput *output)
{
    if (output == NULL)
        return;
    g_ptr_array_unref(output->sources);
    ipb_loop_unref(output->loop);
    g_free(output);
}
