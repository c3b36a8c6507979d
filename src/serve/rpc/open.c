/* SPDX-License-Identifier: Apache-2.0
 *
 * session.open: the options of a session as a client gives them. An option that this build cannot honour is an error, never
 * without effect.
 */
#include "base/error.h"
#include "serve/rpc/private.h"
#include "session/workspace.h"

#define MAX_SESSIONS 1000
#define MAX_SEED UINT32_MAX
#define DEFAULT_START_TIMEOUT_MS 60000
/* A process that has not become a kernel after this time will not: whoever does not wait so long may still get it. */
#define MIN_INIT_TIMEOUT_MS 10000

/* The options, with what they point to: kernels of a gateway are made with them later. */
struct IpbRpcOptions {
    IpbRpcRequest *request; /* holds the texts */
    IpbSessionOptions core;
    const char *python;
    char **preload, **kernel_env, **env, **server_variables, **package_roots;
    char *limits, *allowed_servers; /* JSON */
    int64_t start_timeout_ms;
    IpbRpcPort tool_server, gateway;
};

void
ipb_rpc_options_free(IpbRpcOptions *options)
{
    if (options == NULL)
        return;
    ipb_rpc_request_unref(options->request);
    g_strfreev(options->preload);
    g_strfreev(options->kernel_env);
    g_strfreev(options->env);
    g_strfreev(options->server_variables);
    g_strfreev(options->package_roots);
    g_free(options->limits);
    g_free(options->allowed_servers);
    g_free(options);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRpcOptions, ipb_rpc_options_free)

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
read_limits(IpbRpcParams *params, IpbRpcOptions *options)
{
    const IpbJson *limits = ipb_rpc_params_get(params, "limits");
    if (limits == NULL || ipb_json_is(limits, IPB_JSON_NULL))
        return;
    IpbSpan text = ipb_json_raw(limits);
    options->core.limits = options->limits = g_strndup(text.start, text.size);
}

static void
read_allowed_servers(IpbRpcParams *params, IpbRpcOptions *options)
{
    const IpbJson *servers = ipb_rpc_params_object(params, "allowed_servers");
    if (servers == NULL)
        return;
    IpbSpan text = ipb_json_raw(servers);
    options->core.allowed_servers = options->allowed_servers = g_strndup(text.start, text.size);
}

static void
read_shell(IpbRpcParams *params, IpbSessionOptions *core)
{
    core->working_dir = ipb_rpc_params_path(params, "working_dir");
    core->approves_shell_cmds = ipb_rpc_params_bool(params, "approve_shell_cmds", false);
    core->requires_shell_escape = ipb_rpc_params_bool(params, "require_shell_escape", false);
}

static void
read_port(IpbRpcParams *params, const char *name, IpbRpcPort *port)
{
    const IpbJson *object = ipb_rpc_params_object(params, name);
    if (object == NULL)
        return;
    g_auto(IpbRpcParams) members;
    ipb_rpc_params_init(&members, object);
    port->is_wanted = true;
    port->host = ipb_rpc_params_string(&members, "host");
    if (port->host == NULL)
        port->host = "localhost";
    port->port = (unsigned) ipb_rpc_params_int(&members, "port", 0, 0, 65535);
    g_autoptr(GError) error = NULL;
    if (!ipb_rpc_params_finish(&members, &error) && params->error == NULL) {
        g_prefix_error(&error, "%s: ", name);
        params->error = g_steal_pointer(&error);
    }
}

static void
read_options(IpbRpcParams *params, IpbRpcOptions *options)
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
    core->kernel_init_timeout_ms = (unsigned) MAX(options->start_timeout_ms, MIN_INIT_TIMEOUT_MS);
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
    read_allowed_servers(params, options);
    read_approval(params, core);
    read_sandbox(params, core);
    read_limits(params, options);
    read_shell(params, core);
    read_port(params, "tool_server", &options->tool_server);
    read_port(params, "gateway", &options->gateway);
}

static void
on_log(const char *level, const char *text, void *data)
{
    IpbRpcSession *session = data;
    ipb_rpc_server_log(session->server, level, text, session->id);
}

/* What cells of the session may call, from the start. */
static bool
allow_packages(IpbRpcSession *session, GError **error)
{
    if (!ipb_workspace_allow_registered(session->core, error))
        return false;
    ipb_rpc_sources_allow(session->server->sources, session->core);
    for (char **root = session->options->package_roots; root != NULL && *root != NULL; root++)
        if (!ipb_workspace_allow_below(session->core, *root, error))
            return false;
    return true;
}

static bool
open_core(IpbRpcSession *session, GError **error)
{
    IpbRpcOptions *options = session->options;
    IpbSessionOptions *core = &options->core;
    session->approval = core->approval;
    session->asks_for_shell = core->approves_shell_cmds && core->approval == IPB_APPROVAL_ALLOW;
    session->start_timeout_ms = (unsigned) options->start_timeout_ms;
    core->on_approval = ipb_rpc_approval_ask;
    core->on_approval_withdrawn = ipb_rpc_approval_withdraw;
    core->on_log = on_log;
    core->data = session;
    session->core = ipb_session_new(session->runtime, core, error);
    if (session->core == NULL || !allow_packages(session, error))
        return false;
    if (options->tool_server.is_wanted || options->gateway.is_wanted) {
        session->ports =
            ipb_rpc_ports_open(session, core, &options->tool_server, &options->gateway, error);
        if (session->ports == NULL)
            return false;
    }
    ipb_rpc_session_apply_pause(session);
    ipb_rpc_session_apply_approval(session);
    return true;
}

/* Takes @options. */
static IpbRpcSession *
open_session(IpbRpcServer *server, IpbRpcOptions *options, GError **error)
{
    g_autoptr(IpbRpcOptions) owned = options;
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
    session->options = g_steal_pointer(&owned);
    if (!open_core(session, error))
        g_clear_pointer(&session, ipb_rpc_session_free);
    return session;
}

void
ipb_rpc_session_open(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    g_autoptr(IpbRpcOptions) options = g_new0(IpbRpcOptions, 1);
    g_autoptr(GError) error = NULL;
    options->request = ipb_rpc_request_ref(request);
    read_options(params, options);
    if (!ipb_rpc_server_check(request, params))
        return;
    IpbRpcSession *session = open_session(server, g_steal_pointer(&options), &error);
    if (session == NULL) {
        ipb_rpc_server_fail(request, error);
        return;
    }
    g_hash_table_insert(server->sessions, session->id, session);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session", session->id);
    ipb_json_member_string(writer, "workspace", ipb_session_workspace(session->core));
    if (session->ports != NULL)
        ipb_rpc_ports_describe(session->ports, writer);
    ipb_json_end_object(writer);
    ipb_rpc_server_reply(request, writer);
}
