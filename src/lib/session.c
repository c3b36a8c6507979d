/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a session; see <ipybox/session.h> and lib/lib-private.h. Its cells are in cells.c, registrations and installations
 * in jobs.c.
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
        .on_log = on_log,
        .data = session,
    };
    g_autoptr(IpbSession) core = ipb_session_new(session->runtime->core, &core_options, error);
    if (core == NULL || !ipb_workspace_allow_registered(core, error))
        return NULL;
    return g_steal_pointer(&core);
}

static void
unref(IpyboxSession *session)
{
    if (--session->references > 0)
        return;
    g_ptr_array_unref(session->calls);
    g_ptr_array_unref(session->approvals);
    g_main_context_unref(session->context);
    g_free(session->workspace);
    g_free(session);
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
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the runtime is closed");
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
    if (session->core == NULL) {
        unref(session);
        return NULL;
    }
    session->workspace = g_strdup(ipb_session_workspace(session->core));
    g_ptr_array_add(runtime->sessions, session);
    return session;
}

/* --- turns of the context ---------------------------------------------------------------------- */

typedef struct {
    IpyboxSession *session;
    IpbLibTurnFunc func;
    void *data;
    GDestroyNotify free_data;
} Turn;

static void
free_turn(gpointer data)
{
    Turn *turn = data;
    if (turn->free_data != NULL)
        turn->free_data(turn->data);
    unref(turn->session);
    g_free(turn);
}

static gboolean
on_turn(gpointer data)
{
    Turn *turn = data;
    turn->func(turn->session, turn->data);
    return G_SOURCE_REMOVE;
}

void
ipb_lib_session_run_soon(IpyboxSession *session, IpbLibTurnFunc func, void *data,
                         GDestroyNotify free_data)
{
    session->references++;
    Turn *turn = g_new(Turn, 1);
    *turn = (Turn){session, func, data, free_data};
    g_autoptr(GSource) source = g_idle_source_new();
    g_source_set_priority(source, G_PRIORITY_DEFAULT);
    g_source_set_callback(source, on_turn, turn, free_turn);
    g_source_attach(source, session->context);
}

/* --- while it is open -------------------------------------------------------------------------- */

static bool
is_open(const IpyboxSession *session)
{
    return session->core != NULL && !session->is_closed && !session->is_freed;
}

void
ipybox_session_start(IpyboxSession *session)
{
    g_return_if_fail(session != NULL);
    if (is_open(session))
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
    if (is_open(session))
        ipb_session_interrupt(session->core);
}

void
ipybox_session_set_paused(IpyboxSession *session, gboolean paused)
{
    g_return_if_fail(session != NULL);
    if (is_open(session))
        ipb_session_set_paused(session->core, paused);
}

bool
ipb_lib_session_begin(IpyboxSession *session, IpbCall *call)
{
    if (!is_open(session)) {
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

/* --- the end ----------------------------------------------------------------------------------- */

/* The core goes, and with it what it still had to tell. */
static void
drop_core(IpyboxSession *session)
{
    g_clear_pointer(&session->close_timer, ipb_timer_free);
    g_clear_pointer(&session->core, ipb_session_free);
    g_ptr_array_set_size(session->calls, 0);
    if (session->runtime != NULL)
        g_ptr_array_remove_fast(session->runtime->sessions, session);
    if (session->runtime != NULL && session->is_runtime_waiting)
        ipb_lib_runtime_session_closed(session->runtime);
    session->is_runtime_waiting = false;
    session->runtime = NULL; /* which may end before the program frees the session */
}

static void
on_drop_turn(IpyboxSession *session, void *data)
{
    drop_core(session);
}

static GError *
make_cancelled(const IpyboxSession *session)
{
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "%s was freed",
                       session->is_freed ? "the session" : "the runtime of the session");
}

void
ipb_lib_session_end(IpyboxSession *session)
{
    if (session->core == NULL)
        return;
    session->is_closed = true;
    ipb_lib_drop_approvals(session);
    for (guint i = 0; i < session->calls->len; i++)
        ipb_call_return_error(g_ptr_array_index(session->calls, i), make_cancelled(session));
    if (session->closing != NULL)
        ipb_call_return_error(session->closing, make_cancelled(session));
    g_clear_pointer(&session->closing, ipb_call_unref);
    if (ipb_block_is_in_callback())
        ipb_lib_session_run_soon(session, on_drop_turn, NULL, NULL);
    else
        drop_core(session);
}

/* The end in order is over: from the loop, and nothing of the core is on the stack. */
static void
finish_close(IpyboxSession *session, GError *error)
{
    IpbCall *closing = g_steal_pointer(&session->closing);
    session->references++;
    ipb_lib_drop_approvals(session);
    drop_core(session);
    if (closing != NULL && error != NULL)
        ipb_call_return_error(closing, error);
    else if (closing != NULL)
        ipb_call_return(closing, GINT_TO_POINTER(TRUE), NULL);
    else
        g_clear_error(&error);
    g_clear_pointer(&closing, ipb_call_unref);
    unref(session);
}

static void
on_closed_turn(void *data)
{
    finish_close(data, NULL);
}

static void
on_core_closed(void *data)
{
    IpyboxSession *session = data;
    if (session->runtime == NULL) /* freed meanwhile, and the core goes with it */
        return;
    ipb_timer_free(session->close_timer);
    session->close_timer =
        ipb_timer_new(ipb_runtime_loop(session->runtime->core), 0, on_closed_turn, session);
}

static void
on_close_timeout(void *data)
{
    finish_close(data, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                                   "the session had not ended after %d s: what was left was killed",
                                   IPB_LIB_CLOSE_TIMEOUT_MS / 1000));
}

void
ipb_lib_session_close(IpyboxSession *session)
{
    session->is_closed = true;
    session->close_timer = ipb_timer_new(ipb_runtime_loop(session->runtime->core),
                                         IPB_LIB_CLOSE_TIMEOUT_MS, on_close_timeout, session);
    ipb_session_close(session->core, on_core_closed, session);
}

void
ipybox_session_close_async(IpyboxSession *session, GAsyncReadyCallback callback, gpointer user_data)
{
    g_return_if_fail(session != NULL);
    g_autoptr(IpbCall) call =
        ipb_call_new(session->context, ipybox_session_close_async, callback, user_data);
    if (!is_open(session)) {
        ipb_call_return_error(
            call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the session is closed already"));
        return;
    }
    session->closing = g_steal_pointer(&call);
    ipb_lib_session_close(session);
}

gboolean
ipybox_session_close_finish(IpyboxSession *session, GAsyncResult *result, GError **error)
{
    return ipb_call_finish(result, ipybox_session_close_async, error) != NULL;
}

gboolean
ipybox_session_close(IpyboxSession *session, GError **error)
{
    g_return_val_if_fail(session != NULL, FALSE);
    IpbBlock block;
    if (!ipb_block_begin(&block, session->context, error))
        return FALSE;
    ipybox_session_close_async(session, ipb_block_on_ready, &block);
    g_autoptr(GAsyncResult) result = ipb_block_wait(&block);
    return ipybox_session_close_finish(NULL, result, error);
}

void
ipybox_session_free(IpyboxSession *session)
{
    if (session == NULL)
        return;
    session->is_freed = true;
    ipb_lib_session_end(session);
    unref(session);
}
