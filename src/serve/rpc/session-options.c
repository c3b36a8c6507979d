/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of sessions; see the header.
 */
#include "serve/rpc/session-options.h"

#define MAX_SEED UINT32_MAX
#define DEFAULT_START_TIMEOUT_MS 60000
/* A process that is not a kernel after this time never becomes one. A session.start with a shorter
 * timeout gets its error earlier, and the kernel may still become ready. */
#define MIN_INIT_TIMEOUT_MS 10000

IpbRpcSessionOptions *
ipb_rpc_session_options_ref(IpbRpcSessionOptions *options)
{
    options->references++;
    return options;
}

void
ipb_rpc_session_options_unref(IpbRpcSessionOptions *options)
{
    if (options == NULL || --options->references > 0)
        return;
    ipb_rpc_request_unref(options->request);
    g_strfreev(options->preload);
    g_strfreev(options->package_roots);
    g_strfreev(options->kernel_env);
    g_strfreev(options->env);
    g_strfreev(options->server_variables);
    g_free(options->limits);
    g_free(options->allowed_servers);
    ipb_application_tools_unref(options->application_tools);
    g_free(options);
}

bool
ipb_rpc_params_approval(IpbRpcParams *params, IpbApprovalPolicy *ret_policy)
{
    static const char *const WORDS[] = {"allow", "ask", "deny", NULL};
    static const IpbApprovalPolicy POLICIES[] = {IPB_APPROVAL_ALLOW, IPB_APPROVAL_ASK,
                                                 IPB_APPROVAL_DENY};
    int word = ipb_rpc_params_word(params, "approval", WORDS, -1);
    if (word >= 0)
        *ret_policy = POLICIES[word];
    return word >= 0;
}

static void
read_approval(IpbRpcParams *params, IpbSessionOptions *session)
{
    session->approval = IPB_APPROVAL_ASK;
    ipb_rpc_params_approval(params, &session->approval);
    session->approval_rules = ipb_rpc_params_path(params, "approval_rules");
    session->audit_log = ipb_rpc_params_path(params, "audit_log");
    session->record = ipb_rpc_params_path(params, "record");
    session->approval_timeout_ms = ipb_rpc_params_ms(params, "approval_timeout", -1);
}

static void
read_undo(IpbRpcParams *params, IpbSessionOptions *session)
{
    session->undo = (unsigned) ipb_rpc_params_int(params, "undo", 0, 0, IPB_MAX_UNDO);
}

static void
read_sandbox(IpbRpcParams *params, IpbSessionOptions *session)
{
    session->sandbox_config = ipb_rpc_params_path(params, "sandbox_config");
    session->is_sandboxed = ipb_rpc_params_bool(params, "sandbox", false);
    if (session->sandbox_config != NULL && !session->is_sandboxed)
        ipb_rpc_params_refuse(params, "sandbox", "true if there is a sandbox_config");
    static const char *const MODES[] = {"live", "staged", NULL};
    session->is_staged = ipb_rpc_params_word(params, "workspace_mode", MODES, 0) == 1;
    session->staging_dir = ipb_rpc_params_path(params, "staging_dir");
    session->makes_packages = ipb_rpc_params_bool(params, "register_servers", false);
    session->allows_builds = ipb_rpc_params_bool(params, "allow_builds", false);
}

static void
read_shell(IpbRpcParams *params, IpbSessionOptions *session)
{
    session->working_dir = ipb_rpc_params_path(params, "working_dir");
    session->approves_shell_cmds = ipb_rpc_params_bool(params, "approve_shell_cmds", false);
    session->requires_shell_escape = ipb_rpc_params_bool(params, "require_shell_escape", false);
}

static void
read_limits(IpbRpcParams *params, IpbRpcSessionOptions *options)
{
    const IpbJson *limits = ipb_rpc_params_get(params, "limits");
    if (limits == NULL)
        return;
    IpbSpan text = ipb_json_raw(limits);
    options->session.limits = options->limits = g_strndup(text.start, text.size);
}

static void
read_allowed_servers(IpbRpcParams *params, IpbRpcSessionOptions *options)
{
    const IpbJson *servers = ipb_rpc_params_object(params, "allowed_servers");
    if (servers == NULL)
        return;
    IpbSpan text = ipb_json_raw(servers);
    options->session.allowed_servers = options->allowed_servers = g_strndup(text.start, text.size);
}

static void
read_application_tools(IpbRpcParams *params, IpbRpcSessionOptions *options)
{
    const IpbJson *tools = ipb_rpc_params_object(params, "application_tools");
    if (tools == NULL || params->error != NULL)
        return;
    IpbSpan text = ipb_json_raw(tools);
    options->application_tools = ipb_application_tools_new(text.start, text.size, &params->error);
    options->session.application_tools = options->application_tools;
}

static void
read_environments(IpbRpcParams *params, IpbRpcSessionOptions *options)
{
    IpbSessionOptions *session = &options->session;
    options->kernel_env = ipb_rpc_params_environment(params, "kernel_env");
    options->env = ipb_rpc_params_environment(params, "env");
    options->server_variables = ipb_rpc_params_strings(params, "server_variables");
    session->kernel_env = (const char *const *) options->kernel_env;
    session->env = (const char *const *) options->env;
    session->server_variables = (const char *const *) options->server_variables;
}

static void
read_port(IpbRpcParams *params, const char *name, IpbRpcPortOptions *port)
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

IpbRpcSessionOptions *
ipb_rpc_session_options_new(IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSessionOptions *options = g_new0(IpbRpcSessionOptions, 1);
    IpbSessionOptions *session = &options->session;
    options->references = 1;
    options->request = ipb_rpc_request_ref(request);
    options->python = ipb_rpc_params_string(params, "python");
    options->preload = ipb_rpc_params_strings(params, "preload");
    options->package_roots = ipb_rpc_params_strings(params, "package_roots");
    options->start_timeout_ms =
        (unsigned) ipb_rpc_params_ms(params, "kernel_init_timeout", DEFAULT_START_TIMEOUT_MS);
    session->kernel_init_timeout_ms = MAX(options->start_timeout_ms, MIN_INIT_TIMEOUT_MS);
    session->workspace = ipb_rpc_params_path(params, "workspace");
    if (session->workspace == NULL)
        ipb_rpc_params_refuse(params, "workspace", "an absolute path");
    session->saves_images = true;
    session->images_dir = ipb_rpc_params_path(params, "images_dir");
    session->connect_timeout_ms = (unsigned) ipb_rpc_params_ms(params, "connect_timeout", 0);
    session->seed = ipb_rpc_params_int(params, "seed", -1, 0, MAX_SEED);
    session->has_seed = session->seed >= 0;
    read_environments(params, options);
    read_allowed_servers(params, options);
    read_application_tools(params, options);
    read_approval(params, session);
    read_sandbox(params, session);
    read_limits(params, options);
    read_shell(params, session);
    read_undo(params, session);
    read_port(params, "tool_server", &options->tool_server);
    read_port(params, "gateway", &options->gateway);
    return options;
}
