/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool server; see the header. Its responses are those of the tool channel
 * (tools/tool-response.h).
 */
#include "serve/tool-server/http.h"

#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "json/writer.h"
#include "serve/tool-server/approval-socket.h"
#include "session/installation-paths.h"
#include "tools/approvals.h"
#include "tools/tool-host.h"
#include "tools/tool-request.h"
#include "tools/tool-response.h"

/* Servers that applications have named; each stays known. */
#define MAX_REGISTRATIONS 1000
#define MAX_CONNECTIONS 256

struct IpbToolServerHttp {
    IpbLoop *loop;
    IpbToolServerHttpOptions options;
    char *workspace, *state_dir;
    char **env;
    IpbRegistry *registry;
    IpbLegacyServers *legacy_servers;
    IpbApprovals *approvals;
    IpbApprovalSocket *approval_socket;
    IpbToolHost *host;
    IpbHttpServer *http;
    GHashTable *known;  /* ids that the host may call */
    GPtrArray *pending; /* Pending, owned */
    void (*closed)(void *data);
    void *closed_data;
};

/* A request that is answered later. */
typedef struct {
    IpbToolServerHttp *server;
    IpbHttpRequest *request;
    uint64_t number; /* of the call, or of the approval */
    bool is_call;
    IpbToolResultForm form; /* of a call's answer */
    IpbToolRequest wanted;  /* of an approval: it holds the arguments that are shown */
} Pending;

static void
free_pending(void *data)
{
    Pending *pending = data;
    ipb_tool_request_clear(&pending->wanted);
    g_free(pending);
}

static void
end_pending(Pending *pending)
{
    g_ptr_array_remove_fast(pending->server->pending, pending);
}

static void
on_caller_gone(void *data)
{
    Pending *pending = data;
    IpbToolServerHttp *server = pending->server;
    pending->request = NULL;
    if (pending->is_call) {
        ipb_tool_host_cancel(server->host, pending->number);
        end_pending(pending);
    } else if (pending->number != 0) {
        /* on_approved ends it. */
        ipb_approvals_cancel(server->approvals, pending->number);
    }
}

static Pending *
begin_pending(IpbToolServerHttp *server, IpbHttpRequest *request)
{
    Pending *pending = g_new0(Pending, 1);
    pending->server = server;
    pending->request = request;
    ipb_http_request_set_gone(request, on_caller_gone, pending);
    g_ptr_array_add(server->pending, pending);
    return pending;
}

/* --- who may call what ----------------------------------------------------------------------- */

static bool
is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    return strncmp(path, directory, size) == 0 &&
           (path[size] == '/' || path[size] == '\0' || directory[size - 1] == '/');
}

static void
allow(IpbToolServerHttp *server, const IpbRegistration *registration)
{
    ipb_tool_host_allow(server->host, registration);
    g_hash_table_add(server->known, g_strdup(registration->id));
}

/* Allows a registered server: every one for applications, those of the workspace for kernels. If
 * there is no such registration, the host reports that. */
static void
allow_registered(IpbToolServerHttp *server, const char *id, unsigned role)
{
    if (g_hash_table_contains(server->known, id))
        return;
    g_autoptr(IpbRegistration) registration = ipb_registry_get(server->registry, id, NULL);
    if (registration == NULL)
        return;
    bool may = (role & IPB_HTTP_ROLE_APPLICATION) != 0;
    for (char **root = registration->roots; *root != NULL && !may; root++)
        may = is_below(*root, server->workspace);
    if (may)
        allow(server, registration);
}

/* Allows the server that an application names by its parameters, which will be started. The caller
 * frees the id. */
static char *
allow_named(IpbToolServerHttp *server, const IpbToolRequest *wanted, GError **error)
{
    g_autofree char *id = ipb_registry_make_id(wanted->server_name, wanted->server_params);
    if (g_hash_table_contains(server->known, id))
        return g_steal_pointer(&id);
    g_autoptr(IpbServerParams) params = ipb_server_params_parse(wanted->server_params, error);
    if (params == NULL)
        return NULL;
    if (g_hash_table_size(server->known) >= MAX_REGISTRATIONS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "this tool server has run %d different servers: start another one",
                    MAX_REGISTRATIONS);
        return NULL;
    }
    IpbSpan text = ipb_json_raw(wanted->server_params);
    IpbRegistration registration = {
        .id = id,
        .name = (char *) wanted->server_name,
        .params_json = g_strndup(text.start, text.size),
        .roots = (char *[]){NULL},
    };
    allow(server, &registration);
    g_free(registration.params_json);
    return g_steal_pointer(&id);
}

/* --- POST /run ------------------------------------------------------------------------------- */

static void
on_call_ended(GBytes *result, const GError *error, void *data)
{
    Pending *pending = data;
    IpbHttpRequest *request = pending->request;
    IpbToolResultForm form = pending->form;
    end_pending(pending);
    if (error != NULL)
        ipb_tool_response_send_failure(request, error);
    else
        ipb_tool_response_send_result(request, result, form);
}

static bool
parse(IpbHttpRequest *request, IpbToolRequest *ret_wanted)
{
    g_autoptr(GError) error = NULL;
    IpbSpan body = ipb_http_request_body(request);
    if (ipb_tool_request_parse(body.start, body.size, ret_wanted, &error))
        return true;
    ipb_tool_response_refuse(request, error);
    return false;
}

static void
on_run(IpbHttpRequest *request, void *data)
{
    IpbToolServerHttp *server = data;
    g_auto(IpbToolRequest) wanted = {0};
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    unsigned role = ipb_http_request_role(request);
    if (!parse(request, &wanted))
        return;
    if (wanted.server_id != NULL) {
        allow_registered(server, wanted.server_id, role);
        id = g_strdup(wanted.server_id);
    } else if (wanted.server_params != NULL && (role & IPB_HTTP_ROLE_APPLICATION) != 0) {
        id = allow_named(server, &wanted, &error);
        if (id == NULL) {
            ipb_tool_response_send_failure(request, error);
            return;
        }
    } else if (wanted.server_params != NULL) {
        g_autofree char *equal = ipb_registry_make_id(wanted.server_name, wanted.server_params);
        allow_registered(server, equal, role);
    }
    Pending *pending = begin_pending(server, request);
    pending->is_call = true;
    pending->form = wanted.form;
    pending->number = ipb_tool_host_call(
        server->host, id, wanted.server_name, wanted.server_params, wanted.tool_name,
        wanted.arguments.start, wanted.arguments.size, wanted.form, on_call_ended, pending);
}

/* --- POST /approve --------------------------------------------------------------------------- */

static void
on_approved(const GError *error, void *data)
{
    Pending *pending = data;
    IpbHttpRequest *request = pending->request;
    end_pending(pending);
    if (request == NULL)
        return;
    ipb_tool_response_send_decision(request, error);
}

static void
on_approve(IpbHttpRequest *request, void *data)
{
    IpbToolServerHttp *server = data;
    g_auto(IpbToolRequest) wanted = {0};
    if (!parse(request, &wanted))
        return;
    Pending *pending = begin_pending(server, request);
    pending->wanted = wanted;
    wanted = (IpbToolRequest){0};
    pending->number = ipb_approvals_request(
        server->approvals, pending->wanted.server_name, NULL, pending->wanted.tool_name,
        pending->wanted.arguments.start, pending->wanted.arguments.size, on_approved, pending);
}

static void
on_approval_asked(const IpbApprovalRequest *request, void *data)
{
    IpbToolServerHttp *server = data;
    const char *why_not = ipb_approval_socket_ask(server->approval_socket, request);
    if (why_not != NULL)
        ipb_approvals_refuse(server->approvals, request->id, why_not);
}

static void
on_approval_withdrawn(uint64_t request, void *data)
{
    IpbToolServerHttp *server = data;
    ipb_approval_socket_withdraw(server->approval_socket, request);
}

static void
on_decision(uint64_t request, bool is_accepted, void *data)
{
    IpbToolServerHttp *server = data;
    ipb_approvals_respond(server->approvals, request, is_accepted);
}

static void
on_approver_left(uint64_t request, void *data)
{
    IpbToolServerHttp *server = data;
    ipb_approvals_refuse(server->approvals, request, "the approval client has disconnected");
}

static void
on_approval(IpbHttpRequest *request, void *data)
{
    IpbToolServerHttp *server = data;
    ipb_approval_socket_take(server->approval_socket, request);
}

/* --- PUT /reset, GET /status, GET /info ------------------------------------------------------ */

static void
on_reset_done(void *data)
{
    Pending *pending = data;
    IpbHttpRequest *request = pending->request;
    end_pending(pending);
    if (request != NULL)
        ipb_http_request_answer_text(request, 200, g_strdup("{\"status\":\"ok\"}"));
}

static void
on_reset(IpbHttpRequest *request, void *data)
{
    IpbToolServerHttp *server = data;
    ipb_tool_host_reset(server->host, on_reset_done, begin_pending(server, request));
}

/* Exactly as in ipybox 0.9, because programs compare the text. */
static void
on_status(IpbHttpRequest *request, void *data)
{
    ipb_http_request_answer_text(request, 200, g_strdup("{\"status\":\"ok\"}"));
}

static void
on_info(IpbHttpRequest *request, void *data)
{
    const IpbToolServerHttp *server = data;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_member_bool(writer, "approval_required", server->options.approval == IPB_APPROVAL_ASK);
    ipb_json_end_object(writer);
    ipb_http_request_answer_text(request, 200, ipb_json_writer_finish(writer, NULL));
}

static const IpbHttpRoute ROUTES[] = {
    {"GET", "/status", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, on_status},
    {"GET", "/info", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, on_info},
    {"PUT", "/reset", IPB_HTTP_BODY_OPTIONAL, IPB_HTTP_ROLE_APPLICATION, on_reset},
    {"POST", "/run", IPB_HTTP_BODY_JSON, IPB_HTTP_ROLE_ANY, on_run},
    {"POST", "/approve", IPB_HTTP_BODY_JSON, IPB_HTTP_ROLE_APPLICATION, on_approve},
    {"GET", "/approval", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, on_approval},
};

/* --- life ------------------------------------------------------------------------------------ */

static void
on_server_log(const char *server_name, const char *level, const char *text, void *data)
{
    IpbToolServerHttp *server = data;
    g_autofree char *line = g_strdup_printf("%s: %s", server_name, text);
    if (server->options.on_log != NULL)
        server->options.on_log(level, line, server->options.data);
}

static bool
make_approvals(IpbToolServerHttp *server, GError **error)
{
    const IpbToolServerHttpOptions *options = &server->options;
    g_autoptr(IpbApprovalRules) rules = NULL;
    g_autoptr(IpbAuditLog) audit_log = NULL;
    if (options->approval_rules != NULL &&
        (rules = ipb_approval_rules_load(NULL, options->approval_rules, error)) == NULL)
        return false;
    if (options->audit_log != NULL &&
        (audit_log = ipb_audit_log_open(NULL, options->audit_log, error)) == NULL)
        return false;
    server->approvals =
        ipb_approvals_new(server->loop, &(IpbApprovalOptions){
                                            .policy = options->approval,
                                            .rules = rules,
                                            .audit_log = g_steal_pointer(&audit_log),
                                            .timeout_ms = options->approval_timeout_ms,
                                            .ask = on_approval_asked,
                                            .on_withdrawn = on_approval_withdrawn,
                                            .data = server,
                                        });
    return true;
}

static void
make_tools(IpbToolServerHttp *server)
{
    /* Sandboxed servers cannot write the files that decide about calls or log them. */
    g_auto(GStrv) keep_out = ipb_installation_paths_protected_from_servers(
        NULL, server->options.approval_rules, server->options.audit_log, server->options.record);
    server->approval_socket = ipb_approval_socket_new(
        server->loop, &(IpbApprovalSocketFuncs){on_decision, on_approver_left, server});
    server->host = ipb_tool_host_new(server->loop,
                                     &(IpbToolHostOptions){
                                         .approvals = server->approvals,
                                         .cwd = server->workspace,
                                         .state_dir = server->state_dir,
                                         .keep_out = (const char *const *) keep_out,
                                         .env = (const char *const *) server->env,
                                         .connect_timeout_ms = server->options.connect_timeout_ms,
                                         .legacy_servers = server->legacy_servers,
                                         .on_log = on_server_log,
                                         .data = server,
                                     });
}

IpbToolServerHttp *
ipb_tool_server_http_new(IpbLoop *loop, const IpbToolServerHttpOptions *options, IpbHttpGate *gate,
                         GError **error)
{
    g_autoptr(IpbToolServerHttp) server = g_new0(IpbToolServerHttp, 1);
    IpbHttpServerOptions http = IPB_HTTP_SERVER_OPTIONS;
    http.routes = ROUTES;
    http.n_routes = G_N_ELEMENTS(ROUTES);
    http.data = server;
    http.max_connections = MAX_CONNECTIONS;
    http.max_body = IPB_TOOL_REQUEST_MAX_SIZE;
    server->loop = ipb_loop_ref(loop);
    server->options = *options;
    server->workspace = g_strdup(options->workspace);
    server->state_dir = options->state_dir != NULL
                            ? g_strdup(options->state_dir)
                            : g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    server->env = g_strdupv((char **) options->env);
    server->registry = ipb_registry_new(server->state_dir);
    server->legacy_servers = ipb_legacy_servers_new();
    server->known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    server->pending = g_ptr_array_new_with_free_func(free_pending);
    server->http = ipb_http_server_new(loop, &http, gate);
    if (!make_approvals(server, error))
        return NULL;
    make_tools(server);
    return g_steal_pointer(&server);
}

bool
ipb_tool_server_http_listen(IpbToolServerHttp *server, const char *host, unsigned port,
                            GError **error)
{
    return ipb_http_server_listen(server->http, host, port, error);
}

unsigned
ipb_tool_server_http_port(const IpbToolServerHttp *server)
{
    return ipb_http_server_port(server->http);
}

static void
on_closed(void *data)
{
    IpbToolServerHttp *server = data;
    server->closed(server->closed_data);
}

void
ipb_tool_server_http_close(IpbToolServerHttp *server, void (*done)(void *data), void *data)
{
    server->closed = done;
    server->closed_data = data;
    g_clear_pointer(&server->http, ipb_http_server_free);
    ipb_tool_host_reset(server->host, on_closed, server);
}

void
ipb_tool_server_http_free(IpbToolServerHttp *server)
{
    if (server == NULL)
        return;
    ipb_http_server_free(server->http);
    ipb_tool_host_free(server->host);
    /* Pending approvals end now, and their requests with them. */
    ipb_approvals_free(server->approvals);
    ipb_approval_socket_free(server->approval_socket);
    g_ptr_array_unref(server->pending);
    ipb_registry_free(server->registry);
    ipb_legacy_servers_unref(server->legacy_servers);
    g_hash_table_unref(server->known);
    g_strfreev(server->env);
    g_free(server->workspace);
    g_free(server->state_dir);
    ipb_loop_unref(server->loop);
    g_free(server);
}
