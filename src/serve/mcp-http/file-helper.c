/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of the program; see the header. The end is reported when the process has ended, and its
 * output was read to the end.
 */
#include "serve/mcp-http/file-helper.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/child.h"
#include "base/error.h"
#include "base/fd.h"
#include "command/sandboxed-command.h"
#include "egress/violations.h"

#define PROGRAM "workspace_files.py"
#define READ_SIZE (256 * 1024)
/* Bytes that wait to be written. */
#define MAX_SENT (1024 * 1024)
/* From the cancellation until it is killed. */
#define GRACE_MS 2000
/* Without any progress: a file system that does not answer. */
#define MAX_SILENCE_MS (10 * 60 * 1000)

struct IpbFileHelper {
    IpbFileHelperOptions options;
    IpbLoop *loop;
    IpbChild *child; /* one of these two */
    IpbSandboxedCommand *sandboxed;
    int in, out;
    IpbWatch *watch;
    IpbWriteQueue *queue;
    IpbBuffer output;
    bool has_content, is_blocked, is_cancelled, has_exited, has_eof, is_ok;
    char *why;
    IpbTimer *silence_timer;
    IpbTimer *end_timer;
};

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_end_timer(void *data)
{
    IpbFileHelper *helper = data;
    g_clear_pointer(&helper->end_timer, ipb_timer_free);
    helper->options.on_end(helper->is_ok, helper->why, helper->options.data);
}

static void
report_if_ended(IpbFileHelper *helper)
{
    bool is_read =
        helper->is_cancelled || (helper->has_eof && ipb_buffer_size(&helper->output) == 0);
    if (helper->has_exited && is_read && helper->end_timer == NULL) {
        g_clear_pointer(&helper->silence_timer, ipb_timer_free);
        helper->end_timer = ipb_timer_new(helper->loop, 0, on_end_timer, helper);
    }
}

static void
end(IpbFileHelper *helper, int wait_status, const char *why)
{
    helper->has_exited = true;
    helper->is_ok = why == NULL && wait_status == 0;
    if (helper->why == NULL)
        helper->why = g_strdup(why);
    report_if_ended(helper);
}

static void
on_child_exit(IpbChild *child, int wait_status, void *data)
{
    end(data, wait_status, NULL);
}

static void
on_sandboxed_end(IpbSandboxedCommand *command, int wait_status, const GError *error, void *data)
{
    end(data, wait_status, error != NULL ? error->message : NULL);
}

static void
on_violation(const IpbViolation *violation, void *data)
{
    IpbFileHelper *helper = data;
    if (helper->why == NULL)
        helper->why = ipb_violation_to_text(violation);
}

static void
stop(IpbFileHelper *helper, unsigned grace_ms)
{
    if (helper->child != NULL)
        ipb_child_stop(helper->child, grace_ms);
    else
        ipb_sandboxed_command_stop(helper->sandboxed, grace_ms);
}

static void
on_silence(void *data)
{
    IpbFileHelper *helper = data;
    g_clear_pointer(&helper->silence_timer, ipb_timer_free);
    if (helper->why == NULL)
        helper->why = g_strdup("the file system did not answer");
    ipb_file_helper_cancel(helper);
}

/* Something was read or written. A slow client is not silence of the program. */
static void
note_progress(IpbFileHelper *helper)
{
    ipb_timer_free(helper->silence_timer);
    helper->silence_timer = helper->is_cancelled || helper->has_exited || helper->is_blocked
                                ? NULL
                                : ipb_timer_new(helper->loop, MAX_SILENCE_MS, on_silence, helper);
}

/* --- its output ------------------------------------------------------------------------------- */

static void
report_line(IpbFileHelper *helper, const char *line, size_t size)
{
    static const IpbJsonLimits LIMITS = {IPB_FILE_HELPER_MAX_REPORT, 8, 200000};
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(line, size, &LIMITS, NULL);
    if (doc != NULL && ipb_json_is(ipb_json_root(doc), IPB_JSON_OBJECT))
        helper->options.on_report(ipb_json_root(doc), helper->options.data);
    else
        ipb_file_helper_cancel(helper);
}

/* False: more bytes are needed, or the receiver takes none. */
static bool
pass_on(IpbFileHelper *helper)
{
    size_t size = ipb_buffer_size(&helper->output);
    const char *bytes = (const char *) ipb_buffer_data(&helper->output);
    if (size == 0 || helper->is_cancelled || helper->is_blocked)
        return false;
    if (helper->has_content) {
        size_t taken = helper->options.on_content(bytes, size, helper->options.data);
        helper->is_blocked = taken < size;
        ipb_buffer_consume(&helper->output, taken);
        return !helper->is_blocked;
    }
    const char *newline = memchr(bytes, '\n', size);
    if (newline == NULL) {
        if (helper->has_eof)
            ipb_buffer_consume(&helper->output, size);
        return false;
    }
    size_t line_size = (size_t) (newline - bytes);
    g_autofree char *line = g_strndup(bytes, line_size);
    ipb_buffer_consume(&helper->output, line_size + 1);
    report_line(helper, line, line_size);
    return true;
}

static void
pass_all(IpbFileHelper *helper)
{
    while (pass_on(helper))
        ;
    if (helper->watch != NULL)
        ipb_watch_set_events(helper->watch, helper->is_blocked ? 0 : EPOLLIN);
    report_if_ended(helper);
}

static void
on_output(uint32_t events, void *data)
{
    IpbFileHelper *helper = data;
    uint8_t *room = ipb_buffer_reserve(&helper->output, READ_SIZE);
    if (room == NULL) { /* a report that is too long */
        ipb_file_helper_cancel(helper);
        return;
    }
    ssize_t n = read(helper->out, room, READ_SIZE);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        ipb_buffer_commit(&helper->output, (size_t) n);
    } else {
        helper->has_eof = true;
        g_clear_pointer(&helper->watch, ipb_watch_free);
    }
    note_progress(helper);
    pass_all(helper);
}

void
ipb_file_helper_expect_content(IpbFileHelper *helper)
{
    helper->has_content = true;
}

void
ipb_file_helper_resume(IpbFileHelper *helper)
{
    helper->is_blocked = false;
    note_progress(helper);
    pass_all(helper);
}

/* --- its input -------------------------------------------------------------------------------- */

static void
on_write_error(int saved_errno, void *data)
{
    /* Its report or its end says why. */
}

static void
on_drained(void *data)
{
    IpbFileHelper *helper = data;
    note_progress(helper);
    if (!helper->is_cancelled)
        helper->options.on_written(helper->options.data);
}

bool
ipb_file_helper_send(IpbFileHelper *helper, const char *bytes, size_t size)
{
    return helper->queue != NULL && ipb_write_queue_push(helper->queue, bytes, size, NULL);
}

bool
ipb_file_helper_is_writing(const IpbFileHelper *helper)
{
    return helper->queue != NULL && ipb_write_queue_size(helper->queue) > 0;
}

void
ipb_file_helper_cancel(IpbFileHelper *helper)
{
    if (helper->is_cancelled)
        return;
    helper->is_cancelled = true;
    g_clear_pointer(&helper->silence_timer, ipb_timer_free);
    g_clear_pointer(&helper->queue, ipb_write_queue_free);
    g_clear_pointer(&helper->watch, ipb_watch_free);
    ipb_fd_close(&helper->in);
    ipb_fd_close(&helper->out);
    if (!helper->has_exited)
        stop(helper, GRACE_MS);
    report_if_ended(helper);
}

/* --- life ------------------------------------------------------------------------------------- */

static bool
spawn(IpbFileHelper *helper, const char *const *argv, int in, int out, GError **error)
{
    static const char *const ENVIRONMENT[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
                                              NULL};
    IpbSession *session = helper->options.session;
    const char *workspace = ipb_session_workspace(session);
    if (!helper->options.is_sandboxed) {
        const IpbChildOptions child = {
            .argv = argv,
            .envp = ENVIRONMENT,
            .cwd = workspace,
            .stdin_fd = in,
            .stdout_fd = out,
            .stderr_fd = -1,
            .extra_fd = -1,
        };
        helper->child = ipb_child_spawn(helper->loop, &child, on_child_exit, helper, error);
        return helper->child != NULL;
    }
    g_autoptr(IpbSandboxPlan) plan = ipb_session_make_command_plan(session, error);
    if (plan == NULL)
        return false;
    const IpbSandboxedCommandOptions command = {
        .plan = plan,
        .argv = argv,
        .env = ENVIRONMENT,
        .cwd = workspace,
        .stdin_fd = in,
        .stdout_fd = out,
        .stderr_fd = -1,
        .on_end = on_sandboxed_end,
        .on_violation = on_violation,
        .data = helper,
    };
    helper->sandboxed = ipb_sandboxed_command_new(helper->loop, &command, error);
    return helper->sandboxed != NULL;
}

static bool
start(IpbFileHelper *helper, GError **error)
{
    const IpbFileHelperOptions *options = &helper->options;
    g_autofree char *program =
        g_build_filename(ipb_runtime_host_directory(options->runtime), PROGRAM, NULL);
    const char *const argv[] = {
        ipb_runtime_python(options->runtime),
        "-I",
        "-S",
        "-B",
        program,
        options->action,
        options->params,
        NULL,
    };
    static const IpbWriteQueueFuncs FUNCS = {.on_error = on_write_error, .on_drained = on_drained};
    int in[2], out[2];
    if (!ipb_fd_pipe(in, error))
        return false;
    helper->in = in[1];
    ipb_autofd their_in = in[0];
    if (!ipb_fd_pipe(out, error))
        return false;
    helper->out = out[0];
    ipb_autofd their_out = out[1];
    if (!ipb_fd_set_nonblocking(helper->in, true, error) ||
        !ipb_fd_set_nonblocking(helper->out, true, error))
        return false;
    helper->queue = ipb_write_queue_new(helper->loop, helper->in, MAX_SENT, &FUNCS, helper, error);
    if (helper->queue == NULL)
        return false;
    helper->watch = ipb_watch_new(helper->loop, helper->out, EPOLLIN, on_output, helper, error);
    return helper->watch != NULL && spawn(helper, argv, their_in, their_out, error);
}

IpbFileHelper *
ipb_file_helper_new(const IpbFileHelperOptions *options, GError **error)
{
    IpbFileHelper *helper = g_new0(IpbFileHelper, 1);
    helper->options = *options;
    helper->loop = ipb_loop_ref(ipb_runtime_loop(options->runtime));
    helper->in = helper->out = -1;
    ipb_buffer_init(&helper->output, IPB_FILE_HELPER_MAX_REPORT + READ_SIZE);
    if (!start(helper, error)) {
        ipb_file_helper_free(helper);
        return NULL;
    }
    note_progress(helper);
    return helper;
}

void
ipb_file_helper_free(IpbFileHelper *helper)
{
    if (helper == NULL)
        return;
    ipb_timer_free(helper->silence_timer);
    ipb_timer_free(helper->end_timer);
    ipb_write_queue_free(helper->queue);
    ipb_watch_free(helper->watch);
    ipb_child_free(helper->child);
    ipb_sandboxed_command_free(helper->sandboxed);
    ipb_fd_close(&helper->in);
    ipb_fd_close(&helper->out);
    ipb_buffer_clear(&helper->output);
    g_free(helper->why);
    ipb_loop_unref(helper->loop);
    g_free(helper);
}
