/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox run`: runs a file, a string or standard input as one cell, or the cells of a notebook. It
 * shows output as it arrives, asks at the terminal before tool calls, and saves plots and prints
 * their paths.
 */
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/display-text.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/api-client.h"
#include "cli/held-output.h"
#include "cli/options.h"
#include "cli/prompt.h"
#include "cli/run-notebook.h"
#include "cli/signals.h"

#define MAX_CODE_SIZE (32u * 1024 * 1024)
/* Bytes of output that are held back while a question is on the terminal. At MAX_HELD the kernel is
 * paused. Log lines of servers and notices cannot be paused: beyond MAX_HELD_LINES they are dropped
 * and counted. */
#define MAX_HELD (1024 * 1024)
#define MAX_HELD_LINES (64 * 1024)

typedef struct {
    IpbKernelArguments kernel;
    IpbApprovalArguments approval;
    char *images_dir;
    char *code;
    char *log_level;
    double timeout_s;
    int64_t seed;
    char *seed_text;
    int saves; /* the outputs, into the notebook */
} RunArguments;

typedef struct {
    IpbApiClient client;
    IpbPrompt *prompt;
    IpbRunNotebook *notebook; /* NULL: there is one cell */
    bool has_begun;           /* to execute cells */
    unsigned timeout_ms;
    IpbHeldOutput *hold; /* output that arrives while a question is on the terminal */
    bool is_asking;      /* a question is on the terminal */
    size_t held_lines;   /* bytes of log lines and notices in `hold` */
    unsigned n_left_out; /* lines that were dropped */
    bool is_interrupted;
    bool at_line_start; /* of standard output: a notice begins on its own line */
    bool has_exited;    /* the code raised SystemExit, with exit_status */
    int exit_status;
    GError *write_error; /* the reader is gone, or the disk is full: nothing more is shown */
    bool has_reader;     /* set with write_error: the output still has one */
} RunCommand;

/* --- output ----------------------------------------------------------------------------------- */

/* Text of the kernel is untrusted. On a terminal its control characters are made visible. */
static void
write_to(RunCommand *command, int fd, const char *text)
{
    if (command->write_error != NULL)
        return;
    g_autofree char *printable = isatty(fd) ? ipb_cli_printable(text) : NULL;
    const char *shown = printable != NULL ? printable : text;
    if (!ipb_fd_write_all(fd, shown, strlen(shown), &command->write_error)) {
        command->has_reader = ipb_cli_has_reader(fd);
        ipybox_session_interrupt(command->client.session);
    }
}

static void
print_to(RunCommand *command, int fd, const char *text)
{
    if (*text == '\0')
        return;
    if (fd == STDOUT_FILENO)
        command->at_line_start = g_str_has_suffix(text, "\n");
    if (!command->is_asking) {
        write_to(command, fd, text);
        return;
    }
    ipb_held_output_add(command->hold, fd, text);
    if (ipb_held_output_size(command->hold) > MAX_HELD)
        ipybox_session_set_paused(command->client.session, TRUE);
}

/* Whether a line of a sender that cannot be paused may be written or held. */
static bool
has_room(RunCommand *command, const char *line)
{
    if (!command->is_asking)
        return true;
    command->held_lines += strlen(line);
    if (command->held_lines <= MAX_HELD_LINES)
        return true;
    command->n_left_out++;
    return false;
}

static void
print_line(RunCommand *command, int fd, const char *text)
{
    if (fd == STDOUT_FILENO && !command->at_line_start)
        print_to(command, fd, "\n");
    g_autofree char *line = g_strconcat(text, g_str_has_suffix(text, "\n") ? "" : "\n", NULL);
    print_to(command, fd, line);
}

static void
print_bundle(RunCommand *command, const IpyboxEvent *event)
{
    const char *image_path = ipybox_event_get_image_path(event);
    if (image_path != NULL) {
        g_autofree char *line = g_strdup_printf("[image saved: %s]", image_path);
        print_line(command, STDOUT_FILENO, line);
        return;
    }
    const char *text = ipybox_event_get_bundle_text(event);
    if (text != NULL)
        print_line(command, STDOUT_FILENO, text);
}

/* sys.exit() ends a script as under Python: None and 0 are success, a number is the status,
 * anything else is printed and is a failure. */
static void
take_exit(RunCommand *command, const char *value)
{
    int64_t number;
    command->has_exited = true;
    command->exit_status = IPB_EXIT_FAILED;
    if (*value == '\0' || g_str_equal(value, "None"))
        command->exit_status = IPB_EXIT_OK;
    else if (g_ascii_string_to_signed(value, 10, INT_MIN, INT_MAX, &number, NULL))
        command->exit_status = (int) (number & 0xff);
    else
        print_line(command, STDERR_FILENO, value);
}

static int
status_of(const RunCommand *command, IpyboxStatus status)
{
    switch (status) {
    case IPYBOX_STATUS_OK:
        return IPB_EXIT_OK;
    case IPYBOX_STATUS_TIMEOUT:
        return IPB_EXIT_TIMEOUT;
    case IPYBOX_STATUS_CANCELLED:
        return IPB_EXIT_INTERRUPTED;
    case IPYBOX_STATUS_ERROR:
        return command->has_exited ? command->exit_status : IPB_EXIT_FAILED;
    case IPYBOX_STATUS_LOST:
        break;
    }
    return IPB_EXIT_FAILED;
}

/* --- questions -------------------------------------------------------------------------------- */

static void
on_log(IpyboxSession *session, const char *level, const char *text, gpointer data)
{
    RunCommand *command = data;
    if (!command->is_asking)
        ipb_api_client_log(session, level, text, data);
    else if (has_room(command, text))
        ipb_held_output_add_log(command->hold, level, text);
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
    RunCommand *command = data;
    command->is_asking = is_busy;
    if (is_busy)
        return;
    ipb_held_output_release(command->hold, on_released, command);
    if (command->n_left_out > 0)
        ipb_cli_say(&ipb_verb_run,
                    "%u lines of servers and notices were dropped while a question was waiting",
                    command->n_left_out);
    command->n_left_out = 0;
    command->held_lines = 0;
    ipybox_session_set_paused(command->client.session, FALSE);
}

static void
on_approval(IpyboxSession *session, IpyboxApproval *approval, gpointer data)
{
    RunCommand *command = data;
    if (command->client.is_ending) { /* from a thread of a cell that has ended */
        ipybox_approval_respond(approval, FALSE);
        return;
    }
    if (command->prompt != NULL) {
        ipb_prompt_ask(command->prompt, approval);
        return;
    }
    g_autoptr(GString) tool = g_string_new(NULL);
    ipb_display_text_quote_name(tool, ipybox_approval_get_server(approval));
    g_string_append_c(tool, '.');
    ipb_display_text_quote_name(tool, ipybox_approval_get_tool(approval));
    ipb_cli_fail(&ipb_verb_run, IPB_EXIT_FAILED,
                 "%s is refused: there is no terminal to ask at; use --approve allow, deny or a "
                 "file of rules",
                 tool->str);
    ipybox_approval_respond(approval, FALSE);
}

static void
on_withdrawn(IpyboxSession *session, IpyboxApproval *approval, gpointer data)
{
    RunCommand *command = data;
    if (command->prompt != NULL)
        ipb_prompt_withdraw(command->prompt, approval);
}

/* The cell has ended, so no answer is needed any more. */
static void
end_questions(RunCommand *command)
{
    if (command->prompt != NULL)
        ipb_prompt_withdraw_all(command->prompt);
}

/* --- life ------------------------------------------------------------------------------------- */

static void
show_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    RunCommand *command = data;
    const char *text = ipybox_event_get_text(event);
    if (command->notebook != NULL)
        ipb_run_notebook_add(command->notebook, event);
    switch (ipybox_event_get_type(event)) {
    case IPYBOX_EVENT_STDOUT:
        print_to(command, STDOUT_FILENO, text);
        break;
    case IPYBOX_EVENT_STDERR:
        print_to(command, STDERR_FILENO, text);
        break;
    case IPYBOX_EVENT_DISPLAY:
    case IPYBOX_EVENT_UPDATE:
    case IPYBOX_EVENT_RESULT:
        print_bundle(command, event);
        break;
    case IPYBOX_EVENT_ERROR:
        if (g_str_equal(ipybox_event_get_error_name(event), "SystemExit"))
            take_exit(command, ipybox_event_get_error_value(event));
        else
            print_line(command, STDERR_FILENO, text);
        break;
    case IPYBOX_EVENT_NOTICE:
        if (has_room(command, text))
            print_line(command, STDERR_FILENO, text);
        break;
    case IPYBOX_EVENT_LATE_OUTPUT:  /* the late events have shown it */
    case IPYBOX_EVENT_CLEAR_OUTPUT: /* output that is printed cannot be cleared */
    case IPYBOX_EVENT_READY:
    case IPYBOX_EVENT_START_FAILED:
        break;
    case IPYBOX_EVENT_INPUT_REQUEST:
        ipb_prompt_ask_input(command->prompt, session, event);
        break;
    case IPYBOX_EVENT_INPUT_WITHDRAWN:
        ipb_prompt_withdraw_input(command->prompt, ipybox_event_get_input(event));
        break;
    case IPYBOX_EVENT_TOOL_PROGRESS:
        if (isatty(STDERR_FILENO) && has_room(command, text))
            print_line(command, STDERR_FILENO, text);
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
execute_cell(RunCommand *command, const char *code)
{
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.timeout_ms = command->timeout_ms;
    options.max_text_chars = 1; /* not used: output is printed as it arrives */
    options.on_event = on_cell_event;
    options.user_data = command;
    options.allow_input = can_type() && command->prompt != NULL;
    command->has_exited = false;
    command->has_begun = true;
    ipybox_session_execute_async(command->client.session, code, &options, NULL, on_executed,
                                 command);
}

/* Whether a cell of a notebook ended so that the next one may run. */
static bool
may_continue(RunCommand *command, const IpyboxResult *result)
{
    return command->notebook != NULL && result != NULL &&
           ipb_run_notebook_end_cell(command->notebook, result) && command->write_error == NULL &&
           !command->is_interrupted;
}

static int
end_status(const RunCommand *command, const IpyboxResult *result, const GError *error)
{
    if (result == NULL)
        return ipb_cli_status(error);
    if (command->notebook != NULL && command->is_interrupted)
        return IPB_EXIT_INTERRUPTED;
    return status_of(command, ipybox_result_get_status(result));
}

static void
on_executed(GObject *source, GAsyncResult *async_result, gpointer data)
{
    RunCommand *command = data;
    IpbApiClient *client = &command->client;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute_finish(client->session, async_result, &error);
    if (client->is_ending)
        return; /* by a signal, which has set the status */
    end_questions(command);
    bool is_fine = may_continue(command, result);
    const char *code = is_fine ? ipb_run_notebook_next(command->notebook) : NULL;
    if (code != NULL) {
        execute_cell(command, code);
        return;
    }
    client->status = is_fine ? IPB_EXIT_OK : end_status(command, result, error);
    const char *message = result != NULL ? ipybox_result_get_message(result) : error->message;
    if (command->write_error != NULL) {
        client->status = command->has_reader ? IPB_EXIT_FAILED : IPB_EXIT_NO_READER;
        message = command->has_reader ? command->write_error->message : NULL;
    }
    if (message != NULL)
        ipb_cli_fail(&ipb_verb_run, result != NULL ? IPB_EXIT_FAILED : client->status, "%s",
                     message);
    if (command->notebook != NULL && client->status != IPB_EXIT_OK)
        ipb_cli_say(&ipb_verb_run, "the notebook ended at its cell %zu",
                    ipb_run_notebook_number(command->notebook));
    ipb_api_client_end(client);
}

/* The first Ctrl-C interrupts the cell, the second ends everything at once. */
static void
on_interrupt(RunCommand *command)
{
    if (command->is_interrupted) {
        command->client.status = IPB_EXIT_INTERRUPTED;
        g_main_loop_quit(command->client.main_loop);
    }
    command->is_interrupted = true;
    ipybox_session_interrupt(command->client.session);
}

static void
on_signal(int number, void *data)
{
    RunCommand *command = data;
    if (number == SIGINT) {
        on_interrupt(command);
        return;
    }
    command->client.status = 128 + SIGTERM;
    end_questions(command);
    ipb_api_client_end(&command->client);
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
open_session(RunCommand *command, const RunArguments *arguments, GError **error)
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
    options.on_approval = on_approval;
    options.on_withdrawn = on_withdrawn;
    options.on_log = on_log;
    options.on_event = on_session_event;
    options.user_data = command;
    if (!take_approve(&arguments->approval, &options, error))
        return false;
    if (options.approval == IPYBOX_APPROVAL_ASK || can_type())
        command->prompt = ipb_prompt_new(on_busy, command);
    command->client.session = ipybox_session_new(command->client.runtime, &options, error);
    return command->client.session != NULL;
}

static bool
start(RunCommand *command, const RunArguments *arguments, const char *code, GError **error)
{
    g_auto(GStrv) preload = ipb_options_split(arguments->kernel.preload);
    IpyboxRuntimeOptions runtime = IPYBOX_RUNTIME_OPTIONS_INIT;
    runtime.python = arguments->kernel.python;
    runtime.preload = (const char *const *) preload;
    if (!ipb_api_client_open(&command->client, &runtime, error) ||
        !open_session(command, arguments, error))
        return false;
    command->timeout_ms = (unsigned) MIN(ceil(arguments->timeout_s * 1000), UINT_MAX / 2);
    execute_cell(command, code);
    return true;
}

/* Saves the outputs of a notebook, however it ended. Returns the exit status. */
static int
save(const RunCommand *command)
{
    int status = command->client.status;
    g_autoptr(GError) error = NULL;
    if (command->notebook == NULL || !command->has_begun ||
        ipb_run_notebook_save(command->notebook, &error))
        return status;
    ipb_cli_say(&ipb_verb_run, "%s", error->message);
    return status != IPB_EXIT_OK ? status : IPB_EXIT_FAILED;
}

/* @notebook: what the code is the first cell of, or NULL. */
static int
execute(const RunArguments *arguments, const char *code, IpbRunNotebook *notebook)
{
    RunCommand command = {
        .at_line_start = true, .hold = ipb_held_output_new(), .notebook = notebook};
    g_autoptr(GError) error = NULL;
    IpbSignals *signals = ipb_signals_new((int[]){SIGINT, SIGTERM}, 2, on_signal, &command, &error);
    if (signals != NULL && start(&command, arguments, code, &error))
        ipb_api_client_run(&command.client);
    else
        command.client.status =
            ipb_cli_fail(&ipb_verb_run, ipb_cli_status(error), "%s", error->message);
    end_questions(&command); /* after a second signal: prints the output that is held */
    ipb_signals_free(signals);
    int status = save(&command);
    ipb_api_client_clear(&command.client);
    ipb_prompt_free(command.prompt);
    ipb_held_output_free(command.hold);
    g_clear_error(&command.write_error);
    return status;
}

/* A link in the workspace may be a cell's of an earlier run, which would read the target in this
 * one. */
static bool
read_file(const RunArguments *arguments, const char *path, char **ret_code, size_t *ret_size,
          GError **error)
{
    const char *given = arguments->kernel.workspace;
    g_autofree char *workspace = g_canonicalize_filename(given != NULL ? given : ".", NULL);
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    if (g_str_equal(path, "-"))
        return ipb_file_read_to_end("/dev/stdin", MAX_CODE_SIZE, ret_code, ret_size, error);
    if (arguments->kernel.is_sandboxed && ipb_beneath_contains(workspace, absolute))
        return ipb_beneath_read_in(workspace, absolute, MAX_CODE_SIZE, ret_code, ret_size, error);
    return ipb_file_read_to_end(path, MAX_CODE_SIZE, ret_code, ret_size, error);
}

/* Runs the cells of a notebook. Returns the exit status. */
static int
execute_notebook(const RunArguments *arguments, const char *path, GError **error)
{
    const char *given = arguments->kernel.workspace;
    g_autofree char *workspace = g_canonicalize_filename(given != NULL ? given : ".", NULL);
    IpbRunNotebook *notebook = ipb_run_notebook_open(
        arguments->kernel.is_sandboxed ? workspace : NULL, path, arguments->saves, error);
    if (notebook == NULL)
        return IPB_EXIT_FAILED;
    const char *code = ipb_run_notebook_next(notebook);
    int status = code != NULL ? execute(arguments, code, notebook) : IPB_EXIT_OK;
    ipb_run_notebook_free(notebook);
    return status;
}

static bool
is_notebook(const RunArguments *arguments, int argc, char **argv)
{
    return arguments->code == NULL && argc == 2 && g_str_has_suffix(argv[1], ".ipynb");
}

/* The code of -c, of the file, or of standard input for "-". Caller frees. */
static char *
read_code(const RunArguments *arguments, int argc, char **argv, GError **error)
{
    if ((arguments->code != NULL) == (argc > 1) || argc > 2) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "give one of: FILE.py, NOTEBOOK.ipynb, -c CODE, - (standard input)");
        return NULL;
    }
    if (arguments->code != NULL)
        return g_strdup(arguments->code);
    char *code;
    size_t size;
    if (!read_file(arguments, argv[1], &code, &size, error))
        return NULL;
    if (strlen(code) < size) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s contains a NUL byte", argv[1]);
        g_free(code);
        return NULL;
    }
    const char *text = code;
    if (ipb_utf8_skip_mark(&text, &size)) /* Python accepts such files, too */
        memmove(code, text, size + 1);
    return code;
}

static bool
check_timeout(const RunArguments *arguments, GError **error)
{
    if (arguments->timeout_s >= 0) /* false for NaN, too */
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "--timeout must be a number of seconds");
    return false;
}

static bool
parse_seed(RunArguments *arguments, GError **error)
{
    if (arguments->seed_text == NULL ||
        g_ascii_string_to_signed(arguments->seed_text, 10, 0, UINT32_MAX, &arguments->seed, NULL))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "--seed must be an integer from 0 to 4294967295");
    return false;
}

static bool
check_saves(const RunArguments *arguments, int argc, char **argv, GError **error)
{
    if (!arguments->saves || is_notebook(arguments, argc, argv))
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "--save needs a notebook: NOTEBOOK.ipynb");
    return false;
}

static int
run_run(int argc, char **argv)
{
    RunArguments arguments = {.kernel.is_sandboxed = TRUE};
    const GOptionEntry options[] = {
        {"code", 'c', 0, G_OPTION_ARG_STRING, &arguments.code, "run CODE", "CODE"},
        {"workspace", 0, 0, G_OPTION_ARG_FILENAME, &arguments.kernel.workspace,
         "working directory of the kernel (default: .)", "DIR"},
        {"images-dir", 0, 0, G_OPTION_ARG_FILENAME, &arguments.images_dir,
         "directory for saved plots (default: images in the workspace)", "DIR"},
        {"timeout", 0, 0, G_OPTION_ARG_DOUBLE, &arguments.timeout_s,
         "interrupt the code after this time (default: never)", "SECONDS"},
        IPB_OPTION_APPROVE(&arguments.approval, "allow, ask (default), deny, or a file of rules"),
        IPB_OPTION_AUDIT_LOG(&arguments.approval),
        IPB_OPTION_RECORD(&arguments.kernel),
        IPB_OPTION_APPROVAL_TIMEOUT(&arguments.approval),
        IPB_OPTION_PYTHON(&arguments.kernel),
        IPB_OPTION_PRELOAD(&arguments.kernel),
        IPB_OPTION_SANDBOX_CONFIG(&arguments.kernel, ""),
        {"no-sandbox", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE, &arguments.kernel.is_sandboxed,
         "run without a sandbox: the code has all your permissions", NULL},
        {"save", 0, 0, G_OPTION_ARG_NONE, &arguments.saves, "write the outputs into the notebook",
         NULL},
        {"seed", 0, 0, G_OPTION_ARG_STRING, &arguments.seed_text,
         "seed for random, numpy.random and torch", "N"},
        IPB_OPTION_LOG_LEVEL(&arguments.log_level),
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(
            &ipb_verb_run, options,
            "The kernel runs in a sandbox. Without --sandbox-config it can write the workspace, "
            "and has no\n"
            "network.\n\nExit status: 0 success, 1 the code failed, 2 wrong usage, 3 something is "
            "missing,\n124 timeout, 130 interrupted.\n\nExample:\n  ipybox run -c '6 * 7'",
            &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    g_autofree char *code = NULL;
    if (!arguments.kernel.is_sandboxed && arguments.kernel.sandbox_config != NULL)
        g_set_error_literal(&error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "--no-sandbox and --sandbox-config cannot be used together");
    else if ((arguments.log_level == NULL || ipb_cli_set_log_level(arguments.log_level, &error)) &&
             ipb_approval_arguments_check(&arguments.approval, &error) &&
             check_timeout(&arguments, &error) && parse_seed(&arguments, &error) &&
             check_saves(&arguments, argc, argv, &error)) {
        if (is_notebook(&arguments, argc, argv))
            status = execute_notebook(&arguments, argv[1], &error);
        else if ((code = read_code(&arguments, argc, argv, &error)) != NULL)
            status = execute(&arguments, code, NULL);
    }
    if (error != NULL)
        status = ipb_cli_fail(&ipb_verb_run, ipb_cli_status(error), "%s", error->message);
    ipb_kernel_arguments_clear(&arguments.kernel);
    ipb_approval_arguments_clear(&arguments.approval);
    g_free(arguments.images_dir);
    g_free(arguments.code);
    g_free(arguments.log_level);
    g_free(arguments.seed_text);
    return status;
}

const IpbVerb ipb_verb_run = {"run", "FILE.py | NOTEBOOK.ipynb | -c CODE | -",
                              "run Python code as one cell, or a notebook", run_run};
