/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines over standard input and output; see the header.
 */
#include "serve/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "json/lines.h"

/* Owners pause what they can long before; this is for the answers that were on their way then. */
#define MAX_UNREAD (2048ull * 1024 * 1024)
#define READ_SIZE 65536

struct IpbStdio {
    IpbLoop *loop;
    int in, out;
    IpbWatch *watch; /* of @in, where it can be watched */
    IpbTimer *timer; /* else: a file or /dev/null, always ready; also tells the end */
    IpbWriteQueue *queue;
    IpbLineReader lines;
    GError *why;
    bool is_skipping; /* within a line that is too long */
    bool is_paused;
    bool
        is_hung_up; /* nobody writes any more: what there is ends soon, and pausing would hide its end */
    bool has_ended;
    IpbStdioFuncs funcs;
    void *data;
};

bool
ipb_stdio_take_over(int *ret_in, int *ret_out, GError **error)
{
    ipb_autofd in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    ipb_autofd out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    ipb_autofd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (in < 0 || out < 0)
        return ipb_error_set_errno(error, errno, "standard input and output must be open");
    if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
        (dup2(STDERR_FILENO, STDOUT_FILENO) < 0 && dup2(null_fd, STDOUT_FILENO) < 0))
        return ipb_error_set_errno(error, errno, "cannot set standard input and output aside");
    *ret_in = ipb_fd_steal(&in);
    *ret_out = ipb_fd_steal(&out);
    return true;
}

static void
on_end_timer(void *data)
{
    IpbStdio *stdio = data;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    stdio->funcs.on_end(stdio->why, stdio->data); /* may free */
}

/* Told from the loop, so that sending never calls back. */
static void
end(IpbStdio *stdio, GError *why)
{
    if (stdio->has_ended) {
        g_clear_error(&why);
        return;
    }
    stdio->has_ended = true;
    stdio->why = why;
    g_clear_pointer(&stdio->watch, ipb_watch_free);
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    stdio->timer = ipb_timer_new(stdio->loop, 0, on_end_timer, stdio);
}

static void
tell_lines(IpbStdio *stdio)
{
    const char *line;
    size_t size;
    while (!stdio->has_ended && ipb_line_reader_next(&stdio->lines, &line, &size))
        stdio->funcs.on_line(line, size, stdio->data);
}

/* The end of the line that is too long, if it is there, and what comes behind it. */
static void
skip(IpbStdio *stdio, const char **bytes, size_t *size)
{
    const char *newline = memchr(*bytes, '\n', *size);
    size_t n = newline != NULL ? (size_t) (newline - *bytes) : *size;
    stdio->is_skipping = newline == NULL;
    stdio->funcs.on_long_line(*bytes, n, newline != NULL, stdio->data);
    n += newline != NULL;
    *bytes += n;
    *size -= n;
}

static void
begin_to_skip(IpbStdio *stdio)
{
    const char *line;
    size_t size;
    stdio->is_skipping = true;
    if (ipb_line_reader_rest(&stdio->lines, &line, &size))
        stdio->funcs.on_long_line(line, size, false, stdio->data);
    ipb_line_reader_clear(&stdio->lines); /* its memory */
    ipb_line_reader_init(&stdio->lines, IPB_STDIO_MAX_LINE);
}

/* Of all lines that end in a chunk, which is shorter than a line may be, only the first one can be too long. */
static void
take(IpbStdio *stdio, const char *bytes, size_t size)
{
    if (!stdio->is_skipping && !ipb_line_reader_push(&stdio->lines, bytes, size, NULL))
        begin_to_skip(stdio);
    else if (!stdio->is_skipping)
        size = 0;
    if (stdio->is_skipping)
        skip(stdio, &bytes, &size);
    if (size > 0)
        ipb_line_reader_push(&stdio->lines, bytes, size, NULL);
    tell_lines(stdio);
}

static void
take_end(IpbStdio *stdio)
{
    const char *rest;
    size_t size;
    if (stdio->is_skipping)
        stdio->funcs.on_long_line("", 0, true, stdio->data);
    else if (ipb_line_reader_rest(&stdio->lines, &rest, &size) && size > 0)
        stdio->funcs.on_line(rest, size, stdio->data);
}

/* One read; false at the end of input. */
static bool
read_some(IpbStdio *stdio)
{
    char chunk[READ_SIZE];
    ssize_t n = read(stdio->in, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    g_autoptr(GError) error = NULL;
    if (n > 0) {
        take(stdio, chunk, (size_t) n);
        return !stdio->has_ended;
    }
    if (n == 0)
        take_end(stdio);
    else
        ipb_error_set_errno(&error, errno, "cannot read standard input");
    end(stdio, g_steal_pointer(&error));
    return false;
}

/* While it is paused, only the end of the writer is reported. */
static void
set_events(IpbStdio *stdio)
{
    bool is_paused = stdio->is_paused && !stdio->is_hung_up;
    if (stdio->watch != NULL)
        ipb_watch_set_events(stdio->watch, is_paused ? EPOLLRDHUP : EPOLLIN);
}

static void
on_readable(uint32_t events, void *data)
{
    IpbStdio *stdio = data;
    if (!stdio->is_paused || stdio->is_hung_up) {
        read_some(stdio);
    } else if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) {
        stdio->is_hung_up = true;
        set_events(stdio);
    }
}

static void
on_always_ready(void *data)
{
    IpbStdio *stdio = data;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    bool goes_on = !stdio->is_paused && read_some(stdio);
    if (goes_on && stdio->timer == NULL) /* else it was paused and resumed by what was read */
        stdio->timer = ipb_timer_new(stdio->loop, 0, on_always_ready, stdio);
}

static void
on_write_error(int saved_errno, void *data)
{
    IpbStdio *stdio = data;
    GError *error = NULL;
    ipb_error_set_errno(&error, saved_errno, "cannot write to standard output");
    end(stdio, error);
}

static void
on_drained(void *data)
{
    IpbStdio *stdio = data;
    if (stdio->funcs.on_drained != NULL)
        stdio->funcs.on_drained(stdio->data);
}

static const IpbWriteQueueFuncs queue_funcs = {on_write_error, on_drained};

/* epoll refuses files and /dev/null, which never block: those are read from a timer. */
static bool
start_reading(IpbStdio *stdio, GError **error)
{
    struct stat status;
    if (fstat(stdio->in, &status) < 0)
        return ipb_error_set_errno(error, errno, "cannot use standard input");
    bool can_watch = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(stdio->in);
    if (!can_watch) {
        stdio->timer = ipb_timer_new(stdio->loop, 0, on_always_ready, stdio);
        return true;
    }
    stdio->watch = ipb_watch_new(stdio->loop, stdio->in, EPOLLIN, on_readable, stdio, error);
    return stdio->watch != NULL;
}

IpbStdio *
ipb_stdio_new(IpbLoop *loop, int in, int out, const IpbStdioFuncs *funcs, void *data,
              GError **error)
{
    IpbStdio *stdio = g_new0(IpbStdio, 1);
    stdio->loop = ipb_loop_ref(loop);
    stdio->in = in;
    stdio->out = out;
    stdio->funcs = *funcs;
    stdio->data = data;
    ipb_line_reader_init(&stdio->lines, IPB_STDIO_MAX_LINE);
    stdio->queue = ipb_write_queue_new(loop, out, MAX_UNREAD, &queue_funcs, stdio, error);
    if (stdio->queue == NULL || !start_reading(stdio, error)) {
        ipb_stdio_free(stdio);
        return NULL;
    }
    return stdio;
}

void
ipb_stdio_send(IpbStdio *stdio, const char *text, size_t size)
{
    /* In one write, so that a message costs the reader one wake-up. */
    g_autofree char *line = g_malloc(size + 1);
    memcpy(line, text, size);
    line[size] = '\n';
    GError *error = NULL;
    if (!ipb_write_queue_push(stdio->queue, line, size + 1, &error))
        end(stdio, error);
}

void
ipb_stdio_set_paused(IpbStdio *stdio, bool is_paused)
{
    if (stdio->is_paused == is_paused || stdio->has_ended)
        return;
    stdio->is_paused = is_paused;
    set_events(stdio);
    if (stdio->watch == NULL && !is_paused && stdio->timer == NULL)
        stdio->timer = ipb_timer_new(stdio->loop, 0, on_always_ready, stdio);
}

size_t
ipb_stdio_pending(const IpbStdio *stdio)
{
    return ipb_write_queue_size(stdio->queue);
}

void
ipb_stdio_flush(IpbStdio *stdio, unsigned timeout_ms)
{
    int64_t deadline = g_get_monotonic_time() + (int64_t) timeout_ms * 1000;
    while (ipb_write_queue_size(stdio->queue) > 0) {
        int64_t left_ms = (deadline - g_get_monotonic_time()) / 1000;
        struct pollfd fd = {.fd = stdio->out, .events = POLLOUT};
        if (left_ms <= 0 || poll(&fd, 1, (int) left_ms) <= 0)
            return;
        g_main_context_iteration(ipb_loop_context(stdio->loop), FALSE);
    }
}

void
ipb_stdio_free(IpbStdio *stdio)
{
    if (stdio == NULL)
        return;
    ipb_watch_free(stdio->watch);
    ipb_timer_free(stdio->timer);
    ipb_write_queue_free(stdio->queue);
    ipb_line_reader_clear(&stdio->lines);
    ipb_fd_close(&stdio->in);
    ipb_fd_close(&stdio->out);
    g_clear_error(&stdio->why);
    ipb_loop_unref(stdio->loop);
    g_free(stdio);
}
