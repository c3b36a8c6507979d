/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session does beside running cells: registering MCP servers and installing packages; see <ipybox/session.h>.
 */

#include "base/error.h"
#include "lib/block.h"
#include "lib/lib-private.h"

/* --- MCP servers ------------------------------------------------------------------------------- */

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, g_strdupv((char **) modules), (GDestroyNotify) g_strfreev);
    ipb_lib_session_forget(call->owner, call);
}

static void
on_cancel_register(IpbCall *call)
{
    IpyboxSession *session = call->owner;
    ipb_session_cancel_register(session->core, call->number);
}

static bool
start_register(IpyboxSession *session, IpbCall *call, const char *name, const char *params_json,
               const IpyboxRegisterOptions *options, GError **error)
{
    if (!ipb_lib_check_version(options->version, IPYBOX_REGISTER_OPTIONS_VERSION,
                               "IpyboxRegisterOptions", error))
        return false;
    if (!session->can_register) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "a session in a sandbox registers servers only if it was opened with "
                            "register_servers: its kernel could change what is generated");
        return false;
    }
    if ((unsigned) options->listing > IPYBOX_LISTING_STUBS) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "listing is no value of IpyboxListing");
        return false;
    }
    g_autoptr(IpbJsonDoc) params = ipb_lib_parse_params(params_json, error);
    if (params == NULL)
        return false;
    IpbRegisterOptions core_options = {
        .name = name,
        .params = ipb_json_root(params),
        .root_dir = options->root_dir,
        .async_api = options->async_api,
        .listing = (IpbApigenListing) options->listing,
    };
    call->number = ipb_session_register(session->core, &core_options, on_registered, call, error);
    return call->number != 0;
}

void
ipybox_session_register_async(IpyboxSession *session, const char *name, const char *params_json,
                              const IpyboxRegisterOptions *options, GCancellable *cancellable,
                              GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && name != NULL && params_json != NULL);
    static const IpyboxRegisterOptions DEFAULTS = IPYBOX_REGISTER_OPTIONS_INIT;
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_register_async, callback, user_data);
    if (!ipb_lib_session_begin(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (start_register(session, call, name, params_json, options != NULL ? options : &DEFAULTS,
                       &error)) {
        ipb_call_watch(call, cancellable, on_cancel_register);
        return;
    }
    ipb_call_return_copy(call, error);
    ipb_lib_session_forget(session, call);
}

char **
ipybox_session_register_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_register_async, error);
}

char **
ipybox_session_register(IpyboxSession *session, const char *name, const char *params_json,
                        const IpyboxRegisterOptions *options, GCancellable *cancellable,
                        GError **error)
{
    g_return_val_if_fail(session != NULL && name != NULL && params_json != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_register_async(session, name, params_json, options, cancellable,
                                  ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_register_finish(NULL, result, error);
}

/* --- packages ---------------------------------------------------------------------------------- */

/* What a call of this kind carries. */
typedef struct {
    IpyboxInstallFunc on_line;
    gpointer line_data;
} Installation;

static void
on_install_line(const char *line, void *data)
{
    IpbCall *call = data;
    const Installation *installation = call->data;
    if (installation->on_line == NULL || call->is_told)
        return;
    ipb_block_enter_callback();
    installation->on_line(call->owner, line, installation->line_data);
    ipb_block_leave_callback();
}

static void
on_installed(const char *output, const GError *error, void *data)
{
    IpbCall *call = data;
    if (error != NULL)
        ipb_call_return_copy(call, error);
    else
        ipb_call_return(call, g_strdup(output), g_free);
    ipb_lib_session_forget(call->owner, call);
}

static void
on_cancel_install(IpbCall *call)
{
    IpyboxSession *session = call->owner;
    ipb_session_cancel_install(session->core);
}

void
ipybox_session_install_async(IpyboxSession *session, const char *package, IpyboxInstallFunc on_line,
                             gpointer line_data, GCancellable *cancellable,
                             GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL && package != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_install_async, callback, user_data);
    Installation *installation = g_new(Installation, 1);
    *installation = (Installation){on_line, line_data};
    call->data = installation;
    call->free_data = g_free;
    if (!ipb_lib_session_begin(session, call))
        return;
    g_autoptr(GError) error = NULL;
    if (ipb_session_install(session->core, package, on_install_line, on_installed, call, &error)) {
        ipb_call_watch(call, cancellable, on_cancel_install);
        return;
    }
    ipb_call_return_copy(call, error);
    ipb_lib_session_forget(session, call);
}

char *
ipybox_session_install_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_install_async, error);
}

char *
ipybox_session_install(IpyboxSession *session, const char *package, GCancellable *cancellable,
                       GError **error)
{
    g_return_val_if_fail(session != NULL && package != NULL, NULL);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return NULL;
    ipybox_session_install_async(session, package, NULL, NULL, cancellable, ipb_block_on_ready,
                                 &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_install_finish(NULL, result, error);
}
