/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands; see the header. Input and output are bytes, so they are in base64.
 *
 * A command.write_stdin is answered when no input waits any more, so a client that waits for the
 * answer never has much more in the core than one piece.
 */
#include "serve/rpc/commands.h"

#include <string.h>
#include <sys/wait.h>

#include "base/error.h"

#define DEFAULT_OUTPUT ((int64_t) 10 * 1024 * 1024)
#define MAX_SIGNAL 64

struct IpbRpcCommand {
    IpbRpcPending *pending;
    IpbSession *session;
    uint64_t number;   /* of the session */
    GPtrArray *writes; /* IpbRpcPending: command.write_stdin that wait */
};

/* --- parameters and answer -------------------------------------------------------------------- */

/* What the options of a command refer to. */
typedef struct {
    IpbCommandOptions options;
    char **argv, **env;
    GBytes *input;
} Parameters;

static void
parameters_clear(Parameters *parameters)
{
    g_strfreev(parameters->argv);
    g_strfreev(parameters->env);
    g_clear_pointer(&parameters->input, g_bytes_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Parameters, parameters_clear)

/* Returns whether output comes as events. */
static bool
read_parameters(Parameters *parameters, IpbRpcParams *params)
{
    bool has_events = ipb_rpc_params_bool(params, "events", false);
    int64_t max_output =
        ipb_rpc_params_int(params, "max_output", -1, 0, (int64_t) IPB_COMMAND_MAX_OUTPUT);
    *parameters = (Parameters){
        .argv = ipb_rpc_params_arguments(params, "argv"),
        .env = ipb_rpc_params_environment(params, "env"),
        .input = ipb_rpc_params_bytes(params, "input"),
    };
    if (parameters->argv == NULL)
        ipb_rpc_params_refuse(params, "argv", "an array of strings");
    if (has_events && max_output >= 0)
        ipb_rpc_params_refuse(params, "max_output", "absent, because events have the output");
    parameters->options = (IpbCommandOptions){
        .argv = (const char *const *) parameters->argv,
        .env = (const char *const *) parameters->env,
        .cwd = ipb_rpc_params_string(params, "cwd"),
        .input = parameters->input,
        .keeps_input_open = ipb_rpc_params_bool(params, "open_stdin", false),
        .timeout_ms = (unsigned) ipb_rpc_params_ms(params, "timeout", 0),
        .max_output = (size_t) (max_output >= 0 ? max_output : DEFAULT_OUTPUT),
    };
    return has_events;
}

static void
write_bytes(IpbJsonWriter *writer, const char *name, const void *bytes, size_t size)
{
    g_autofree char *text = size > 0 ? g_base64_encode(bytes, size) : g_strdup("");
    ipb_json_member_string(writer, name, text);
}

static void
write_number(IpbJsonWriter *writer, const char *name, bool is_known, int number)
{
    ipb_json_key(writer, name);
    if (is_known)
        ipb_json_write_int(writer, number);
    else
        ipb_json_write_null(writer);
}

static IpbJsonWriter *
write_result(const IpbCommandResult *result)
{
    int status = result->wait_status;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_number(writer, "exit_status", WIFEXITED(status), WEXITSTATUS(status));
    write_number(writer, "signal", WIFSIGNALED(status), WTERMSIG(status));
    ipb_json_member_bool(writer, "timed_out", result->is_timeout);
    ipb_json_member_string(writer, "limit", result->limit);
    write_bytes(writer, "stdout", result->out, result->out_size);
    ipb_json_member_bool(writer, "stdout_cut", result->is_out_cut);
    write_bytes(writer, "stderr", result->err, result->err_size);
    ipb_json_member_bool(writer, "stderr_cut", result->is_err_cut);
    ipb_json_end_object(writer);
    return writer;
}

/* --- while it runs ---------------------------------------------------------------------------- */

static void
free_command(void *data)
{
    IpbRpcCommand *command = data;
    g_ptr_array_unref(command->writes);
    g_free(command);
}

/* NULL: the input was taken. */
static void
answer_writes(IpbRpcCommand *command, const GError *error)
{
    while (command->writes->len > 0) {
        IpbRpcPending *write = g_ptr_array_steal_index(command->writes, 0);
        if (error != NULL)
            ipb_rpc_pending_fail(write, error);
        else
            ipb_rpc_pending_reply_empty(write);
    }
}

static void
on_input(bool is_open, void *data)
{
    g_autoptr(GError) error = NULL;
    if (!is_open)
        error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                                    "the command has closed its standard input");
    answer_writes(data, error);
}

static void
on_output(bool is_stderr, const void *bytes, size_t size, void *data)
{
    const IpbRpcCommand *command = data;
    const IpbRpcPending *pending = command->pending;
    IpbJsonWriter *writer =
        ipb_rpc_client_begin_event(ipb_rpc_request_id(pending->request), "output");
    ipb_json_member_string(writer, "stream", is_stderr ? "stderr" : "stdout");
    write_bytes(writer, "data", bytes, size);
    ipb_rpc_client_send_event(pending->client, writer);
}

static void
on_end(const IpbCommandResult *result, const GError *error, void *data)
{
    IpbRpcCommand *command = data;
    g_autoptr(GError) ended =
        g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "the command has ended");
    answer_writes(command, ended);
    if (error != NULL)
        ipb_rpc_pending_fail(command->pending, error);
    else
        ipb_rpc_pending_reply(command->pending, write_result(result));
}

static void
cancel(IpbRpcPending *pending)
{
    const IpbRpcCommand *command = pending->data;
    ipb_commands_cancel(ipb_session_commands(command->session), command->number);
}

void
ipb_rpc_command_run(IpbRpcClient *client, void *owner, IpbSession *session, IpbRpcRequest *request,
                    IpbRpcParams *params)
{
    g_auto(Parameters) parameters = {0};
    bool has_events = read_parameters(&parameters, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbRpcCommand *command = g_new0(IpbRpcCommand, 1);
    command->session = session;
    command->writes = g_ptr_array_new();
    command->pending = ipb_rpc_pending_new(client, owner, request);
    command->pending->cancel = cancel;
    command->pending->data = command;
    command->pending->free_data = free_command;
    parameters.options.on_output = has_events ? on_output : NULL;
    parameters.options.on_input = on_input;
    parameters.options.data = command;
    command->number =
        ipb_session_run_command(session, &parameters.options, on_end, command, &error);
    if (command->number == 0)
        ipb_rpc_pending_fail(command->pending, error);
}

/* --- methods ---------------------------------------------------------------------------------- */

/* The command that the parameter "request" names; NULL: none runs. */
static IpbRpcCommand *
find(IpbRpcClient *client, IpbRpcParams *params)
{
    g_autofree char *id = ipb_rpc_params_need_id(params, "request");
    IpbRpcPending *pending = id != NULL ? ipb_rpc_client_find(client, id) : NULL;
    if (pending != NULL && pending->cancel == cancel)
        return pending->data;
    if (params->error == NULL)
        g_set_error_literal(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                            "no command of this request runs");
    return NULL;
}

static void
reply(IpbRpcRequest *request, bool is_done, const GError *error)
{
    if (is_done)
        ipb_rpc_reply_empty(request);
    else if (request != NULL)
        ipb_rpc_reply_error(request, error);
}

/* What was given stays given. */
static void
cancel_write(IpbRpcPending *pending)
{
    IpbRpcCommand *command = pending->data;
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                                  "the wait was cancelled; the command may get the "
                                                  "input");
    g_ptr_array_remove(command->writes, pending);
    ipb_rpc_pending_fail(pending, error);
}

static void
write_stdin(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcCommand *command = find(group, params);
    g_autoptr(GBytes) input = ipb_rpc_params_bytes(params, "data");
    if (input == NULL)
        ipb_rpc_params_refuse(params, "data", "a string in base64");
    if (!ipb_rpc_params_check(params, request))
        return;
    size_t size;
    const void *bytes = g_bytes_get_data(input, &size);
    g_autoptr(GError) error = NULL;
    IpbCommands *commands = ipb_session_commands(command->session);
    bool is_given = ipb_commands_write(commands, command->number, bytes, size, &error);
    if (!is_given || ipb_commands_input_size(commands, command->number) == 0) {
        reply(request, is_given, error);
        return;
    }
    IpbRpcPending *pending =
        ipb_rpc_pending_new(command->pending->client, command->pending->owner, request);
    pending->cancel = cancel_write;
    pending->data = command;
    g_ptr_array_add(command->writes, pending);
}

static void
close_stdin(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    const IpbRpcCommand *command = find(group, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbCommands *commands = ipb_session_commands(command->session);
    reply(request, ipb_commands_close_input(commands, command->number, &error), error);
}

static void
set_paused(IpbRpcClient *client, IpbRpcRequest *request, IpbRpcParams *params, bool is_paused)
{
    const IpbRpcCommand *command = find(client, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbCommands *commands = ipb_session_commands(command->session);
    reply(request, ipb_commands_pause(commands, command->number, is_paused, &error), error);
}

static void
pause_output(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(group, request, params, true);
}

static void
resume_output(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(group, request, params, false);
}

static void
send_signal(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    const IpbRpcCommand *command = find(group, params);
    int number = (int) ipb_rpc_params_int(params, "signal", 0, 1, MAX_SIGNAL);
    if (number == 0)
        ipb_rpc_params_refuse(params, "signal", "the number of a signal");
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    IpbCommands *commands = ipb_session_commands(command->session);
    reply(request, ipb_commands_signal(commands, command->number, number, &error), error);
}

const IpbRpcMethod IPB_RPC_COMMAND_METHODS[] = {
    {"command.write_stdin", write_stdin},
    {"command.close_stdin", close_stdin},
    {"command.pause", pause_output, .takes_notifications = true},
    {"command.resume", resume_output, .takes_notifications = true},
    {"command.signal", send_signal, .takes_notifications = true},
};
const size_t IPB_RPC_N_COMMAND_METHODS = G_N_ELEMENTS(IPB_RPC_COMMAND_METHODS);
