/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands; see the header. Output is bytes, so it is in base64.
 */
#include "serve/rpc/commands.h"

#include <sys/wait.h>

#define DEFAULT_OUTPUT ((int64_t) 10 * 1024 * 1024)

void
ipb_rpc_command_read(IpbRpcCommand *command, IpbRpcParams *params)
{
    *command = (IpbRpcCommand){
        .argv = ipb_rpc_params_arguments(params, "argv"),
        .env = ipb_rpc_params_environment(params, "env"),
        .input = ipb_rpc_params_bytes(params, "input"),
    };
    if (command->argv == NULL)
        ipb_rpc_params_refuse(params, "argv", "an array of strings");
    command->options = (IpbCommandOptions){
        .argv = (const char *const *) command->argv,
        .env = (const char *const *) command->env,
        .cwd = ipb_rpc_params_string(params, "cwd"),
        .input = command->input,
        .timeout_ms = (unsigned) ipb_rpc_params_ms(params, "timeout", 0),
        .max_output = (size_t) ipb_rpc_params_int(params, "max_output", DEFAULT_OUTPUT, 0,
                                                  (int64_t) IPB_COMMAND_MAX_OUTPUT),
    };
}

void
ipb_rpc_command_clear(IpbRpcCommand *command)
{
    g_clear_pointer(&command->argv, g_strfreev);
    g_clear_pointer(&command->env, g_strfreev);
    g_clear_pointer(&command->input, g_bytes_unref);
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

IpbJsonWriter *
ipb_rpc_command_write(const IpbCommandResult *result)
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
