/* SPDX-License-Identifier: Apache-2.0
 *
 * The message channel of standard input and output; see the header.
 */
#include "serve/stdio-channel.h"

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

/* Bytes that wait for the client. The conversation stops requests long before; this is for the
 * responses that were on their way then. */
#define MAX_PENDING (2048ull * 1024 * 1024)
#define READ_SIZE 65536

typedef struct {
    IpbMessageChannel channel;
    IpbLoop *loop;
    int in, out;
    /* Of @in, if it can be watched */
    IpbWatch *watch;
    /* Reads @in if it cannot be watched (a file or /dev/null, which is always ready); also reports
     * the end */
    IpbTimer *timer;
    IpbWriteQueue *queue;
    IpbLineReader lines;
    GError *why;
    /* Within a line that is too long */
    bool is_skipping;
    bool is_paused;
    /* The writer is gone. Pausing has no effect then, because it would hide the end of input. */
    bool is_hung_up;
    bool has_ended;
} StdioChannel;

bool
ipb_stdio_channel_take_over(int *ret_in, int *ret_out, GError **error)
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

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_end_timer(void *data)
{
    StdioChannel *stdio = data;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    stdio->channel.funcs.on_end(stdio->why, stdio->channel.data); /* may free */
}

/* Reported from the loop, so that sending never calls back. */
static void
end(StdioChannel *stdio, GError *why)
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

/* --- input ------------------------------------------------------------------------------------ */

static void
deliver(StdioChannel *stdio, const char *line, size_t size)
{
    stdio->channel.funcs.on_message(line, size, stdio->channel.data);
}

static void
deliver_piece(StdioChannel *stdio, const char *piece, size_t size, bool is_last)
{
    stdio->channel.funcs.on_long_message(piece, size, is_last, stdio->channel.data);
}

static void
deliver_lines(StdioChannel *stdio)
{
    const char *line;
    size_t size;
    while (!stdio->has_ended && ipb_line_reader_next(&stdio->lines, &line, &size))
        deliver(stdio, line, size);
}

/* Consumes bytes of the line that is too long, up to its end if that is there. */
static void
skip(StdioChannel *stdio, const char **bytes, size_t *size)
{
    const char *newline = memchr(*bytes, '\n', *size);
    size_t n = newline != NULL ? (size_t) (newline - *bytes) : *size;
    stdio->is_skipping = newline == NULL;
    deliver_piece(stdio, *bytes, n, newline != NULL);
    n += newline != NULL;
    *bytes += n;
    *size -= n;
}

static void
begin_to_skip(StdioChannel *stdio)
{
    const char *line;
    size_t size;
    stdio->is_skipping = true;
    if (ipb_line_reader_rest(&stdio->lines, &line, &size))
        deliver_piece(stdio, line, size, false);
    /* Returns its memory. */
    ipb_line_reader_clear(&stdio->lines);
    ipb_line_reader_init(&stdio->lines, IPB_MESSAGE_CHANNEL_MAX_SIZE);
}

/* A chunk is shorter than the maximum line, so of all lines that end in it only the first can be
 * too long. */
static void
take(StdioChannel *stdio, const char *bytes, size_t size)
{
    if (!stdio->is_skipping && !ipb_line_reader_push(&stdio->lines, bytes, size, NULL))
        begin_to_skip(stdio);
    else if (!stdio->is_skipping)
        size = 0;
    if (stdio->is_skipping)
        skip(stdio, &bytes, &size);
    if (size > 0)
        ipb_line_reader_push(&stdio->lines, bytes, size, NULL);
    deliver_lines(stdio);
}

static void
take_end(StdioChannel *stdio)
{
    const char *rest;
    size_t size;
    if (stdio->is_skipping)
        deliver_piece(stdio, "", 0, true);
    else if (ipb_line_reader_rest(&stdio->lines, &rest, &size) && size > 0)
        deliver(stdio, rest, size);
}

/* One read; false at the end of input. */
static bool
read_some(StdioChannel *stdio)
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

/* While paused, only the end of the writer is reported. */
static void
set_events(StdioChannel *stdio)
{
    bool is_paused = stdio->is_paused && !stdio->is_hung_up;
    if (stdio->watch != NULL)
        ipb_watch_set_events(stdio->watch, is_paused ? EPOLLRDHUP : EPOLLIN);
}

static void
on_readable(uint32_t events, void *data)
{
    StdioChannel *stdio = data;
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
    StdioChannel *stdio = data;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    bool has_more = !stdio->is_paused && read_some(stdio);
    /* What was read may have paused and resumed the channel, which made a timer. */
    if (has_more && stdio->timer == NULL)
        stdio->timer = ipb_timer_new(stdio->loop, 0, on_always_ready, stdio);
}

static void
set_paused(IpbMessageChannel *channel, bool is_paused)
{
    StdioChannel *stdio = (StdioChannel *) channel;
    if (stdio->is_paused == is_paused || stdio->has_ended)
        return;
    stdio->is_paused = is_paused;
    set_events(stdio);
    if (stdio->watch == NULL && !is_paused && stdio->timer == NULL)
        stdio->timer = ipb_timer_new(stdio->loop, 0, on_always_ready, stdio);
}

/* epoll refuses files and /dev/null, which never block: a timer reads those. */
static bool
start_reading(StdioChannel *stdio, GError **error)
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

/* --- output ----------------------------------------------------------------------------------- */

static void
send_line(IpbMessageChannel *channel, const IpbRpcMessage *message)
{
    StdioChannel *stdio = (StdioChannel *) channel;
    /* One write, so that a message wakes the reader once. */
    g_autofree char *line = g_malloc(message->size + 1);
    memcpy(line, message->text, message->size);
    line[message->size] = '\n';
    GError *error = NULL;
    if (!ipb_write_queue_push(stdio->queue, line, message->size + 1, &error))
        end(stdio, error);
}

static size_t
get_pending(const IpbMessageChannel *channel)
{
    return ipb_write_queue_size(((const StdioChannel *) channel)->queue);
}

static void
on_write_error(int saved_errno, void *data)
{
    GError *error = NULL;
    ipb_error_set_errno(&error, saved_errno, "cannot write to standard output");
    end(data, error);
}

static void
on_drained(void *data)
{
    StdioChannel *stdio = data;
    stdio->channel.funcs.on_drained(stdio->channel.data);
}

static void
flush(IpbMessageChannel *channel, unsigned timeout_ms)
{
    StdioChannel *stdio = (StdioChannel *) channel;
    int64_t deadline = g_get_monotonic_time() + (int64_t) timeout_ms * 1000;
    while (ipb_write_queue_size(stdio->queue) > 0) {
        int64_t left_ms = (deadline - g_get_monotonic_time()) / 1000;
        struct pollfd fd = {.fd = stdio->out, .events = POLLOUT};
        if (left_ms <= 0 || poll(&fd, 1, (int) left_ms) <= 0)
            return;
        g_main_context_iteration(ipb_loop_context(stdio->loop), FALSE);
    }
}

/* --- life ------------------------------------------------------------------------------------- */

static void
free_channel(IpbMessageChannel *channel)
{
    StdioChannel *stdio = (StdioChannel *) channel;
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

IpbMessageChannel *
ipb_stdio_channel_new(IpbLoop *loop, int in, int out, GError **error)
{
    static const IpbMessageChannelOps OPS = {
        .send = send_line,
        .set_paused = set_paused,
        .pending = get_pending,
        .flush = flush,
        .free = free_channel,
    };
    static const IpbWriteQueueFuncs QUEUE_FUNCS = {on_write_error, on_drained};
    StdioChannel *stdio = g_new0(StdioChannel, 1);
    stdio->channel.ops = &OPS;
    stdio->loop = ipb_loop_ref(loop);
    stdio->in = in;
    stdio->out = out;
    ipb_line_reader_init(&stdio->lines, IPB_MESSAGE_CHANNEL_MAX_SIZE);
    stdio->queue = ipb_write_queue_new(loop, out, MAX_PENDING, &QUEUE_FUNCS, stdio, error);
    if (stdio->queue == NULL || !start_reading(stdio, error)) {
        free_channel(&stdio->channel);
        return NULL;
    }
    return &stdio->channel;
}
