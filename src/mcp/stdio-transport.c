/* SPDX-License-Identifier: Apache-2.0
 *
 * MCP over the stdio of a child process; see the header and docs/internals/mcp-client.md.
 *
 * Ownership: the transport owns the child and our ends of its three pipes. It is reference-counted
 * inside, so that a callback may free it. The reader, and the line in it that a callback got, live
 * until the function that called back returns.
 *
 * The child's exit ends the connection, not the end of its output: a grandchild may hold the pipes
 * open, and an exit status says more. A server that closes its pipes but continues to run has
 * EOF_GRACE_MS to exit.
 */
#include "mcp/stdio-transport.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/child.h"
#include "base/error.h"
#include "base/fd.h"
#include "json/lines.h"
#include "mcp/server-env.h"
#include "mcp/server-process.h"

/* Size of messages that wait because the server does not read. */
#define MAX_QUEUE (64 * 1024 * 1024)
/* Read from one pipe before other sources get their turn. */
#define MAX_READ_PER_WAKEUP (256 * 1024)
/* Read from a pipe after the server has exited. It is more than a pipe can hold, so reading ends
 * even if other processes still write. */
#define MAX_DRAIN (2 * 1024 * 1024)
#define READ_CHUNK (64 * 1024)
/* The time between the steps of the shutdown: stdin closed, SIGTERM, SIGKILL. */
#define SHUTDOWN_STEP_MS 2000
/* The time from the end of a pipe to the exit, which says why. */
#define EOF_GRACE_MS 1000

typedef enum {
    STATE_OPEN,
    STATE_ENDING,  /* a pipe has ended; the exit status is awaited */
    STATE_FAILED,  /* on_closed was called; the server is shut down */
    STATE_CLOSING, /* close was called; the server is shut down */
    STATE_FREED,
} State;

typedef struct {
    IpbTransport base;
    unsigned refs;
    IpbLoop *loop;
    State state;
    char *name;
    char *command; /* for messages */
    IpbServerLog *log;
    IpbServerProcess *process;
    int stdin_fd, stdout_fd, stderr_fd; /* our ends; -1 when closed */
    IpbWriteQueue *queue;
    IpbWatch *stdout_watch, *stderr_watch;
    IpbLineReader reader;
    size_t max_message;
    IpbTimer *timer; /* for EOF_GRACE_MS, or to report a failure or the end from the loop */
    GError *failure; /* reported by the timer */
    void (*close_done)(void *data);
    void *close_data;
} StdioTransport;

static void
unref(StdioTransport *stdio)
{
    if (--stdio->refs > 0)
        return;
    ipb_line_reader_clear(&stdio->reader);
    ipb_server_log_unref(stdio->log);
    ipb_loop_unref(stdio->loop);
    g_free(stdio->name);
    g_free(stdio->command);
    g_free(stdio);
}

static StdioTransport *
hold(StdioTransport *stdio)
{
    stdio->refs++;
    return stdio;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(StdioTransport, unref)

static void
close_stdin(StdioTransport *stdio)
{
    g_clear_pointer(&stdio->queue, ipb_write_queue_free);
    ipb_fd_close(&stdio->stdin_fd);
}

static void
close_stdout(StdioTransport *stdio)
{
    g_clear_pointer(&stdio->stdout_watch, ipb_watch_free);
    ipb_fd_close(&stdio->stdout_fd);
}

static void
close_stderr(StdioTransport *stdio)
{
    g_clear_pointer(&stdio->stderr_watch, ipb_watch_free);
    ipb_fd_close(&stdio->stderr_fd);
}

static void
start_shutdown(StdioTransport *stdio)
{
    close_stdin(stdio);
    ipb_server_process_stop(stdio->process, SHUTDOWN_STEP_MS);
}

static char *
last_stderr(const IpbTransport *transport)
{
    return ipb_server_log_last_lines(((const StdioTransport *) transport)->log);
}

/* Makes the error that ends the connection: @text and the last lines of stderr. */
static GError *
make_error(StdioTransport *stdio, int code, const char *text)
{
    g_autofree char *words = last_stderr(&stdio->base);
    return words == NULL ? g_error_new(IPYBOX_ERROR, code, "MCP server %s %s", stdio->name, text)
                         : g_error_new(IPYBOX_ERROR, code,
                                       "MCP server %s %s. The end of its standard error:\n%s",
                                       stdio->name, text, words);
}

/* Call it from the loop only. Takes @why. */
static void
fail(StdioTransport *stdio, GError *why)
{
    g_autoptr(GError) owned = why;
    if (stdio->state > STATE_ENDING)
        return;
    stdio->state = STATE_FAILED;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    g_clear_error(&stdio->failure);
    start_shutdown(stdio);
    stdio->base.funcs.on_closed(owned, stdio->base.data); /* may free the transport */
}

static void
on_timer(void *data)
{
    StdioTransport *stdio = data;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    if (stdio->state == STATE_CLOSING)
        stdio->close_done(stdio->close_data); /* may free the transport */
    else if (stdio->failure != NULL)
        fail(stdio, g_steal_pointer(&stdio->failure));
}

/* A pipe has ended while the server runs. Usually the server is about to exit, so its status is
 * awaited. */
static void
await_exit(StdioTransport *stdio, const char *text)
{
    if (stdio->state != STATE_OPEN)
        return;
    stdio->state = STATE_ENDING;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    g_clear_error(&stdio->failure);
    stdio->failure = make_error(stdio, IPYBOX_ERROR_SERVER, text);
    stdio->timer = ipb_timer_new(stdio->loop, EOF_GRACE_MS, on_timer, stdio);
}

/* Reports a failure from the loop, not from within the function that found it. */
static void
fail_later(StdioTransport *stdio, int code, const char *text)
{
    if (stdio->state > STATE_ENDING)
        return;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    g_clear_error(&stdio->failure);
    stdio->failure = make_error(stdio, code, text);
    stdio->timer = ipb_timer_new(stdio->loop, 0, on_timer, stdio);
}

static bool
is_receiving(const StdioTransport *stdio)
{
    return stdio->state <= STATE_ENDING;
}

static bool
is_blank(const char *line, size_t size)
{
    while (size > 0 && strchr(" \t\r", line[size - 1]) != NULL && line[size - 1] != '\0')
        size--;
    return size == 0;
}

/* The caller holds @stdio. */
static void
take_output(StdioTransport *stdio, const char *bytes, size_t size)
{
    g_autoptr(GError) error = NULL;
    if (!ipb_line_reader_push(&stdio->reader, bytes, size, &error)) {
        g_autofree char *text = g_strdup_printf(
            "sent a message of more than %.4g MiB, the maximum" IPB_MCP_LIMIT_HINT("message_size"),
            (double) stdio->max_message / 1024 / 1024);
        fail(stdio, make_error(stdio, IPYBOX_ERROR_LIMIT, text));
        return;
    }
    const char *line;
    size_t line_size;
    while (is_receiving(stdio) && ipb_line_reader_next(&stdio->reader, &line, &line_size))
        if (!is_blank(line, line_size))
            stdio->base.funcs.on_message(line, line_size, stdio->base.data);
}

/* Handles the end of stdout: a last line without a newline may be an answer. */
static void
take_output_rest(StdioTransport *stdio)
{
    const char *line;
    size_t size;
    if (is_receiving(stdio) && ipb_line_reader_rest(&stdio->reader, &line, &size) &&
        !is_blank(line, size))
        stdio->base.funcs.on_message(line, size, stdio->base.data);
}

/* Reads what is available, at most @max bytes. False: the pipe has ended. */
static bool
read_stdout(StdioTransport *stdio, size_t max)
{
    char chunk[READ_CHUNK];
    for (size_t total = 0; total < max && stdio->stdout_fd >= 0;) {
        ssize_t n = read(stdio->stdout_fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0)
            return false;
        total += (size_t) n;
        if (is_receiving(stdio))
            take_output(stdio, chunk, (size_t) n);
    }
    return true;
}

static bool
read_stderr(StdioTransport *stdio, size_t max)
{
    char chunk[READ_CHUNK];
    for (size_t total = 0; total < max && stdio->stderr_fd >= 0;) {
        ssize_t n = read(stdio->stderr_fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        ipb_server_log_add_stderr(stdio->log, chunk, n > 0 ? (size_t) n : 0, n <= 0);
        if (n <= 0)
            return false;
        total += (size_t) n;
    }
    return true;
}

static void
on_stdout(uint32_t events, void *data)
{
    g_autoptr(StdioTransport) stdio = hold(data);
    if (read_stdout(stdio, MAX_READ_PER_WAKEUP))
        return;
    take_output_rest(stdio);
    close_stdout(stdio);
    await_exit(stdio, "closed its standard output");
}

static void
on_stderr(uint32_t events, void *data)
{
    g_autoptr(StdioTransport) stdio = hold(data);
    if (!read_stderr(stdio, MAX_READ_PER_WAKEUP))
        close_stderr(stdio);
}

static void
on_write_error(int saved_errno, void *data)
{
    StdioTransport *stdio = data;
    close_stdin(stdio);
    await_exit(stdio, "closed its standard input");
}

/* Fails with an error that a sandbox finds only when it starts. */
static void
fail_start(StdioTransport *stdio, const GError *error)
{
    bool is_missing = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_autofree char *hint = is_missing ? ipb_server_env_hint(stdio->command) : NULL;
    g_autofree char *text = g_strdup_printf("cannot be started: %s%s%s", error->message,
                                            hint != NULL ? ". " : "", hint != NULL ? hint : "");
    fail(stdio, make_error(stdio, error->domain == IPYBOX_ERROR ? error->code : IPYBOX_ERROR_SYSTEM,
                           text));
}

static void
on_exit_status(IpbServerProcess *process, int wait_status, const GError *error, void *data)
{
    g_autoptr(StdioTransport) stdio = hold(data);
    /* stderr is read first, so that errors contain its last lines. */
    if (stdio->stderr_fd >= 0 && read_stderr(stdio, MAX_DRAIN))
        ipb_server_log_add_stderr(stdio->log, NULL, 0, /* is_end= */ true);
    close_stderr(stdio);
    if (stdio->stdout_fd >= 0) {
        read_stdout(stdio, MAX_DRAIN);
        take_output_rest(stdio);
    }
    close_stdout(stdio);
    close_stdin(stdio);
    if (stdio->state == STATE_CLOSING) {
        /* else a callback has just closed it, and the timer reports the end */
        if (stdio->timer == NULL)
            stdio->close_done(stdio->close_data);
    } else if (is_receiving(stdio) && error != NULL) {
        fail_start(stdio, error);
    } else if (is_receiving(stdio)) {
        g_autofree char *status = ipb_child_describe_status(wait_status);
        g_autofree char *text = g_strdup_printf("has ended: %s", status);
        fail(stdio, make_error(stdio, IPYBOX_ERROR_SERVER, text));
    }
}

static bool
has_room(const IpbTransport *transport, size_t size)
{
    const StdioTransport *stdio = (const StdioTransport *) transport;
    return stdio->queue == NULL ||
           (size < MAX_QUEUE && ipb_write_queue_size(stdio->queue) < MAX_QUEUE - size);
}

static void
send_message(IpbTransport *transport, const IpbTransportMessage *message)
{
    const char *text = message->text;
    size_t size = message->size;
    StdioTransport *stdio = (StdioTransport *) transport;
    if (stdio->queue == NULL)
        return;
    /* Check before anything is written: half a message would be worse than none. */
    if (!has_room(transport, size)) {
        g_autofree char *why = g_strdup_printf("does not read: more than %d MiB wait to be sent",
                                               MAX_QUEUE / 1024 / 1024);
        fail_later(stdio, IPYBOX_ERROR_LIMIT, why);
        return;
    }
    /* on_write_error reports failures. */
    if (ipb_write_queue_push(stdio->queue, text, size, NULL))
        ipb_write_queue_push(stdio->queue, "\n", 1, NULL);
}

static void
close_transport(IpbTransport *transport, void (*done)(void *data), void *data)
{
    StdioTransport *stdio = (StdioTransport *) transport;
    stdio->state = STATE_CLOSING;
    stdio->close_done = done;
    stdio->close_data = data;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    g_clear_error(&stdio->failure);
    start_shutdown(stdio);
    if (!ipb_server_process_is_running(stdio->process))
        stdio->timer = ipb_timer_new(stdio->loop, 0, on_timer, stdio);
}

static void
free_transport(IpbTransport *transport)
{
    StdioTransport *stdio = (StdioTransport *) transport;
    stdio->state = STATE_FREED;
    g_clear_pointer(&stdio->timer, ipb_timer_free);
    g_clear_error(&stdio->failure);
    g_clear_pointer(&stdio->process, ipb_server_process_free);
    close_stdin(stdio);
    close_stdout(stdio);
    close_stderr(stdio);
    unref(stdio);
}

static const IpbTransportOps STDIO_OPS = {
    .send = send_message,
    .has_room = has_room,
    .last_stderr = last_stderr,
    .close = close_transport,
    .free = free_transport,
};

/* The child's ends of the pipes. */
typedef struct {
    int stdin_fd, stdout_fd, stderr_fd;
} ChildEnds;

static void
close_child_ends(ChildEnds *ends)
{
    ipb_fd_close(&ends->stdin_fd);
    ipb_fd_close(&ends->stdout_fd);
    ipb_fd_close(&ends->stderr_fd);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ChildEnds, close_child_ends)

static bool
make_pipe(int *ret_read, int *ret_write, GError **error)
{
    int fds[2];
    if (!ipb_fd_pipe(fds, error))
        return false;
    *ret_read = fds[0];
    *ret_write = fds[1];
    return true;
}

static bool
make_pipes(StdioTransport *stdio, ChildEnds *ends, GError **error)
{
    static const IpbWriteQueueFuncs QUEUE_FUNCS = {.on_error = on_write_error};
    if (!make_pipe(&ends->stdin_fd, &stdio->stdin_fd, error) ||
        !make_pipe(&stdio->stdout_fd, &ends->stdout_fd, error) ||
        !make_pipe(&stdio->stderr_fd, &ends->stderr_fd, error) ||
        !ipb_fd_set_nonblocking(stdio->stdout_fd, true, error) ||
        !ipb_fd_set_nonblocking(stdio->stderr_fd, true, error))
        return false;
    stdio->stdout_watch =
        ipb_watch_new(stdio->loop, stdio->stdout_fd, EPOLLIN, on_stdout, stdio, error);
    if (stdio->stdout_watch == NULL)
        return false;
    stdio->stderr_watch =
        ipb_watch_new(stdio->loop, stdio->stderr_fd, EPOLLIN, on_stderr, stdio, error);
    if (stdio->stderr_watch == NULL)
        return false;
    /* One byte more for the newline, which has_room does not count. */
    stdio->queue = ipb_write_queue_new(stdio->loop, stdio->stdin_fd, MAX_QUEUE + 1, &QUEUE_FUNCS,
                                       stdio, error);
    return stdio->queue != NULL;
}

static bool
spawn(StdioTransport *stdio, const IpbStdioTransportOptions *options, const ChildEnds *ends,
      GError **error)
{
    const IpbServerParams *params = options->params;
    g_auto(GStrv) env = ipb_server_env_make(options->base_env, params->env);
    const IpbServerProcessOptions process = {
        .params = params,
        .cwd = options->cwd,
        .env = (const char *const *) env,
        .state_dir = options->state_dir,
        .keep_out = options->keep_out,
        .stdin_fd = ends->stdin_fd,
        .stdout_fd = ends->stdout_fd,
        .stderr_fd = ends->stderr_fd,
        .log = stdio->log,
    };
    stdio->process = ipb_server_process_new(stdio->loop, &process, on_exit_status, stdio, error);
    if (stdio->process != NULL)
        return true;
    if (error != NULL && g_error_matches(*error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_autofree char *hint = ipb_server_env_hint(params->command);
        if (hint != NULL) {
            g_autofree char *message = g_steal_pointer(&(*error)->message);
            (*error)->message = g_strdup_printf("%s. %s", message, hint);
        }
    }
    g_prefix_error(error, "MCP server %s cannot be started: ", options->name);
    return false;
}

IpbTransport *
ipb_transport_new_stdio(IpbLoop *loop, const IpbStdioTransportOptions *options,
                        const IpbTransportFuncs *funcs, void *data, GError **error)
{
    StdioTransport *stdio = g_new0(StdioTransport, 1);
    stdio->base = (IpbTransport){.ops = &STDIO_OPS, .funcs = *funcs, .data = data};
    stdio->refs = 1;
    stdio->loop = ipb_loop_ref(loop);
    stdio->name = g_strdup(options->name);
    stdio->command = g_strdup(options->params->command);
    stdio->log = ipb_server_log_ref(options->log);
    stdio->stdin_fd = stdio->stdout_fd = stdio->stderr_fd = -1;
    stdio->max_message = options->max_message;
    ipb_line_reader_init(&stdio->reader, options->max_message);

    g_auto(ChildEnds) ends = {-1, -1, -1};
    if (!make_pipes(stdio, &ends, error) || !spawn(stdio, options, &ends, error)) {
        free_transport(&stdio->base);
        return NULL;
    }
    return &stdio->base;
}
