/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets that listen inside, and the environment that leads programs to them. Without an allowed domain there is neither.
 */

#include "sandbox/plan-private.h"

/* More directories than this are said as "all". */
#define MAX_SAFE_DIRECTORIES 8

#define SOCKS_ADDRESS "localhost:" G_STRINGIFY(IPB_PLAN_SOCKS_PORT)
#define SOCKS_URL "socks5h://" SOCKS_ADDRESS
/* Private networks, too, as srt has it: what is reached there is decided by address, and needs no proxy. */
#define NOT_PROXIED "localhost,127.0.0.1,::1,169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"

static const struct {
    const char *name;
    const char *value;
} PROXIES[] = {
    {"HTTP_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"HTTPS_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"http_proxy", IPB_PLAN_HTTP_PROXY_URL},
    {"https_proxy", IPB_PLAN_HTTP_PROXY_URL},
    /* Not socks5h://: Python's httpx fails on that without an extra package. */
    {"ALL_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"all_proxy", IPB_PLAN_HTTP_PROXY_URL},
    {"GRPC_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"grpc_proxy", IPB_PLAN_HTTP_PROXY_URL},
    {"FTP_PROXY", SOCKS_URL},
    {"ftp_proxy", SOCKS_URL},
    {"RSYNC_PROXY", SOCKS_ADDRESS},
    {"DOCKER_HTTP_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"DOCKER_HTTPS_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"CLOUDSDK_PROXY_TYPE", "http"},
    {"CLOUDSDK_PROXY_ADDRESS", "localhost"},
    {"CLOUDSDK_PROXY_PORT", G_STRINGIFY(IPB_PLAN_HTTP_PROXY_PORT)},
    {"NO_PROXY", NOT_PROXIED},
    {"no_proxy", NOT_PROXIED},
};

/* They name sockets of the host, or proxies with their passwords. */
static const char *const UNSET[] = {
    "CLOUDSDK_PROXY_USERNAME",
    "CLOUDSDK_PROXY_PASSWORD",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "NOTIFY_SOCKET",
};

static void
add_listener(IpbSandboxPlan *plan, IpbListenerKind kind, unsigned port, bool is_any_address)
{
    g_array_append_val(plan->listeners, ((IpbPlanListener){kind, port, is_any_address}));
}

bool
ipb_plan_has_network(const IpbPlanner *planner)
{
    return planner->plan->policy->allowed_domains->len > 0 || planner->options->is_network_kept;
}

static void
add_listeners(const IpbPlanner *planner)
{
    const IpbPlanOptions *options = planner->options;
    IpbSandboxPlan *plan = planner->plan;
    unsigned tool_port = options->tool_port != 0 ? options->tool_port : IPB_PLAN_TOOL_PORT;
    if (options->has_tools)
        add_listener(plan, IPB_LISTENER_TOOLS, tool_port, false);
    if (!ipb_plan_has_network(planner))
        return;
    add_listener(plan, IPB_LISTENER_HTTP_PROXY, IPB_PLAN_HTTP_PROXY_PORT, false);
    add_listener(plan, IPB_LISTENER_SOCKS, IPB_PLAN_SOCKS_PORT, false);
    add_listener(plan, IPB_LISTENER_DNS_UDP, 53, true);
    add_listener(plan, IPB_LISTENER_DNS_TCP, 53, true);
    add_listener(plan, IPB_LISTENER_TLS, 443, true);
    add_listener(plan, IPB_LISTENER_HTTP, 80, true);
}

static void
add_variable(GPtrArray *environment, const char *name, const char *value)
{
    g_ptr_array_add(environment, g_strconcat(name, "=", value, NULL));
}

/* git over ssh knows no proxy variable; where there is a program that speaks to proxies, it is told to use it. */
static void
add_git_ssh(GPtrArray *environment)
{
    g_autofree char *socat = g_find_program_in_path("socat");
    if (socat != NULL)
        add_variable(environment, "GIT_SSH_COMMAND",
                     "ssh -o ControlMaster=no -o ControlPath=none -o ProxyCommand='socat - "
                     "PROXY:localhost:%h:%p,proxyport=" G_STRINGIFY(IPB_PLAN_HTTP_PROXY_PORT) "'");
}

static void
add_git_setting(GPtrArray *environment, unsigned *number, const char *value)
{
    g_autofree char *key = g_strdup_printf("GIT_CONFIG_KEY_%u", *number);
    g_autofree char *name = g_strdup_printf("GIT_CONFIG_VALUE_%u", *number);
    add_variable(environment, key, "safe.directory");
    add_variable(environment, name, value);
    ++*number;
}

/* git.safeDirectories: repositories in them are trusted whoever owns them. */
static void
add_safe_directories(const IpbPlanOptions *options, const IpbSandboxPlan *plan,
                     GPtrArray *environment)
{
    char **directories = plan->policy->git_safe_directories;
    unsigned number = 0;
    if (g_strv_length(directories) > MAX_SAFE_DIRECTORIES)
        add_git_setting(environment, &number, "*");
    for (char **text = directories; *text != NULL && number != 1; text++) {
        g_autofree char *path = ipb_path_expand(*text, plan->workspace, options->home);
        g_autofree char *below = g_build_filename(path, "*", NULL);
        add_git_setting(environment, &number, path);
        add_git_setting(environment, &number, below);
    }
    if (number == 0)
        return;
    g_autofree char *count = g_strdup_printf("%u", number);
    add_variable(environment, "GIT_CONFIG_COUNT", count);
}

void
ipb_plan_make_network(IpbPlanner *planner)
{
    IpbSandboxPlan *plan = planner->plan;
    bool has_network = ipb_plan_has_network(planner);
    g_autoptr(GPtrArray) environment = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) unset = g_ptr_array_new_with_free_func(g_free);
    add_listeners(planner);
    add_variable(environment, "SANDBOX_RUNTIME", "1");
    add_variable(environment, "TMPDIR", "/tmp");
    for (size_t i = 0; i < G_N_ELEMENTS(PROXIES); i++) {
        if (has_network)
            add_variable(environment, PROXIES[i].name, PROXIES[i].value);
        else
            g_ptr_array_add(unset, g_strdup(PROXIES[i].name));
    }
    if (has_network)
        add_git_ssh(environment);
    add_safe_directories(planner->options, plan, environment);
    for (size_t i = 0; i < G_N_ELEMENTS(UNSET); i++)
        g_ptr_array_add(unset, g_strdup(UNSET[i]));
    g_ptr_array_add(environment, NULL);
    g_ptr_array_add(unset, NULL);
    plan->environment = (char **) g_ptr_array_steal(environment, NULL);
    plan->unset = (char **) g_ptr_array_steal(unset, NULL);
}
