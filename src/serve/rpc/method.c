/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies of methods; see the header.
 */
#include "serve/rpc/method.h"

#include "base/error.h"

/* The "kind" in the error's data. */
static const char *
error_kind(const GError *error)
{
    static const char *const KINDS[] = {
        [IPYBOX_ERROR_INVALID] = "invalid",
        [IPYBOX_ERROR_NOT_FOUND] = "not_found",
        [IPYBOX_ERROR_TIMEOUT] = "timeout",
        [IPYBOX_ERROR_CANCELLED] = "cancelled",
        [IPYBOX_ERROR_REFUSED] = "refused",
        [IPYBOX_ERROR_KERNEL_DIED] = "kernel_died",
        [IPYBOX_ERROR_SERVER] = "server",
        [IPYBOX_ERROR_PROTOCOL] = "protocol",
        [IPYBOX_ERROR_LIMIT] = "limit",
        [IPYBOX_ERROR_BUSY] = "busy",
        [IPYBOX_ERROR_UNAVAILABLE] = "unavailable",
        [IPYBOX_ERROR_SYSTEM] = "system",
        [IPYBOX_ERROR_CODE] = "code",
    };
    bool is_ours = error->domain == IPYBOX_ERROR && error->code >= 0 &&
                   error->code < (int) G_N_ELEMENTS(KINDS);
    return is_ours ? KINDS[error->code] : "system";
}

static void
fail_with_code(IpbRpcRequest *request, int code, const GError *error)
{
    g_autofree char *data = g_strdup_printf("{\"kind\":\"%s\"}", error_kind(error));
    ipb_rpc_request_fail(request, code, error->message, data);
}

void
ipb_rpc_reply_error(IpbRpcRequest *request, const GError *error)
{
    fail_with_code(request, IPB_RPC_FAILED, error);
}

bool
ipb_rpc_params_check(IpbRpcParams *params, IpbRpcRequest *request)
{
    g_autoptr(GError) error = NULL;
    if (ipb_rpc_params_finish(params, &error))
        return true;
    if (request == NULL)
        return false;
    bool is_params = error->code == IPYBOX_ERROR_INVALID;
    fail_with_code(request, is_params ? IPB_RPC_INVALID_PARAMS : IPB_RPC_FAILED, error);
    return false;
}

void
ipb_rpc_reply(IpbRpcRequest *request, IpbJsonWriter *writer)
{
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    ipb_rpc_request_reply(request, text, size);
}

void
ipb_rpc_reply_empty(IpbRpcRequest *request)
{
    if (request != NULL)
        ipb_rpc_request_reply(request, "{}", 2);
}
