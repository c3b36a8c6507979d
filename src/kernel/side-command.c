/* SPDX-License-Identifier: Apache-2.0
 *
 * One command; see the header.
 *
 * The fork, which is Python of the forkserver, waits until its sandbox's limits apply to it. Then
 * it gets over its wire what to execute, with the read end of a pipe for stdin:
 *
 *     <size of the rest, 4 bytes, little-endian> <directory> NUL <number of arguments> NUL
 *     (<argument> NUL)… (<NAME=value> NUL)…
 *
 * The wire ends without a byte when the program is executed. Else there comes "<step> <errno>",
 * where the step is "cwd" or "exec", or "other" for what no errno says.
 *
 * The command has ended when the forkserver has reaped it. What it has written is in the pipes by
 * then. Processes that it leaves behind may hold them open, so what they write later is not read.
 */
#include "kernel/side-command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/descendants.h"
#include "base/error.h"
#include "base/fd.h"

#define READ_SIZE ((size_t) 64 * 1024)
/* Of all arguments and variables together. The system allows less. */
#define MAX_MESSAGE ((size_t) 8 * 1024 * 1024)
/* What is read after the end of the command, also while it is paused: as much as a pipe can hold if
 * its user has raised that. */
#define MAX_LAST_READS 16
/* From the fork until the program is executed: the forkserver's child needs a processor for it. */
#define EXEC_TIMEOUT_MS 60000
/* From the kill until the forkserver's report. */
#define EXIT_WAIT_MS 2000
#define MAX_WIRE_ANSWER 64
/* Bytes of the command's name in errors. */
#define MAX_SHOWN_NAME 200

typedef struct {
    int fd; /* -1: the end */
    IpbWatch *watch;
    IpbBuffer kept;
    bool is_cut;
} Stream;

struct IpbSideCommand {
    IpbLoop *loop;
    IpbProcess *process; /* NULL: it waits */
    IpbFork *fork;
    IpbCommandOutputFunc on_output; /* NULL: output is kept */
    IpbCommandInputFunc on_input;
    void *stream_data; /* of both */
    IpbCommandFunc func;
    void *data;
    char *name;               /* for errors */
    char **argv, **env, *cwd; /* until it starts */
    GString *message;         /* from then on */
    unsigned timeout_ms;
    pid_t pid;
    int pidfd, wire_fd, stdin_fd;
    int stdin_theirs; /* until it is sent */
    int wire_copy;    /* for the queue */
    IpbWatch *wire_watch;
    IpbWriteQueue *wire_queue, *input_queue;
    Stream streams[2];
    char answer[MAX_WIRE_ANSWER];
    size_t answer_size;
    IpbTimer *timer;      /* of the exec, the command's time limit, or the end */
    IpbTimer *turn_timer; /* reports the end */
    GError *error;        /* the first one: it takes precedence over the end of the process */
    int held_signal;      /* it gets this one when it is executed; 0: none */
    bool keeps_input_open, is_paused, is_executed;
    IpbDescendantsKill *killing; /* or NULL */
    bool is_timeout, is_killed, has_ended;
    int wait_status;
    bool *was_freed; /* by on_output, which is being called; or NULL */
};

/* --- the wire --------------------------------------------------------------------------------- */

static GError *
read_failure(const IpbSideCommand *command)
{
    char step[8];
    int saved_errno;
    if (sscanf(command->answer, "%7s %d", step, &saved_errno) != 2)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                           "the command \"%s\" cannot be started", command->name);
    IpyboxError code = saved_errno == ENOENT || saved_errno == ENOTDIR ? IPYBOX_ERROR_NOT_FOUND
                       : saved_errno == E2BIG                          ? IPYBOX_ERROR_LIMIT
                       : saved_errno == EACCES || saved_errno == ENOEXEC || saved_errno == EPERM
                           ? IPYBOX_ERROR_REFUSED
                           : IPYBOX_ERROR_SYSTEM;
    if (g_str_equal(step, "cwd"))
        return g_error_new(IPYBOX_ERROR, (int) code,
                           "the working directory of the command \"%s\" cannot be entered: %s",
                           command->name, g_strerror(saved_errno));
    return g_error_new(IPYBOX_ERROR, (int) code, "the command \"%s\" cannot be executed: %s",
                       command->name, g_strerror(saved_errno));
}

static void
close_wire(IpbSideCommand *command)
{
    g_clear_pointer(&command->wire_watch, ipb_watch_free);
    g_clear_pointer(&command->wire_queue, ipb_write_queue_free);
    ipb_fd_close(&command->wire_copy);
    ipb_fd_close(&command->wire_fd);
}

/* Returns false if nothing is there now. At the end, the wire is closed. */
static bool
read_wire(IpbSideCommand *command)
{
    size_t room = sizeof command->answer - 1 - command->answer_size;
    ssize_t n = room > 0 ? read(command->wire_fd, command->answer + command->answer_size, room) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n > 0)
        command->answer_size += (size_t) n;
    else
        close_wire(command);
    return n > 0;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void
close_stream(Stream *stream)
{
    g_clear_pointer(&stream->watch, ipb_watch_free);
    ipb_fd_close(&stream->fd);
}

static void
close_input(IpbSideCommand *command)
{
    g_clear_pointer(&command->input_queue, ipb_write_queue_free);
    ipb_fd_close(&command->stdin_fd);
}

static void
keep_output(Stream *stream, const char *bytes, size_t size)
{
    size_t room = stream->kept.max_size - ipb_buffer_size(&stream->kept);
    ipb_buffer_append(&stream->kept, bytes, MIN(room, size));
    stream->is_cut = stream->is_cut || size > room;
}

/* Reads once. Returns false if nothing is there now, at the end, or if the command @was_freed. */
static bool
read_stream(IpbSideCommand *command, Stream *stream, bool *was_freed)
{
    char bytes[READ_SIZE];
    ssize_t n = stream->fd >= 0 ? read(stream->fd, bytes, sizeof bytes) : 0;
    if (n < 0 && errno == EINTR)
        return true;
    if (n == 0 || (n < 0 && errno != EAGAIN))
        close_stream(stream);
    if (n <= 0)
        return false;
    if (command->on_output == NULL) {
        keep_output(stream, bytes, (size_t) n);
        return true;
    }
    command->was_freed = was_freed;
    command->on_output(stream == &command->streams[1], bytes, (size_t) n, command->stream_data);
    if (*was_freed)
        return false;
    command->was_freed = NULL;
    return true;
}

static void
report_end(IpbSideCommand *command)
{
    g_clear_pointer(&command->turn_timer, ipb_timer_free);
    IpbProcess *process = command->process;
    /* What happens to all of them is reported with the kernel's end, and its cause. */
    if (process != NULL && ipb_process_is_ending(process) && command->error == NULL &&
        !command->is_timeout)
        return;
    g_autoptr(GError) error = g_steal_pointer(&command->error);
    g_autofree char *limit =
        process != NULL ? ipb_process_describe_limit(process, command->wait_status) : NULL;
    const IpbCommandResult result = {
        .wait_status = command->wait_status,
        .is_timeout = command->is_timeout,
        .limit = command->is_killed ? NULL : limit,
        .out = ipb_buffer_data(&command->streams[0].kept),
        .out_size = ipb_buffer_size(&command->streams[0].kept),
        .is_out_cut = command->streams[0].is_cut,
        .err = ipb_buffer_data(&command->streams[1].kept),
        .err_size = ipb_buffer_size(&command->streams[1].kept),
        .is_err_cut = command->streams[1].is_cut,
    };
    command->func(error == NULL ? &result : NULL, error, command->data); /* may free it */
}

/* What is in the pipes comes before the end. */
static void
on_end_turn(void *data)
{
    IpbSideCommand *command = data;
    bool was_freed = false;
    for (size_t i = 0; i < G_N_ELEMENTS(command->streams); i++) {
        Stream *stream = &command->streams[i];
        for (int n = 0; n < MAX_LAST_READS && read_stream(command, stream, &was_freed); n++)
            ;
        if (was_freed)
            return;
        close_stream(stream);
    }
    report_end(command);
}

static void
end(IpbSideCommand *command, int wait_status)
{
    if (command->has_ended)
        return;
    command->has_ended = true;
    command->wait_status = wait_status;
    g_clear_pointer(&command->timer, ipb_timer_free);
    g_clear_pointer(&command->killing, ipb_descendants_kill_free);
    while (command->wire_fd >= 0 && read_wire(command))
        ;
    close_wire(command);
    if (command->answer_size > 0 && command->error == NULL)
        command->error = read_failure(command);
    close_input(command);
    ipb_fd_close(&command->stdin_theirs);
    command->turn_timer = ipb_timer_new(command->loop, 0, on_end_turn, command);
}

static void
on_exit_wait_end(void *data)
{
    end(data, SIGKILL);
}

/* The process and its descendants have got the signal, or there is none. */
static void
on_killed(void *data)
{
    IpbSideCommand *command = data;
    g_clear_pointer(&command->killing, ipb_descendants_kill_free);
    if (command->fork != NULL)
        ipb_fork_kill(command->fork);
    command->timer = ipb_timer_new(command->loop, EXIT_WAIT_MS, on_exit_wait_end, command);
}

static void
kill_command(IpbSideCommand *command)
{
    if (command->is_killed || command->has_ended)
        return;
    command->is_killed = true;
    g_clear_pointer(&command->timer, ipb_timer_free);
    if (command->pidfd >= 0)
        command->killing = ipb_descendants_kill_new(command->loop, command->pid, command->pidfd,
                                                    on_killed, command);
    else
        on_killed(command);
}

/* Takes @error. */
static void
fail(IpbSideCommand *command, GError *error)
{
    if (command->error == NULL)
        command->error = error;
    else
        g_error_free(error);
    if (command->pidfd < 0) /* there is no process, or there will be none */
        end(command, SIGKILL);
    else
        kill_command(command);
}

static void
on_exit_report(int wait_status, const char *cause, void *data)
{
    end(data, wait_status);
}

/* --- the program is executed ------------------------------------------------------------------ */

static void
on_timeout(void *data)
{
    IpbSideCommand *command = data;
    g_clear_pointer(&command->timer, ipb_timer_free);
    command->is_timeout = true;
    kill_command(command);
}

static void
on_exec_timeout(void *data)
{
    IpbSideCommand *command = data;
    g_clear_pointer(&command->timer, ipb_timer_free);
    fail(command, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                              "the command \"%s\" was not executed within %d s", command->name,
                              EXEC_TIMEOUT_MS / 1000));
}

static void
on_wire_ready(uint32_t events, void *data)
{
    IpbSideCommand *command = data;
    read_wire(command);
    if (command->wire_fd >= 0)
        return;
    if (command->answer_size > 0) {
        fail(command, read_failure(command));
    } else if (!command->is_killed) {
        command->is_executed = true;
        g_clear_pointer(&command->timer, ipb_timer_free);
        if (command->timeout_ms > 0)
            command->timer = ipb_timer_new(command->loop, command->timeout_ms, on_timeout, command);
        if (command->held_signal != 0)
            ipb_pidfd_signal(command->pidfd, command->held_signal, NULL);
    }
}

/* --- input and output ------------------------------------------------------------------------- */

static void
on_stdout_ready(uint32_t events, void *data)
{
    IpbSideCommand *command = data;
    bool was_freed = false;
    read_stream(command, &command->streams[0], &was_freed);
}

static void
on_stderr_ready(uint32_t events, void *data)
{
    IpbSideCommand *command = data;
    bool was_freed = false;
    read_stream(command, &command->streams[1], &was_freed);
}

/* A command need not read its input. */
static void
on_input_error(int saved_errno, void *data)
{
    IpbSideCommand *command = data;
    close_input(command);
    if (command->on_input != NULL)
        command->on_input(/* is_open= */ false, command->stream_data);
}

static void
on_input_written(void *data)
{
    IpbSideCommand *command = data;
    if (!command->keeps_input_open)
        close_input(command);
    if (command->on_input != NULL)
        command->on_input(/* is_open= */ true, command->stream_data);
}

static const IpbWriteQueueFuncs input_funcs = {
    .on_error = on_input_error,
    .on_drained = on_input_written,
};

/* The pipe takes input from now on, before the command runs. */
static bool
open_input(IpbSideCommand *command, GBytes *input, GError **error)
{
    int fds[2];
    if (!ipb_fd_pipe(fds, error))
        return false;
    command->stdin_theirs = fds[0];
    command->stdin_fd = fds[1];
    command->input_queue = ipb_write_queue_new(command->loop, command->stdin_fd,
                                               IPB_COMMAND_MAX_INPUT, &input_funcs, command, error);
    if (command->input_queue == NULL)
        return false;
    size_t size = 0;
    const void *bytes = input != NULL ? g_bytes_get_data(input, &size) : NULL;
    if (size > 0 && !ipb_write_queue_push(command->input_queue, bytes, size, error))
        return false;
    if (!command->keeps_input_open)
        ipb_side_command_close_input(command);
    return true;
}

static bool
watch_stream(IpbSideCommand *command, Stream *stream, IpbWatchFunc func, GError **error)
{
    stream->watch = ipb_watch_new(command->loop, stream->fd, command->is_paused ? 0 : EPOLLIN, func,
                                  command, error);
    return stream->watch != NULL;
}

/* The first bytes of the message carry the end of the pipe for stdin. */
static bool
send_message(IpbSideCommand *command, GError **error)
{
    const GString *message = command->message;
    ssize_t n =
        ipb_fd_send(command->wire_fd, message->str, message->len, &command->stdin_theirs, 1);
    if (n < 0)
        return ipb_error_set_errno(error, errno, "the command cannot be sent to its process");
    ipb_fd_close(&command->stdin_theirs);
    if ((size_t) n == message->len)
        return true;
    command->wire_copy = ipb_fd_duplicate(command->wire_fd, 3);
    if (command->wire_copy < 0)
        return ipb_error_set_errno(error, errno, "cannot duplicate the wire");
    command->wire_queue =
        ipb_write_queue_new(command->loop, command->wire_copy, MAX_MESSAGE, NULL, command, error);
    return command->wire_queue != NULL &&
           ipb_write_queue_push(command->wire_queue, message->str + n, message->len - (size_t) n,
                                error);
}

static bool
set_up(IpbSideCommand *command, GError **error)
{
    if (!ipb_process_admit(command->process, command->pid, error) ||
        !watch_stream(command, &command->streams[0], on_stdout_ready, error) ||
        !watch_stream(command, &command->streams[1], on_stderr_ready, error))
        return false;
    command->wire_watch =
        ipb_watch_new(command->loop, command->wire_fd, EPOLLIN, on_wire_ready, command, error);
    return command->wire_watch != NULL && send_message(command, error);
}

static void
on_forked(const IpbForkedProcess *forked, const GError *error, void *data)
{
    IpbSideCommand *command = data;
    GError *failure = NULL;
    if (forked == NULL) {
        fail(command, g_error_copy(error));
        return;
    }
    command->pid = forked->pid;
    command->pidfd = forked->pidfd;
    command->wire_fd = forked->wire_fd;
    command->streams[0].fd = forked->stdout_fd;
    command->streams[1].fd = forked->stderr_fd;
    if (command->is_killed) /* since the request: without a message it executes nothing */
        close_wire(command);
    else if (!set_up(command, &failure))
        fail(command, failure);
}

/* --- its start -------------------------------------------------------------------------------- */

static char **
merge(const char *const *env, char **more)
{
    char **merged = g_strdupv((char **) env);
    for (char **entry = more; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        merged = g_environ_setenv(merged, name, equals + 1, TRUE);
    }
    return merged;
}

static GString *
make_message(const IpbSideCommand *command, const char *const *env, const char *cwd)
{
    g_auto(GStrv) merged = merge(env, command->env);
    g_autofree char *directory = command->cwd == NULL || g_path_is_absolute(command->cwd)
                                     ? g_strdup(command->cwd != NULL ? command->cwd : cwd)
                                     : g_build_filename(cwd, command->cwd, NULL);
    GString *message = g_string_new("0123");
    g_string_append_len(message, directory, (gssize) strlen(directory) + 1);
    g_string_append_printf(message, "%u", g_strv_length(command->argv));
    g_string_append_c(message, '\0');
    for (char **argument = command->argv; *argument != NULL; argument++)
        g_string_append_len(message, *argument, (gssize) strlen(*argument) + 1);
    for (char **entry = merged; *entry != NULL; entry++)
        g_string_append_len(message, *entry, (gssize) strlen(*entry) + 1);
    for (int i = 0; i < 4; i++)
        message->str[i] = (char) ((message->len - 4) >> (8 * i) & 0xff);
    return message;
}

static void
forget_options(IpbSideCommand *command)
{
    g_clear_pointer(&command->argv, g_strfreev);
    g_clear_pointer(&command->env, g_strfreev);
    g_clear_pointer(&command->cwd, g_free);
}

void
ipb_side_command_start(IpbSideCommand *command, IpbProcess *process, const char *const *env,
                       const char *cwd)
{
    if (command->has_ended)
        return;
    command->process = process;
    command->message = make_message(command, env, cwd);
    forget_options(command);
    if (command->message->len > MAX_MESSAGE) {
        fail(command, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                                  "the arguments and variables of the command have %zu bytes, %zu "
                                  "are allowed: pass data as its input",
                                  command->message->len, MAX_MESSAGE));
        return;
    }
    command->timer = ipb_timer_new(command->loop, EXEC_TIMEOUT_MS, on_exec_timeout, command);
    command->fork = ipb_process_fork_command(process, on_forked, on_exit_report, command);
}

/* --- the interface ---------------------------------------------------------------------------- */

IpbSideCommand *
ipb_side_command_new(IpbLoop *loop, const IpbCommandOptions *options, IpbCommandFunc func,
                     void *data, GError **error)
{
    g_autoptr(IpbSideCommand) command = g_new0(IpbSideCommand, 1);
    command->loop = ipb_loop_ref(loop);
    command->on_output = options->on_output;
    command->on_input = options->on_input;
    command->stream_data = options->data;
    command->func = func;
    command->data = data;
    g_autofree char *name = g_strndup(options->argv[0], MAX_SHOWN_NAME);
    command->name = g_utf8_make_valid(name, -1);
    command->argv = g_strdupv((char **) options->argv);
    command->env = g_strdupv((char **) options->env);
    command->cwd = g_strdup(options->cwd);
    command->timeout_ms = options->timeout_ms;
    command->keeps_input_open = options->keeps_input_open;
    command->pidfd = command->wire_fd = command->wire_copy = -1;
    command->stdin_fd = command->stdin_theirs = -1;
    for (size_t i = 0; i < G_N_ELEMENTS(command->streams); i++) {
        command->streams[i].fd = -1;
        ipb_buffer_init(&command->streams[i].kept, options->max_output);
    }
    return open_input(command, options->input, error) ? g_steal_pointer(&command) : NULL;
}

void
ipb_side_command_cancel(IpbSideCommand *command)
{
    if (command->has_ended || command->is_killed)
        return;
    bool waits = command->process == NULL;
    if (command->error == NULL)
        command->error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                     "the command was cancelled%s", waits ? " before it ran" : "");
    if (waits)
        end(command, SIGKILL);
    else
        kill_command(command);
}

void
ipb_side_command_signal(IpbSideCommand *command, int number)
{
    if (command->has_ended || command->is_killed)
        return;
    if (number == SIGKILL && command->process == NULL)
        end(command, SIGKILL);
    else if (number == SIGKILL)
        kill_command(command);
    else if (command->is_executed)
        ipb_pidfd_signal(command->pidfd, number, NULL);
    else
        command->held_signal = number;
}

void
ipb_side_command_set_paused(IpbSideCommand *command, bool paused)
{
    if (command->on_output == NULL)
        return; /* what is kept has a limit */
    command->is_paused = paused;
    for (size_t i = 0; i < G_N_ELEMENTS(command->streams); i++)
        if (command->streams[i].watch != NULL)
            ipb_watch_set_events(command->streams[i].watch, paused ? 0 : EPOLLIN);
}

bool
ipb_side_command_write(IpbSideCommand *command, const void *bytes, size_t size, GError **error)
{
    if (command->keeps_input_open && command->input_queue != NULL) {
        if (ipb_write_queue_push(command->input_queue, bytes, size, NULL))
            return true;
        if (!ipb_write_queue_has_failed(command->input_queue)) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                        "%zu bytes of input cannot wait for the command \"%s\": %zu wait, %zu are "
                        "allowed",
                        size, command->name, ipb_write_queue_size(command->input_queue),
                        IPB_COMMAND_MAX_INPUT);
            return false;
        }
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "the command \"%s\" takes no more input: it has ended, or its standard input is "
                "closed",
                command->name);
    return false;
}

size_t
ipb_side_command_input_size(const IpbSideCommand *command)
{
    return command->input_queue != NULL ? ipb_write_queue_size(command->input_queue) : 0;
}

void
ipb_side_command_close_input(IpbSideCommand *command)
{
    command->keeps_input_open = false;
    if (ipb_side_command_input_size(command) == 0)
        close_input(command);
}

void
ipb_side_command_free(IpbSideCommand *command)
{
    if (command == NULL)
        return;
    if (command->was_freed != NULL)
        *command->was_freed = true;
    if (command->pidfd >= 0 && !command->has_ended && command->killing == NULL)
        command->killing = ipb_descendants_kill_new(command->loop, command->pid, command->pidfd,
                                                    on_killed, command);
    ipb_descendants_kill_free(command->killing);
    ipb_fork_free(command->fork);
    ipb_timer_free(command->timer);
    ipb_timer_free(command->turn_timer);
    close_wire(command);
    close_input(command);
    ipb_fd_close(&command->stdin_theirs);
    ipb_fd_close(&command->pidfd);
    for (size_t i = 0; i < G_N_ELEMENTS(command->streams); i++) {
        close_stream(&command->streams[i]);
        ipb_buffer_clear(&command->streams[i].kept);
    }
    g_clear_error(&command->error);
    forget_options(command);
    if (command->message != NULL)
        g_string_free(command->message, TRUE);
    g_free(command->name);
    ipb_loop_unref(command->loop);
    g_free(command);
}
