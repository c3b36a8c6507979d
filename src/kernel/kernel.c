/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that every backend shares: checks of what comes from the caller, and dispatch.
 */
#include "kernel/kernel.h"

#include <string.h>

#include "base/error.h"
#include "json/json.h"

#define MAX_CODE (32u * 1024 * 1024)
/* Of a request; of a cell's user expressions. */
#define MAX_PARAMS (4u * 1024 * 1024)
#define MAX_INPUT_SIZE (1024u * 1024)

void
ipb_kernel_start(IpbKernel *kernel, bool rehearses)
{
    kernel->ops->start(kernel, rehearses);
}

static bool
is_strings(const IpbJson *object)
{
    if (!ipb_json_is(object, IPB_JSON_OBJECT))
        return false;
    IPB_JSON_FOREACH (item, object)
        if (!ipb_json_is(item, IPB_JSON_STRING))
            return false;
    return true;
}

static bool
check_object(const char *text, const char *what, bool of_strings, GError **error)
{
    size_t size = strlen(text);
    if (size > MAX_PARAMS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s have %zu bytes, %u are allowed",
                    what, size, MAX_PARAMS);
        return false;
    }
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    if (document == NULL) {
        g_prefix_error(error, "%s: ", what);
        return false;
    }
    const IpbJson *object = ipb_json_root(document);
    if (of_strings ? is_strings(object) : ipb_json_is(object, IPB_JSON_OBJECT))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s must be a JSON object%s", what,
                of_strings ? " of strings" : "");
    return false;
}

uint64_t
ipb_kernel_execute(IpbKernel *kernel, const IpbKernelCode *code, GError **error)
{
    size_t size = strlen(code->code);
    if (size > MAX_CODE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the code has %zu bytes, %u are allowed: write it to a file and run that", size,
                    MAX_CODE);
        return 0;
    }
    if (!g_utf8_validate(code->code, (gssize) size, NULL)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the code is not valid UTF-8");
        return 0;
    }
    if (code->user_expressions != NULL &&
        !check_object(code->user_expressions, "the user expressions", /* of_strings= */ true,
                      error))
        return 0;
    if (code->parent != NULL &&
        !check_object(code->parent, "the header of the request", /* of_strings= */ false, error))
        return 0;
    uint64_t cell = MAX(code->number, kernel->last_cell + 1);
    if (!kernel->ops->execute(kernel, code, cell, error))
        return 0;
    return kernel->last_cell = cell;
}

bool
ipb_kernel_request(IpbKernel *kernel, const char *method, const char *params,
                   IpbKernelReplyFunc func, void *data, GError **error)
{
    if (!check_object(params, "the parameters", /* of_strings= */ false, error))
        return false;
    return kernel->ops->request(kernel, method, params, func, data, error);
}

bool
ipb_kernel_answer_input(IpbKernel *kernel, uint64_t input, const char *value, const char *why,
                        GError **error)
{
    size_t size = value != NULL ? strlen(value) : 0;
    if (size > MAX_INPUT_SIZE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the input has %zu bytes, %u are allowed: write it to a file and read that",
                    size, MAX_INPUT_SIZE);
        return false;
    }
    if (value != NULL && !g_utf8_validate(value, (gssize) size, NULL)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the input is not valid UTF-8");
        return false;
    }
    return kernel->ops->answer_input(kernel, input, value, why, error);
}

void
ipb_kernel_interrupt(IpbKernel *kernel)
{
    kernel->ops->interrupt(kernel);
}

void
ipb_kernel_reset(IpbKernel *kernel)
{
    kernel->ops->reset(kernel);
}

void
ipb_kernel_stop(IpbKernel *kernel, void (*done)(void *data), void *data)
{
    kernel->ops->stop(kernel, done, data);
}

void
ipb_kernel_set_paused(IpbKernel *kernel, bool paused)
{
    kernel->ops->set_paused(kernel, paused);
}

void
ipb_kernel_report_late_output(IpbKernel *kernel)
{
    kernel->ops->report_late_output(kernel);
}

bool
ipb_kernel_fork(IpbKernel *kernel, IpbKernel *branch, const IpbBranchOptions *options,
                IpbBranchedFunc func, void *data, GError **error)
{
    return kernel->ops->fork(kernel, branch, options, func, data, error);
}

void
ipb_kernel_replace(IpbKernel *kernel, IpbKernel *branch)
{
    kernel->ops->replace(kernel, branch);
}

bool
ipb_kernel_measure(const IpbKernel *kernel, uint64_t *ret_bytes)
{
    return kernel->ops->measure(kernel, ret_bytes);
}

static bool
check_command(const IpbCommandOptions *options, GError **error)
{
    const char *problem = NULL;
    if (options->argv == NULL || options->argv[0] == NULL || options->argv[0][0] == '\0')
        problem = "a command needs a program";
    for (const char *const *entry = options->env; entry != NULL && *entry != NULL; entry++)
        if ((*entry)[0] == '=' || strchr(*entry, '=') == NULL)
            problem = "a variable of a command needs a name";
    if (problem != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, problem);
        return false;
    }
    if (options->input != NULL && g_bytes_get_size(options->input) > IPB_COMMAND_MAX_INPUT) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the input of the command has %zu bytes, %zu are allowed: write it to a file",
                    g_bytes_get_size(options->input), IPB_COMMAND_MAX_INPUT);
        return false;
    }
    if (options->max_output > IPB_COMMAND_MAX_OUTPUT) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%zu bytes of output cannot be kept, at most %zu", options->max_output,
                    IPB_COMMAND_MAX_OUTPUT);
        return false;
    }
    return true;
}

uint64_t
ipb_kernel_run_command(IpbKernel *kernel, const IpbCommandOptions *options, IpbCommandFunc func,
                       void *data, GError **error)
{
    if (kernel->ops->run_command == NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "kernels of this kind run no commands");
        return 0;
    }
    return check_command(options, error)
               ? kernel->ops->run_command(kernel, options, func, data, error)
               : 0;
}

struct IpbCommands *
ipb_kernel_commands(IpbKernel *kernel)
{
    return kernel->ops->commands != NULL ? kernel->ops->commands(kernel) : NULL;
}

bool
ipb_kernel_has_socket(const IpbKernel *kernel, uint64_t inode)
{
    return kernel->ops->has_socket(kernel, inode);
}

void
ipb_kernel_free(IpbKernel *kernel)
{
    if (kernel != NULL)
        kernel->ops->free(kernel);
}
