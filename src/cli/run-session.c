/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs cells in a session; see the header.
 */
#include "cli/changes-review.h"
#include "cli/run-session.h"

#include <limits.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/display-text.h"
#include "base/error.h"
#include "base/fd.h"
#include "cli/api-client.h"
#include "cli/held-output.h"
#include "cli/prompt.h"
#include "cli/signals.h"

/* Bytes of output that are held back while a question is on the terminal. At MAX_HELD the kernel is
 * paused. Log lines of servers and notices cannot be paused: beyond MAX_HELD_LINES they are dropped
 * and counted. */
#define MAX_HELD (1024 * 1024)
#define MAX_HELD_LINES (64 * 1024)

typedef struct {
    IpbApiClient client;
    IpbPrompt *prompt;
    const IpbVerb *verb; /* for messages */
    IpbRunCells *cells;
    unsigned timeout_ms; /* of each cell, unless it has its own; 0: none */
    IpbHeldOutput *hold; /* output that arrives while a question is on the terminal */
    bool is_asking;      /* a question is on the terminal */
    size_t held_lines;   /* bytes of log lines and notices in `hold` */
    unsigned n_left_out; /* lines that were dropped */
    bool is_interrupted;
    bool has_start_failed; /* no kernel could be started */
    const char *code;      /* of the cell that runs next; borrowed */
    IpbRunCell cell;
    bool at_line_start; /* of standard output: a notice begins on its own line */
    bool has_exited;    /* the code raised SystemExit, with exit_status */
    int exit_status;
    GError *write_error; /* the reader is gone, or the disk is full: nothing more is shown */
    bool has_reader;     /* set with write_error: the output still has one */
    char *layer;         /* of a staged session; or NULL */
} Run;

/* --- output ----------------------------------------------------------------------------------- */

/* Text of the kernel is untrusted. On a terminal its control characters are made visible. */
static void
write_to(Run *run, int fd, const char *text)
{
    if (run->write_error != NULL)
        return;
    g_autofree char *printable = isatty(fd) ? ipb_cli_printable(text) : NULL;
    const char *shown = printable != NULL ? printable : text;
    if (!ipb_fd_write_all(fd, shown, strlen(shown), &run->write_error)) {
        run->has_reader = ipb_cli_has_reader(fd);
        ipybox_session_interrupt(run->client.session);
    }
}

static void
print_to(Run *run, int fd, const char *text)
{
    if (*text == '\0')
        return;
    if (fd == STDOUT_FILENO)
        run->at_line_start = g_str_has_suffix(text, "\n");
    if (!run->is_asking) {
        write_to(run, fd, text);
        return;
    }
    ipb_held_output_add(run->hold, fd, text);
    if (ipb_held_output_size(run->hold) > MAX_HELD)
        ipybox_session_set_paused(run->client.session, TRUE);
}

/* Whether a line of a sender that cannot be paused may be written or held. */
static bool
has_room(Run *run, const char *line)
{
    if (!run->is_asking)
        return true;
    run->held_lines += strlen(line);
    if (run->held_lines <= MAX_HELD_LINES)
        return true;
    run->n_left_out++;
    return false;
}

static void
print_line(Run *run, int fd, const char *text)
{
    if (fd == STDOUT_FILENO && !run->at_line_start)
        print_to(run, fd, "\n");
    g_autofree char *line = g_strconcat(text, g_str_has_suffix(text, "\n") ? "" : "\n", NULL);
    print_to(run, fd, line);
}

static void
print_bundle(Run *run, const IpyboxEvent *event)
{
    const char *image_path = ipybox_event_get_image_path(event);
    if (image_path != NULL) {
        g_autofree char *line = g_strdup_printf("[image saved: %s]", image_path);
        print_line(run, STDOUT_FILENO, line);
        return;
    }
    const char *text = ipybox_event_get_bundle_text(event);
    if (text != NULL)
        print_line(run, STDOUT_FILENO, text);
}

/* sys.exit() ends a script as under Python: None and 0 are success, a number is the status,
 * anything else is printed and is a failure. */
static void
take_exit(Run *run, const char *value)
{
    int64_t number;
    run->has_exited = true;
    run->exit_status = IPB_EXIT_FAILED;
    if (*value == '\0' || g_str_equal(value, "None"))
        run->exit_status = IPB_EXIT_OK;
    else if (g_ascii_string_to_signed(value, 10, INT_MIN, INT_MAX, &number, NULL))
        run->exit_status = (int) (number & 0xff);
    else
        print_line(run, STDERR_FILENO, value);
}

static int
status_of(const Run *run, IpyboxStatus status)
{
    switch (status) {
    case IPYBOX_STATUS_OK:
        return IPB_EXIT_OK;
    case IPYBOX_STATUS_TIMEOUT:
        return IPB_EXIT_TIMEOUT;
    case IPYBOX_STATUS_CANCELLED:
        return IPB_EXIT_INTERRUPTED;
    case IPYBOX_STATUS_ERROR:
        return run->has_exited ? run->exit_status : IPB_EXIT_FAILED;
    case IPYBOX_STATUS_LOST:
        break;
    }
    return IPB_EXIT_FAILED;
}

/* --- questions -------------------------------------------------------------------------------- */

static void
on_log(IpyboxSession *session, const char *level, const char *text, gpointer data)
{
    Run *run = data;
    if (!run->is_asking)
        ipb_api_client_log(session, level, text, data);
    else if (has_room(run, text))
        ipb_held_output_add_log(run->hold, level, text);
}

static void
on_released(int fd, const char *level, const char *text, gpointer data)
{
    if (level != NULL)
        ipb_cli_log(level, text, NULL);
    else
        write_to(data, fd, text);
}

/* A question begins or ends. While it is on the terminal, nothing else is printed. */
static void
on_busy(gboolean is_busy, gpointer data)
{
    Run *run = data;
    run->is_asking = is_busy;
    if (is_busy)
        return;
    ipb_held_output_release(run->hold, on_released, run);
    if (run->n_left_out > 0)
        ipb_cli_say(run->verb,
                    "%u lines of servers and notices were dropped while a question was waiting",
                    run->n_left_out);
    run->n_left_out = 0;
    run->held_lines = 0;
    ipybox_session_set_paused(run->client.session, FALSE);
}

static void
on_approval(IpyboxSession *session, IpyboxApproval *approval, gpointer data)
{
    Run *run = data;
    if (run->client.is_ending) { /* from a thread of a cell that has ended */
        ipybox_approval_respond(approval, FALSE);
        return;
    }
    if (run->prompt != NULL) {
        ipb_prompt_ask(run->prompt, approval);
        return;
    }
    g_autoptr(GString) tool = g_string_new(NULL);
    ipb_display_text_quote_name(tool, ipybox_approval_get_server(approval));
    g_string_append_c(tool, '.');
    ipb_display_text_quote_name(tool, ipybox_approval_get_tool(approval));
    ipb_cli_fail(run->verb, IPB_EXIT_FAILED,
                 "%s is refused: there is no terminal to ask at; use --approve allow, deny or a "
                 "file of rules",
                 tool->str);
    ipybox_approval_respond(approval, FALSE);
}

static void
on_withdrawn(IpyboxSession *session, IpyboxApproval *approval, gpointer data)
{
    Run *run = data;
    if (run->prompt != NULL)
        ipb_prompt_withdraw(run->prompt, approval);
}

/* The cell has ended, so no answer is needed any more. */
static void
end_questions(Run *run)
{
    if (run->prompt != NULL)
        ipb_prompt_withdraw_all(run->prompt);
}

/* --- life ------------------------------------------------------------------------------------- */

static bool
is_question(IpyboxEventType type)
{
    return type == IPYBOX_EVENT_INPUT_REQUEST || type == IPYBOX_EVENT_INPUT_WITHDRAWN;
}

static void
show_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    Run *run = data;
    const char *text = ipybox_event_get_text(event);
    if (run->cells->on_event != NULL)
        run->cells->on_event(run->cells->data, event);
    if (run->cells->is_quiet && !is_question(ipybox_event_get_type(event)))
        return;
    switch (ipybox_event_get_type(event)) {
    case IPYBOX_EVENT_STDOUT:
        print_to(run, STDOUT_FILENO, text);
        break;
    case IPYBOX_EVENT_STDERR:
        print_to(run, STDERR_FILENO, text);
        break;
    case IPYBOX_EVENT_DISPLAY:
    case IPYBOX_EVENT_UPDATE:
    case IPYBOX_EVENT_RESULT:
        print_bundle(run, event);
        break;
    case IPYBOX_EVENT_ERROR:
        if (g_str_equal(ipybox_event_get_error_name(event), "SystemExit"))
            take_exit(run, ipybox_event_get_error_value(event));
        else
            print_line(run, STDERR_FILENO, text);
        break;
    case IPYBOX_EVENT_NOTICE:
        if (has_room(run, text))
            print_line(run, STDERR_FILENO, text);
        break;
    case IPYBOX_EVENT_LATE_OUTPUT:  /* the late events have shown it */
    case IPYBOX_EVENT_CLEAR_OUTPUT: /* output that is printed cannot be cleared */
    case IPYBOX_EVENT_READY:
    case IPYBOX_EVENT_START_FAILED:
        break;
    case IPYBOX_EVENT_INPUT_REQUEST:
        ipb_prompt_ask_input(run->prompt, session, event);
        break;
    case IPYBOX_EVENT_INPUT_WITHDRAWN:
        ipb_prompt_withdraw_input(run->prompt, ipybox_event_get_input(event));
        break;
    case IPYBOX_EVENT_TOOL_PROGRESS:
        if (isatty(STDERR_FILENO) && has_room(run, text))
            print_line(run, STDERR_FILENO, text);
        break;
    }
}

static void
on_cell_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    if (!ipybox_event_get_is_late(event)) /* else the session's event has shown it */
        show_event(session, event, data);
}

/* Late output is shown as it comes, also while the session ends. */
static void
on_session_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    Run *run = data;
    if (ipybox_event_get_type(event) == IPYBOX_EVENT_START_FAILED)
        run->has_start_failed = true;
    if (ipybox_event_get_is_late(event))
        show_event(session, event, data);
}

static void on_executed(GObject *source, GAsyncResult *async_result, gpointer data);

/* As Python, which reads input from standard input. A program without a user must not wait. */
static bool
can_type(void)
{
    return isatty(STDIN_FILENO);
}

static void
execute_cell(Run *run)
{
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    unsigned own = run->cell.timeout_ms;
    options.timeout_ms =
        own > 0 && (run->timeout_ms == 0 || own < run->timeout_ms) ? own : run->timeout_ms;
    options.max_text_chars = 1; /* not used: output is printed as it arrives */
    options.on_event = on_cell_event;
    options.user_data = run;
    options.allow_input = can_type() && run->prompt != NULL;
    run->has_exited = false;
    run->cells->has_begun = true;
    ipybox_session_execute_async(run->client.session, run->code, &options, NULL, on_executed, run);
}

static void
on_reset(GObject *source, GAsyncResult *async_result, gpointer data)
{
    Run *run = data;
    g_autoptr(GError) error = NULL;
    bool is_reset = ipybox_session_reset_finish(run->client.session, async_result, &error);
    if (run->client.is_ending)
        return;
    if (is_reset && !run->is_interrupted) {
        execute_cell(run);
        return;
    }
    run->client.status = is_reset
                             ? IPB_EXIT_INTERRUPTED
                             : ipb_cli_fail(run->verb, ipb_cli_status(error), "%s", error->message);
    ipb_api_client_end(&run->client);
}

/* Returns whether there is a next cell. */
static bool
take_next(Run *run)
{
    run->cell = (IpbRunCell){0};
    run->code = run->cells->next(run->cells->data, &run->cell);
    return run->code != NULL;
}

static void
begin_cell(Run *run)
{
    if (run->cell.is_after_reset)
        ipybox_session_reset_async(run->client.session, on_reset, run);
    else
        execute_cell(run);
}

/* Whether a cell ended so that the next one may run. */
static bool
may_continue(Run *run, const IpyboxResult *result)
{
    return result != NULL && run->cells->on_end(run->cells->data, result) &&
           run->write_error == NULL && !run->is_interrupted && !run->has_start_failed;
}

static int
end_status(const Run *run, const IpyboxResult *result, const GError *error)
{
    if (result == NULL)
        return ipb_cli_status(error);
    if (run->cells->is_sequence && run->is_interrupted)
        return IPB_EXIT_INTERRUPTED;
    return status_of(run, ipybox_result_get_status(result));
}

/* Why it ended there, for people. NULL: that is not shown. */
static const char *
end_message(Run *run, const IpyboxResult *result, const GError *error)
{
    if (run->write_error != NULL)
        return run->has_reader ? run->write_error->message : NULL;
    if (result == NULL)
        return error->message;
    return run->cells->is_quiet && !run->has_start_failed ? NULL
                                                          : ipybox_result_get_message(result);
}

static void
on_executed(GObject *source, GAsyncResult *async_result, gpointer data)
{
    Run *run = data;
    IpbApiClient *client = &run->client;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute_finish(client->session, async_result, &error);
    if (client->is_ending)
        return; /* by a signal, which has set the status */
    end_questions(run);
    bool is_fine = may_continue(run, result);
    if (is_fine && take_next(run)) {
        begin_cell(run);
        return;
    }
    client->status = is_fine ? IPB_EXIT_OK : end_status(run, result, error);
    if (run->write_error != NULL)
        client->status = run->has_reader ? IPB_EXIT_FAILED : IPB_EXIT_NO_READER;
    const char *message = end_message(run, result, error);
    if (message != NULL)
        ipb_cli_fail(run->verb, result != NULL ? IPB_EXIT_FAILED : client->status, "%s", message);
    if (run->cells->on_failure != NULL && client->status != IPB_EXIT_OK)
        run->cells->on_failure(run->cells->data);
    ipb_api_client_end(client);
}

/* The first Ctrl-C interrupts the cell, the second ends everything at once. */
static void
on_interrupt(Run *run)
{
    if (run->is_interrupted) {
        run->client.status = IPB_EXIT_INTERRUPTED;
        g_main_loop_quit(run->client.main_loop);
    }
    run->is_interrupted = true;
    ipybox_session_interrupt(run->client.session);
}

static void
on_signal(int number, void *data)
{
    Run *run = data;
    if (number == SIGINT) {
        on_interrupt(run);
        return;
    }
    run->client.status = 128 + SIGTERM;
    end_questions(run);
    ipb_api_client_end(&run->client);
}

/* --- set-up ----------------------------------------------------------------------------------- */

/* Reads --approve: a policy, or the path of a rules file. */
static bool
take_approve(const IpbApprovalArguments *arguments, IpyboxSessionOptions *options, GError **error)
{
    static const char *const POLICIES[] = {[IPYBOX_APPROVAL_ALLOW] = "allow",
                                           [IPYBOX_APPROVAL_ASK] = "ask",
                                           [IPYBOX_APPROVAL_DENY] = "deny"};
    options->approval = IPYBOX_APPROVAL_ASK; /* also for calls that no rule names */
    if (arguments->approve == NULL)
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(POLICIES); i++) {
        if (g_str_equal(arguments->approve, POLICIES[i])) {
            options->approval = (IpyboxApprovalPolicy) i;
            return true;
        }
    }
    options->approval_rules = arguments->approve;
    return ipb_approval_arguments_check_file(arguments, error);
}

static bool
open_session(Run *run, const IpbRunArguments *arguments, GError **error)
{
    IpyboxSessionOptions options = IPYBOX_SESSION_OPTIONS_INIT;
    options.workspace = arguments->kernel.workspace;
    options.images_dir = arguments->images_dir;
    options.audit_log = arguments->approval.audit_log;
    options.record = arguments->kernel.record;
    options.approval_timeout_ms = ipb_approval_arguments_timeout_ms(&arguments->approval);
    if (arguments->seed_text != NULL)
        options.seed = arguments->seed;
    options.sandbox = arguments->kernel.is_sandboxed ? IPYBOX_SANDBOX_ON : IPYBOX_SANDBOX_OFF;
    options.sandbox_config = arguments->kernel.sandbox_config;
    options.allowed_domains = (const char *const *) arguments->kernel.allowed_domains;
    if (arguments->kernel.is_staged)
        options.workspace_mode = IPYBOX_WORKSPACE_STAGED;
    options.staging_dir = arguments->kernel.staging_dir;
    options.on_approval = on_approval;
    options.on_withdrawn = on_withdrawn;
    options.on_log = on_log;
    options.on_event = on_session_event;
    options.user_data = run;
    if (!take_approve(&arguments->approval, &options, error))
        return false;
    if (options.approval == IPYBOX_APPROVAL_ASK || can_type())
        run->prompt = ipb_prompt_new(on_busy, run);
    run->client.session = ipybox_session_new(run->client.runtime, &options, error);
    if (run->client.session != NULL)
        run->layer = g_strdup(ipybox_session_get_layer(run->client.session));
    return run->client.session != NULL;
}

static bool
start(Run *run, const IpbRunArguments *arguments, GError **error)
{
    g_auto(GStrv) preload = ipb_options_split(arguments->kernel.preload);
    IpyboxRuntimeOptions runtime = IPYBOX_RUNTIME_OPTIONS_INIT;
    runtime.python = arguments->kernel.python;
    runtime.preload = (const char *const *) preload;
    if (!ipb_api_client_open(&run->client, &runtime, error) || !open_session(run, arguments, error))
        return false;
    run->timeout_ms = (unsigned) MIN(ceil(arguments->timeout_s * 1000), UINT_MAX / 2);
    execute_cell(run); /* its kernel is fresh */
    return true;
}

/* The session has ended: a signal ends this, too, and the changes stay. After an interrupt, no
 * one is asked. */
static int
review_changes(const Run *run, const IpbRunArguments *arguments, int status)
{
    const IpbChangesReview review = {
        .verb = run->verb,
        .layer = run->layer,
        .sandbox_config = arguments->kernel.sandbox_config,
        .is_unasked = run->is_interrupted || status >= 128,
        .record = arguments->kernel.record,
    };
    int reviewed = run->cells->drops_files ? ipb_changes_review_drop(&review)
                                           : ipb_changes_review_commit(&review);
    return status != IPB_EXIT_OK ? status : reviewed;
}

int
ipb_run_session(const IpbVerb *verb, const IpbRunArguments *arguments, IpbRunCells *cells)
{
    Run run = {.verb = verb, .cells = cells, .at_line_start = true, .hold = ipb_held_output_new()};
    g_autoptr(GError) error = NULL;
    IpbSignals *signals = NULL;
    if (take_next(&run)) {
        signals = ipb_signals_new((int[]){SIGINT, SIGTERM}, 2, on_signal, &run, &error);
        if (signals != NULL && start(&run, arguments, &error))
            ipb_api_client_run(&run.client);
        else
            run.client.status = ipb_cli_fail(verb, ipb_cli_status(error), "%s", error->message);
    }
    end_questions(&run); /* after a second signal: prints the output that is held */
    ipb_signals_free(signals);
    int status = run.client.status;
    ipb_api_client_clear(&run.client);
    ipb_prompt_free(run.prompt);
    ipb_held_output_free(run.hold);
    g_clear_error(&run.write_error);
    g_autofree char *layer = run.layer;
    return layer != NULL ? review_changes(&run, arguments, status) : status;
}
