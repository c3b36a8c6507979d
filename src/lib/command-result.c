/* SPDX-License-Identifier: Apache-2.0
 *
 * How commands ended; see the header and <ipybox/command.h>.
 */
#include "lib/command-result.h"

#include <string.h>
#include <sys/wait.h>

typedef struct {
    char *bytes; /* and a NUL */
    size_t size;
    bool is_cut;
} Output;

struct IpyboxCommandResult {
    int wait_status;
    bool is_timeout;
    char *limit;
    Output outputs[2]; /* by IpyboxCommandStream */
};

static Output
copy_output(const void *bytes, size_t size, bool is_cut)
{
    char *copy = g_malloc(size + 1);
    if (size > 0)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    return (Output){copy, size, is_cut};
}

IpyboxCommandResult *
ipb_lib_command_result_new(const IpbCommandResult *result)
{
    IpyboxCommandResult *made = g_new(IpyboxCommandResult, 1);
    *made = (IpyboxCommandResult){
        .wait_status = result->wait_status,
        .is_timeout = result->is_timeout,
        .limit = g_strdup(result->limit),
        .outputs = {copy_output(result->out, result->out_size, result->is_out_cut),
                    copy_output(result->err, result->err_size, result->is_err_cut)},
    };
    return made;
}

void
ipybox_command_result_free(IpyboxCommandResult *result)
{
    if (result == NULL)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(result->outputs); i++)
        g_free(result->outputs[i].bytes);
    g_free(result->limit);
    g_free(result);
}

int
ipybox_command_result_get_exit_status(const IpyboxCommandResult *result)
{
    g_return_val_if_fail(result != NULL, -1);
    return WIFEXITED(result->wait_status) ? WEXITSTATUS(result->wait_status) : -1;
}

int
ipybox_command_result_get_signal(const IpyboxCommandResult *result)
{
    g_return_val_if_fail(result != NULL, 0);
    return WIFSIGNALED(result->wait_status) ? WTERMSIG(result->wait_status) : 0;
}

gboolean
ipybox_command_result_is_timeout(const IpyboxCommandResult *result)
{
    g_return_val_if_fail(result != NULL, FALSE);
    return result->is_timeout;
}

const char *
ipybox_command_result_get_limit(const IpyboxCommandResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->limit;
}

const char *
ipybox_command_result_get_output(const IpyboxCommandResult *result, IpyboxCommandStream stream,
                                 gsize *size)
{
    g_return_val_if_fail(result != NULL && stream <= IPYBOX_COMMAND_STDERR, NULL);
    const Output *output = &result->outputs[stream];
    if (size != NULL)
        *size = output->size;
    return output->bytes;
}

gboolean
ipybox_command_result_is_output_cut(const IpyboxCommandResult *result, IpyboxCommandStream stream)
{
    g_return_val_if_fail(result != NULL && stream <= IPYBOX_COMMAND_STDERR, FALSE);
    return result->outputs[stream].is_cut;
}
