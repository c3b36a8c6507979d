/* SPDX-License-Identifier: Apache-2.0
 *
 * session.open: the options of a session as a client gives them. An option that this build cannot honour is an error, never
 * without effect.
 */
#include "base/error.h"
#include "serve/rpc-private.h"
#include "session/workspace.h"

#define MAX_SESSIONS 1000
#define MAX_SEED UINT32_MAX
#define DEFAULT_START_TIMEOUT_MS 60000

/* The options, with what they point to. */
typedef struct {
    IpbSessionOptions core;
    const char *python;
    char **preload, **kernel_env, **env, **server_variables, **package_roots;
    char *limits; /* JSON */
    int64_t start_timeout_ms;
} Options;

static void
clear_options(Options *options)
{
    g_strfreev(options->preload);
    g_strfreev(options->kernel_env);
    g_strfreev(options->env);
    g_strfreev(options->server_variables);
    g_strfreev(options->package_roots);
    g_free(options->limits);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Options, clear_options)

static void
read_approval(IpbRpcParams *params, IpbSessionOptions *core)
{
    static const char *const POLICIES[] = {"allow", "ask", "deny", NULL};
    static const IpbApprovalPolicy VALUES[] = {IPB_APPROVAL_ALLOW, IPB_APPROVAL_ASK,
                                               IPB_APPROVAL_DENY};
    core->approval = VALUES[ipb_rpc_params_word(params, "approval", POLICIES, 1)];
    core->approval_rules = ipb_rpc_params_path(params, "approval_rules");
    core->audit_log = ipb_rpc_params_path(params, "audit_log");
    core->approval_timeout_ms = ipb_rpc_params_ms(params, "approval_timeout", -1);
}

static void
read_sandbox(IpbRpcParams *params, IpbSessionOptions *core)
{
    core->sandbox_config = ipb_rpc_params_path(params, "sandbox_config");
    core->is_sandboxed = ipb_rpc_params_bool(params, "sandbox", false);
    if (core->sandbox_config != NULL && !core->is_sandboxed)
        ipb_rpc_params_refuse(params, "sandbox", "true where there is a sandbox_config");
    core->makes_packages = ipb_rpc_params_bool(params, "register_servers", false);
    core->allows_builds = ipb_rpc_params_bool(params, "allow_builds", false);
}

static void
read_limits(IpbRpcParams *params, Options *options)
{
    const IpbJson *limits = ipb_rpc_params_get(params, "limits");
    if (limits == NULL || ipb_json_is(limits, IPB_JSON_NULL))
        return;
    IpbSpan text = ipb_json_raw(limits);
    options->core.limits = options->limits = g_strndup(text.start, text.size);
}

static void
read_shell(IpbRpcParams *params, IpbSessionOptions *core)
{
    core->working_dir = ipb_rpc_params_path(params, "working_dir");
    core->approves_shell_cmds = ipb_rpc_params_bool(params, "approve_shell_cmds", false);
    core->requires_shell_escape = ipb_rpc_params_bool(params, "require_shell_escape", false);
}

/* Part of the contract, and not there yet: only what does without them is taken. */
static void
refuse_missing(IpbRpcParams *params)
{
    static const char *const NAMES[] = {"tool_server", "gateway"};
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        const IpbJson *value = ipb_rpc_params_get(params, NAMES[i]);
        if (value != NULL && (!ipb_json_is(value, IPB_JSON_BOOL) || ipb_json_bool(value, true)))
            ipb_rpc_params_refuse(params, NAMES[i], "null: this version cannot do it");
    }
}

static void
read_options(IpbRpcParams *params, Options *options)
{
    IpbSessionOptions *core = &options->core;
    options->python = ipb_rpc_params_string(params, "python");
    options->preload = ipb_rpc_params_strings(params, "preload");
    options->kernel_env = ipb_rpc_params_environment(params, "kernel_env");
    options->env = ipb_rpc_params_environment(params, "env");
    options->server_variables = ipb_rpc_params_strings(params, "server_variables");
    options->package_roots = ipb_rpc_params_strings(params, "package_roots");
    options->start_timeout_ms =
        ipb_rpc_params_ms(params, "kernel_init_timeout", DEFAULT_START_TIMEOUT_MS);
    core->workspace = ipb_rpc_params_path(params, "workspace");
    if (core->workspace == NULL)
        ipb_rpc_params_refuse(params, "workspace", "an absolute path");
    core->images_dir = ipb_rpc_params_path(params, "images_dir");
    core->kernel_env = (const char *const *) options->kernel_env;
    core->env = (const char *const *) options->env;
    core->server_variables = (const char *const *) options->server_variables;
    core->connect_timeout_ms = (unsigned) ipb_rpc_params_ms(params, "connect_timeout", 0);
    core->seed = ipb_rpc_params_int(params, "seed", -1, 0, MAX_SEED);
    core->has_seed = core->seed >= 0;
    read_approval(params, core);
    read_sandbox(params, core);
    read_limits(params, options);
    read_shell(params, core);
    refuse_missing(params);
}

static void
on_log(const char *level, const char *text, void *data)
{
    IpbRpcSession *session = data;
    ipb_rpc_server_log(session->server, level, text, session->id);
}

static IpbRpcSession *
open_session(IpbRpcServer *server, Options *options, GError **error)
{
    if (g_hash_table_size(server->sessions) >= MAX_SESSIONS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%d sessions are open: close some",
                    MAX_SESSIONS);
        return NULL;
    }
    IpbRuntime *runtime = ipb_rpc_runtimes_get(server->runtimes, options->python,
                                               (const char *const *) options->preload, error);
    if (runtime == NULL)
        return NULL;
    IpbRpcSession *session = ipb_rpc_session_new(server, runtime);
    session->approval = options->core.approval;
    session->start_timeout_ms = (unsigned) options->start_timeout_ms;
    options->core.on_approval = ipb_rpc_approval_ask;
    options->core.on_approval_withdrawn = ipb_rpc_approval_withdraw;
    options->core.on_log = on_log;
    options->core.data = session;
    session->core = ipb_session_new(runtime, &options->core, error);
    bool is_open = session->core != NULL && ipb_workspace_allow_registered(session->core, error);
    if (is_open)
        ipb_rpc_sources_allow(server->sources, session->core);
    for (char **root = options->package_roots; is_open && root != NULL && *root != NULL; root++)
        is_open = ipb_workspace_allow_below(session->core, *root, error);
    if (!is_open)
        g_clear_pointer(&session, ipb_rpc_session_free);
    return session;
}

void
ipb_rpc_session_open(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    g_auto(Options) options = {0};
    g_autoptr(GError) error = NULL;
    read_options(params, &options);
    if (!ipb_rpc_server_check(request, params))
        return;
    IpbRpcSession *session = open_session(server, &options, &error);
    if (session == NULL) {
        ipb_rpc_server_fail(request, error);
        return;
    }
    g_hash_table_insert(server->sessions, session->id, session);
    ipb_rpc_session_apply_pause(session);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session->id);
    ipb_json_member_string(writer, "workspace", ipb_session_workspace(session->core));
    ipb_json_end_object(writer);
    ipb_rpc_server_reply(request, writer);
}
