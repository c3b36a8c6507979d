/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a session; see <ipybox/session.h> and lib/lib-private.h. Its end is in session-end.c, its cells are in cells.c, registrations and
 * installations in jobs.c.
 */
#include <string.h>

#include "base/error.h"
#include "lib/block.h"
#include "lib/lib-private.h"
#include "session/workspace.h"

/* The program's word for what the core calls by another name. */
static IpbApprovalPolicy
policy_of(IpyboxApprovalPolicy policy)
{
    switch (policy) {
    case IPYBOX_APPROVAL_ALLOW:
        return IPB_APPROVAL_ALLOW;
    case IPYBOX_APPROVAL_ASK:
        return IPB_APPROVAL_ASK;
    case IPYBOX_APPROVAL_DENY:
        break;
    }
    return IPB_APPROVAL_DENY;
}

static void
on_log(const char *level, const char *text, void *data)
{
    IpyboxSession *session = data;
    if (session->on_log == NULL || session->is_freed)
        return;
    /* What is told while the session is made comes before the program has it. */
    IpyboxSession *told = session->core != NULL ? session : NULL;
    ipb_block_enter_callback();
    session->on_log(told, level, text, session->user_data);
    ipb_block_leave_callback();
}

/* --- making one -------------------------------------------------------------------------------- */

static bool
check_environment(const char *const *environment, const char *name, GError **error)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strchr(*environment, '=') > *environment)
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s: each entry must be \"NAME=value\", not \"%s\"", name, *environment);
        return false;
    }
    return true;
}

static bool
check_options(const IpyboxSessionOptions *options, GError **error)
{
    if (!ipb_lib_check_version(options->version, IPYBOX_SESSION_OPTIONS_VERSION,
                               "IpyboxSessionOptions", error))
        return false;
    if (options->seed < -1 || options->seed > UINT32_MAX) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "seed: an integer from 0 to 4294967295, or -1 for none");
        return false;
    }
    if (options->approval > IPYBOX_APPROVAL_DENY) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "approval: %d is no IpyboxApprovalPolicy", (int) options->approval);
        return false;
    }
    if (options->sandbox > IPYBOX_SANDBOX_ON) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "sandbox: %d is no IpyboxSandbox",
                    (int) options->sandbox);
        return false;
    }
    if (options->sandbox == IPYBOX_SANDBOX_OFF && options->sandbox_config != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "sandbox_config has no effect where sandbox is IPYBOX_SANDBOX_OFF");
        return false;
    }
    return check_environment(options->kernel_env, "kernel_env", error) &&
           check_environment(options->env, "env", error);
}

static IpbSession *
make_core(IpyboxSession *session, const IpyboxSessionOptions *options, GError **error)
{
    IpbSessionOptions core_options = {
        .workspace = options->workspace,
        .images_dir = options->images_dir,
        .kernel_env = options->kernel_env,
        .env = options->env,
        .allowed_servers = options->allowed_servers,
        .approval = policy_of(options->approval),
        .approval_rules = options->approval_rules,
        .audit_log = options->audit_log,
        .approval_timeout_ms = options->approval_timeout_ms,
        .on_approval = options->on_approval != NULL ? ipb_lib_on_approval : NULL,
        .on_approval_withdrawn = options->on_withdrawn != NULL ? ipb_lib_on_withdrawn : NULL,
        .connect_timeout_ms = options->connect_timeout_ms,
        .seed = options->seed,
        .has_seed = options->seed >= 0,
        .is_sandboxed = options->sandbox == IPYBOX_SANDBOX_ON,
        .sandbox_config = options->sandbox_config,
        .makes_packages = options->register_servers,
        .allows_builds = options->allow_builds,
        .working_dir = options->working_dir,
        .limits = options->limits,
        .approves_shell_cmds = options->approve_shell_cmds,
        .requires_shell_escape = options->require_shell_escape,
        .kernel_init_timeout_ms = options->kernel_init_timeout_ms,
        .on_log = on_log,
        .data = session,
    };
    g_autoptr(IpbSession) core = ipb_session_new(session->runtime->core, &core_options, error);
    if (core == NULL || !ipb_workspace_allow_registered(core, error))
        return NULL;
    return g_steal_pointer(&core);
}

void
ipb_lib_session_unref(IpyboxSession *session)
{
    if (--session->references > 0)
        return;
    g_ptr_array_unref(session->calls);
    g_ptr_array_unref(session->approvals);
    g_main_context_unref(session->context);
    g_free(session->workspace);
    g_free(session);
}

static void
set_closed(GError **error)
{
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the runtime is closed");
}

IpyboxSession *
ipybox_session_new(IpyboxRuntime *runtime, const IpyboxSessionOptions *options, GError **error)
{
    g_return_val_if_fail(runtime != NULL, NULL);
    static const IpyboxSessionOptions DEFAULTS = IPYBOX_SESSION_OPTIONS_INIT;
    if (options == NULL)
        options = &DEFAULTS;
    if (!check_options(options, error))
        return NULL;
    if (runtime->is_closed) {
        set_closed(error);
        return NULL;
    }
    IpyboxSession *session = g_new0(IpyboxSession, 1);
    session->references = 1;
    session->runtime = runtime;
    session->context = g_main_context_ref(runtime->context);
    session->on_approval = options->on_approval;
    session->on_withdrawn = options->on_withdrawn;
    session->on_log = options->on_log;
    session->user_data = options->user_data;
    session->can_register = options->sandbox == IPYBOX_SANDBOX_OFF || options->register_servers;
    session->calls = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_call_unref);
    session->approvals = g_ptr_array_new();
    session->core = make_core(session, options, error);
    if (session->core != NULL && runtime->is_closed) { /* by on_log, or it was freed */
        g_clear_pointer(&session->core, ipb_session_free);
        set_closed(error);
    }
    if (session->core == NULL) {
        ipb_lib_session_unref(session);
        return NULL;
    }
    session->workspace = g_strdup(ipb_session_workspace(session->core));
    g_ptr_array_add(runtime->sessions, session);
    return session;
}

/* --- while it is open -------------------------------------------------------------------------- */

bool
ipb_lib_session_is_open(const IpyboxSession *session)
{
    return session->core != NULL && !session->is_closed && !session->is_freed;
}

void
ipybox_session_start(IpyboxSession *session)
{
    g_return_if_fail(session != NULL);
    if (ipb_lib_session_is_open(session))
        ipb_session_start(session->core);
}

const char *
ipybox_session_get_workspace(IpyboxSession *session)
{
    g_return_val_if_fail(session != NULL, NULL);
    return session->workspace;
}

void
ipybox_session_interrupt(IpyboxSession *session)
{
    g_return_if_fail(session != NULL);
    if (ipb_lib_session_is_open(session))
        ipb_session_interrupt(session->core);
}

void
ipybox_session_set_paused(IpyboxSession *session, gboolean paused)
{
    g_return_if_fail(session != NULL);
    if (ipb_lib_session_is_open(session))
        ipb_session_set_paused(session->core, paused);
}

bool
ipb_lib_session_begin(IpyboxSession *session, IpbCall *call)
{
    if (!ipb_lib_session_is_open(session)) {
        ipb_call_return_error(
            call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session is closed"));
        return false;
    }
    call->owner = session;
    g_ptr_array_add(session->calls, ipb_call_ref(call));
    return true;
}

void
ipb_lib_session_forget(IpyboxSession *session, IpbCall *call)
{
    g_ptr_array_remove_fast(session->calls, call);
}

static void
on_reset(void *data)
{
    IpbCall *call = data;
    ipb_call_return(call, GINT_TO_POINTER(TRUE), NULL);
    ipb_lib_session_forget(call->owner, call);
}

void
ipybox_session_reset_async(IpyboxSession *session, GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_reset_async, callback, user_data);
    if (ipb_lib_session_begin(session, call))
        ipb_session_reset(session->core, on_reset, call);
}

gboolean
ipybox_session_reset_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_reset_async, error) != NULL;
}

gboolean
ipybox_session_reset(IpyboxSession *session, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return FALSE;
    ipybox_session_reset_async(session, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_reset_finish(NULL, result, error);
}
