/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools of one session; see the header. A call takes these steps: resolve, approval, connect,
 * send, result. It is in the table of calls until its function was called or it was cancelled. An
 * approval or an answer that the call waits for always calls back once, and holds a reference to
 * the call until then. So a call that ends early is freed after that.
 */
#include "tools/tool-host.h"

#include <string.h>

#include "base/display-text.h"
#include "base/done.h"
#include "base/error.h"
#include "mcp/server-params.h"
#include "tools/denial-note.h"
#include "tools/on-demand-server.h"
#include "tools/tool-result.h"

/* Calls at the same time that wait for an approval or an answer. */
#define MAX_CALLS 1000
#define MAX_TOOL_NAME 1024
/* Names and ids of a kernel that appear in messages. */
#define MAX_SHOWN_NAME 128
/* Bytes of what the application says about a call that failed. */
#define MAX_ERROR_TEXT (64 * 1024)
/* Servers that are not registered. Each is a process or a connection. */
#define MAX_UNREGISTERED 64
#define MAX_UNREGISTERED_PARAMS (64 * 1024)

typedef struct {
    unsigned refs;
    IpbToolHost *host; /* NULL: the call has ended */
    uint64_t id;
    IpbOnDemandServer
        *server;       /* NULL: there is none, and the error says so, or no server has the tool */
    bool shows_params; /* of the server, in the question and the log: it is not registered */
    bool is_own;
    const char *application; /* the name of the application's tools; NULL: it is none of them */
    bool is_handed_over;     /* to on_own_call or on_application_call */
    char *tool_name;
    char *arguments;
    size_t arguments_size;
    uint64_t approval; /* 0: none is awaited */
    uint64_t request;  /* the approval that it got; 0: none yet */
    int64_t mcp_call;  /* 0: not sent, or answered */
    IpbToolResultForm form;
    GError *error; /* the call ends with it, from the loop */
    IpbTimer *error_timer;
    IpbToolCallFunc func;
    void *data;
} Call;

struct IpbToolHost {
    IpbLoop *loop;
    IpbToolHostOptions options; /* its texts are copied below */
    IpbOnDemandServerOptions server_options;
    char *cwd;
    char *state_dir;
    char **keep_out;
    char **env;
    GHashTable *servers;      /* id → IpbOnDemandServer, both owned */
    GHashTable *unregistered; /* the same for servers that callers named by parameters */
    GHashTable *aliases; /* id derived from parameters → id of the registration that is meant */
    GHashTable *superseded; /* id of a registration → id of the one that replaced it */
    GHashTable *calls;      /* &call->id → Call */
    uint64_t last_call;
    GArray *dones; /* IpbDone, of resets */
    IpbTimer *done_timer;
};

static const char *
get_server_name(const Call *call)
{
    if (call->application != NULL)
        return call->application;
    return call->is_own ? IPB_OWN_SERVER : ipb_on_demand_server_registration(call->server)->name;
}

/* The server's parameters, if the question about the call and the audit log must have them. */
static const char *
get_shown_params(const Call *call)
{
    return call->shows_params ? ipb_on_demand_server_registration(call->server)->params_json : NULL;
}

/* --- calls --- */

static void
unref_call(Call *call)
{
    if (--call->refs > 0)
        return;
    ipb_timer_free(call->error_timer);
    g_clear_error(&call->error);
    g_free(call->tool_name);
    g_free(call->arguments);
    g_free(call);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Call, unref_call)

/* Removes the call from the host. Returns the table's reference. */
static Call *
detach(Call *call)
{
    g_hash_table_remove(call->host->calls, &call->id);
    if (call->server != NULL)
        ipb_on_demand_server_forget(call->server, call);
    g_clear_pointer(&call->error_timer, ipb_timer_free);
    call->host = NULL;
    return call;
}

/* Cancels what the call waits for. */
static void
abandon(Call *call)
{
    IpbToolHost *host = call->host;
    if (call->approval != 0)
        ipb_approvals_cancel(host->options.approvals, call->approval);
    if (call->is_handed_over && call->application != NULL)
        host->options.on_application_cancel(call->id, host->options.data);
    else if (call->is_handed_over)
        host->options.on_own_cancel(call->id, host->options.data);
    if (call->mcp_call != 0 && ipb_on_demand_server_client(call->server) != NULL)
        ipb_mcp_client_cancel(ipb_on_demand_server_client(call->server), call->mcp_call);
}

/* Before it is detached. */
static void
report_end(const Call *call, const GError *error)
{
    const IpbToolHostOptions *options = &call->host->options;
    if (call->request != 0 && options->on_end != NULL)
        options->on_end(call->request, error, options->data);
}

static void
report_cancelled(const Call *call)
{
    g_autoptr(GError) error =
        g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "its caller is gone");
    report_end(call, error);
}

static void
end(Call *call, GBytes *result, const GError *error)
{
    report_end(call, error);
    g_autoptr(Call) owned = detach(call);
    owned->func(result, error, owned->data);
}

static void
on_error_timer(void *data)
{
    Call *call = data;
    g_autoptr(GError) error = g_steal_pointer(&call->error);
    end(call, NULL, error);
}

/* Takes @error. The first error counts. */
static void
end_later(Call *call, GError *error)
{
    if (call->error != NULL) {
        g_error_free(error);
        return;
    }
    call->error = error;
    call->error_timer = ipb_timer_new(call->host->loop, 0, on_error_timer, call);
}

/* Whether the call has ended, or is about to. Then nothing that it waited for matters. */
static bool
is_over(const Call *call)
{
    return call->host == NULL || call->error != NULL;
}

/* --- the steps of a call --- */

/* The timeouts of a connection become SERVER, because TIMEOUT and REFUSED are kept for
 * approvals. */
static void
end_with_client_error(Call *call, const GError *error)
{
    g_autoptr(GError) told = g_error_copy(error);
    if (g_error_matches(told, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT) ||
        g_error_matches(told, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED))
        told->code = IPYBOX_ERROR_SERVER;
    end(call, NULL, told);
}

/* Adds a note to an error that looks like a denial of the server's sandbox. */
static void
add_denial_note(const Call *call, GError **failure)
{
    const IpbRegistration *registration = ipb_on_demand_server_registration(call->server);
    const char *note = ipb_denial_note(registration->params_json, (*failure)->message);
    if (note == NULL)
        return;
    GError *noted =
        g_error_new((*failure)->domain, (*failure)->code, "%s\n%s", (*failure)->message, note);
    g_error_free(*failure);
    *failure = noted;
}

static void
on_result(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    g_autoptr(Call) call = data;
    call->mcp_call = 0;
    if (is_over(call))
        return;
    if (error != NULL) {
        end_with_client_error(call, error);
        return;
    }
    g_autoptr(GError) failure = NULL;
    g_autoptr(GBytes) value = ipb_tool_result_map(result, document, call->form,
                                                  get_server_name(call), call->tool_name, &failure);
    if (failure != NULL)
        add_denial_note(call, &failure);
    end(call, value, failure);
}

static void
on_progress(const IpbMcpProgress *progress, void *data)
{
    Call *call = data;
    if (is_over(call) || call->host->options.on_progress == NULL)
        return;
    call->host->options.on_progress(get_server_name(call), call->tool_name, progress,
                                    call->host->options.data);
}

static void
on_server(IpbMcpClient *client, const GError *error, void *data)
{
    Call *call = data;
    if (is_over(call))
        return;
    if (error != NULL) {
        end_with_client_error(call, error);
        return;
    }
    call->refs++;
    call->mcp_call = ipb_mcp_client_call_tool(client, call->tool_name, call->arguments,
                                              call->arguments_size, on_progress, on_result, call);
    g_clear_pointer(&call->arguments, g_free);
}

/* Nothing may follow: the call may have ended. */
static void
hand_over(Call *call)
{
    const IpbToolHostOptions *options = &call->host->options;
    call->is_handed_over = true;
    if (call->application != NULL)
        options->on_application_call(call->id, call->application, call->tool_name, call->arguments,
                                     call->arguments_size, options->data);
    else
        options->on_own_call(call->id, call->tool_name, call->arguments, call->arguments_size,
                             options->data);
}

static void
on_approval(const GError *error, void *data)
{
    g_autoptr(Call) call = data;
    uint64_t request = call->approval;
    call->approval = 0;
    if (is_over(call))
        return;
    if (error == NULL)
        call->request = request;
    if (error != NULL) {
        end(call, NULL, error);
    } else if (call->application != NULL || call->is_own) {
        hand_over(call);
    } else {
        ipb_on_demand_server_use(call->server, on_server, call);
    }
}

void
ipb_tool_host_answer(IpbToolHost *host, uint64_t id, GBytes *result, const GError *error)
{
    Call *call = g_hash_table_lookup(host->calls, &id);
    if (call == NULL || is_over(call))
        return;
    call->is_handed_over = false;
    g_autoptr(GBytes) whole = result != NULL && call->form == IPB_TOOL_RESULT_WHOLE
                                  ? ipb_tool_result_make_whole(result)
                                  : NULL;
    end(call, whole != NULL ? whole : result, error);
}

/* The message is the application's own. */
static void
end_with_application_error(Call *call, const GError *error)
{
    size_t size = strnlen(error->message, MAX_ERROR_TEXT + 1);
    bool is_cut = size > MAX_ERROR_TEXT;
    while (size > MAX_ERROR_TEXT ||
           (is_cut && ((unsigned char) error->message[size] & 0xc0) == 0x80))
        size--;
    g_autoptr(GError) named =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "%s.%s: %.*s%s", call->application,
                    call->tool_name, (int) size, error->message, is_cut ? "…" : "");
    end(call, NULL, named);
}

static bool
check_result(const Call *call, const IpbJson *result, GError **error)
{
    const IpbJson *contents = ipb_json_get(result, "content");
    bool is_right = ipb_json_is(result, IPB_JSON_OBJECT) &&
                    (contents == NULL || ipb_json_is(contents, IPB_JSON_ARRAY));
    IPB_JSON_FOREACH (content, contents)
        is_right = is_right && ipb_json_get_string(content, "type") != NULL;
    if (!is_right)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "%s.%s: the application's answer is no result of a tool: an object with "
                    "\"content\", an array of objects with a \"type\", or \"structuredContent\"",
                    call->application, call->tool_name);
    return is_right;
}

void
ipb_tool_host_answer_application(IpbToolHost *host, uint64_t id, const IpbJson *result,
                                 IpbJsonDoc **document, const GError *error)
{
    Call *call = g_hash_table_lookup(host->calls, &id);
    if (call == NULL || is_over(call) || call->application == NULL || !call->is_handed_over)
        return;
    call->is_handed_over = false;
    if (error != NULL) {
        end_with_application_error(call, error);
        return;
    }
    g_autoptr(GError) failure = NULL;
    g_autoptr(GBytes) value = NULL;
    if (check_result(call, result, &failure))
        value = ipb_tool_result_map(result, document, call->form, call->application,
                                    call->tool_name, &failure);
    end(call, value, failure);
}

static bool
is_plain_name(const char *text)
{
    size_t size = strspn(text, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_-");
    return size > 0 && size <= MAX_SHOWN_NAME && text[size] == '\0';
}

/* The message is shown to people and has a command that they may copy, so names of the kernel are
 * shown only if they are plain. */
static GError *
make_not_registered(const char *server_id, const char *server_name)
{
    bool is_named = is_plain_name(server_name);
    g_autofree char *name =
        is_named ? g_strdup_printf("MCP server \"%s\"", server_name) : g_strdup("this MCP server");
    g_autofree char *id = server_id != NULL && is_plain_name(server_id)
                              ? g_strdup_printf(" (id %s)", server_id)
                              : g_strdup("");
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                       "%s%s is not registered for this session; register it with: ipybox apigen "
                       "--server-name %s --server-params '…' --root-dir mcptools",
                       name, id, is_named ? server_name : "…");
}

/* Describes the successor: what is started now, and where its package is. */
static char *
describe_registration(const IpbRegistration *registration)
{
    const char *text = registration->params_json;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *params = document != NULL ? ipb_json_root(document) : NULL;
    const char *command = ipb_json_get_string(params, "command");
    g_autofree char *shown =
        ipb_display_text_printable(command != NULL ? command : "an HTTP server");
    g_autofree char *root = ipb_display_text_printable(registration->roots[0]);
    return g_strdup_printf("%s (%s, package in %s)", registration->id, shown, root);
}

static GError *
make_superseded(const char *server_id, const IpbRegistration *by)
{
    g_autofree char *who = describe_registration(by);
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                       "MCP server \"%s\" (id %s) was replaced by the registration %s: import its "
                       "package again, in a new kernel or with importlib.reload",
                       by->name, server_id, who);
}

/* The registration that replaced the caller's, as far as this session knows; or NULL. */
static const IpbRegistration *
find_successor(IpbToolHost *host, const char *server_id, const char *server_name)
{
    const char *id = g_hash_table_lookup(host->superseded, server_id);
    IpbOnDemandServer *server = id != NULL ? g_hash_table_lookup(host->servers, id) : NULL;
    if (server != NULL)
        return ipb_on_demand_server_registration(server);
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, host->servers);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const IpbRegistration *registration = ipb_on_demand_server_registration(value);
        if (g_str_equal(registration->name, server_name) && registration->roots[0] != NULL &&
            !g_hash_table_contains(host->superseded, registration->id))
            return registration;
    }
    return NULL;
}

static GError *
make_unknown(IpbToolHost *host, const char *server_id, const char *server_name)
{
    const IpbRegistration *successor = server_id != NULL && is_plain_name(server_id)
                                           ? find_successor(host, server_id, server_name)
                                           : NULL;
    if (successor != NULL)
        return make_superseded(server_id, successor);
    return make_not_registered(server_id, server_name);
}

/* --- servers by parameters --- */

static bool
is_in_use(IpbToolHost *host, const IpbOnDemandServer *server)
{
    GHashTableIter iter;
    void *call;
    g_hash_table_iter_init(&iter, host->calls);
    while (g_hash_table_iter_next(&iter, NULL, &call))
        if (((Call *) call)->server == server)
            return true;
    return false;
}

/* Removes servers that do not run any more, if there are too many. */
static bool
make_room(IpbToolHost *host)
{
    GHashTableIter iter;
    void *server;
    if (g_hash_table_size(host->unregistered) < MAX_UNREGISTERED)
        return true;
    g_hash_table_iter_init(&iter, host->unregistered);
    while (g_hash_table_iter_next(&iter, NULL, &server))
        if (ipb_on_demand_server_is_idle(server) && !is_in_use(host, server))
            g_hash_table_iter_remove(&iter);
    return g_hash_table_size(host->unregistered) < MAX_UNREGISTERED;
}

static bool
check_unregistered(IpbToolHost *host, const char *name, const char *params, GError **error)
{
    if (!is_plain_name(name) || g_str_equal(name, IPB_OWN_SERVER)) {
        g_set_error(
            error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
            "a server's name is made of 1 – %d ASCII letters, digits, \"_\" and \"-\", and is "
            "not \"" IPB_OWN_SERVER "\"",
            MAX_SHOWN_NAME);
        return false;
    }
    if (strlen(params) > MAX_UNREGISTERED_PARAMS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the server_params of \"%s\" are larger than %d bytes: register the server",
                    name, MAX_UNREGISTERED_PARAMS);
        return false;
    }
    if (!make_room(host)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%d MCP servers that are not registered run in this session: reset it, or "
                    "register them",
                    MAX_UNREGISTERED);
        return false;
    }
    return true;
}

/* The server with these parameters, which is made if it is new. */
static IpbOnDemandServer *
provide_unregistered(IpbToolHost *host, const char *id, const char *name,
                     const IpbJson *server_params, GError **error)
{
    IpbOnDemandServer *server = g_hash_table_lookup(host->unregistered, id);
    if (server != NULL)
        return server;
    g_autofree char *text = ipb_server_params_canonical(server_params);
    g_autoptr(IpbServerParams) params = NULL;
    if (!check_unregistered(host, name, text, error) ||
        (params = ipb_server_params_parse(server_params, error)) == NULL)
        return NULL;
    IpbRegistration registration = {
        .id = (char *) id,
        .name = (char *) name,
        .params_json = text,
        .roots = (char *[]){NULL},
    };
    server = ipb_on_demand_server_new(host->loop, &host->server_options, &registration);
    g_hash_table_insert(host->unregistered, g_strdup(id), server);
    return server;
}

static GError *
make_not_named(const char *server_name)
{
    g_autofree char *name = is_plain_name(server_name)
                                ? g_strdup_printf("MCP server \"%s\"", server_name)
                                : g_strdup("this MCP server");
    return g_error_new(
        IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
        "%s is not registered with these server_params, and neither a sandboxed session nor a tool "
        "server starts others for a kernel: register it with exactly these (register_mcp_server, "
        "ipybox apigen), or name it where the session is opened: "
        "CodeExecutor(allowed_servers={name: server_params})",
        name);
}

/* Finds the server for code that was generated without an id. A registration that was replaced does
 * not count. */
static IpbOnDemandServer *
find_by_params(IpbToolHost *host, const char *name, const IpbJson *params, bool *ret_shows_params,
               GError **error)
{
    /* The id identifies the name and the parameters. */
    g_autofree char *id = ipb_registry_make_id(name, params);
    const char *alias = g_hash_table_lookup(host->aliases, id);
    const char *meant = alias != NULL ? alias : id;
    bool is_superseded = g_hash_table_contains(host->superseded, meant);
    IpbOnDemandServer *server = is_superseded ? NULL : g_hash_table_lookup(host->servers, meant);
    if (server != NULL)
        return server;
    *ret_shows_params = host->options.takes_params;
    if (host->options.takes_params)
        return provide_unregistered(host, id, name, params, error);
    g_propagate_error(error,
                      is_superseded ? make_unknown(host, meant, name) : make_not_named(name));
    return NULL;
}

static IpbOnDemandServer *
find_server(IpbToolHost *host, const char *server_id, const char *server_name,
            const IpbJson *server_params, bool *ret_shows_params, GError **error)
{
    if (server_id == NULL && ipb_json_is(server_params, IPB_JSON_OBJECT))
        return find_by_params(host, server_name, server_params, ret_shows_params, error);
    IpbOnDemandServer *server = NULL;
    if (server_id != NULL && !g_hash_table_contains(host->superseded, server_id))
        server = g_hash_table_lookup(host->servers, server_id);
    if (server == NULL)
        g_propagate_error(error, make_unknown(host, server_id, server_name));
    return server;
}

/* Tool names appear in prompts and logs, so they must be printable. */
static bool
is_tool_name(const char *name)
{
    if (*name == '\0' || strlen(name) > MAX_TOOL_NAME || !g_utf8_validate(name, -1, NULL))
        return false;
    for (const char *at = name; *at != '\0'; at = g_utf8_next_char(at))
        if (!g_unichar_isprint(g_utf8_get_char(at)))
            return false;
    return true;
}

/* Returns NULL, or why the call is refused. */
static GError *
check_call(const Call *call)
{
    if (g_hash_table_size(call->host->calls) > MAX_CALLS)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                           "more than %d tool calls at the same time", MAX_CALLS);
    if (!is_tool_name(call->tool_name))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                           "a tool's name is 1 – %d bytes of printable text", MAX_TOOL_NAME);
    return NULL;
}

static bool
is_installation(const Call *call)
{
    return call->is_own && call->host->options.make_install_arguments != NULL &&
           g_str_equal(call->tool_name, IPB_INSTALL_TOOL);
}

/* NULL with @error. The caller frees the text. */
static char *
make_arguments(const Call *call, const char *arguments_json, size_t size, GError **error)
{
    const IpbToolHostOptions *options = &call->host->options;
    return is_installation(call)
               ? options->make_install_arguments(arguments_json, size, error, options->data)
               : g_strndup(arguments_json, size);
}

static uint64_t
request_approval(Call *call)
{
    IpbApprovals *approvals = call->host->options.approvals;
    if (is_installation(call))
        return ipb_approvals_request_own(approvals, IPB_APPROVAL_OF_INSTALLATION, call->arguments,
                                         call->arguments_size, on_approval, call);
    return ipb_approvals_request(approvals, get_server_name(call), get_shown_params(call),
                                 call->tool_name, call->arguments, call->arguments_size,
                                 on_approval, call);
}

uint64_t
ipb_tool_host_call(IpbToolHost *host, const char *server_id, const char *server_name,
                   const IpbJson *server_params, const char *tool_name, const char *arguments_json,
                   size_t arguments_size, IpbToolResultForm form, IpbToolCallFunc func, void *data)
{
    Call *call = g_new0(Call, 1);
    GError *error = NULL;
    *call = (Call){
        .refs = 1,
        .host = host,
        .id = ++host->last_call,
        .is_own = server_id != NULL && g_str_equal(server_id, IPB_OWN_SERVER) &&
                  host->options.on_own_call != NULL,
        .tool_name = g_strdup(tool_name),
        .form = form,
        .func = func,
        .data = data,
    };
    g_hash_table_insert(host->calls, &call->id, call);
    if (server_id != NULL && ipb_application_tools_is_id(server_id))
        call->application = ipb_application_tools_find(host->options.application_tools, server_id,
                                                       tool_name, &error);
    else if (!call->is_own)
        call->server =
            find_server(host, server_id, server_name, server_params, &call->shows_params, &error);
    if (error == NULL)
        error = check_call(call);
    if (error == NULL)
        call->arguments = make_arguments(call, arguments_json, arguments_size, &error);
    if (error != NULL) {
        end_later(call, error);
        return call->id;
    }
    /* A caller's text may contain NUL; one that was made for it does not. */
    call->arguments_size = is_installation(call) ? strlen(call->arguments) : arguments_size;
    call->refs++;
    call->approval = request_approval(call);
    return call->id;
}

void
ipb_tool_host_cancel(IpbToolHost *host, uint64_t id)
{
    Call *call = g_hash_table_lookup(host->calls, &id);
    if (call == NULL)
        return;
    abandon(call);
    report_cancelled(call);
    unref_call(detach(call));
}

/* --- the host --- */

static void
on_log(const char *server_name, const char *level, const char *text, void *data)
{
    const IpbToolHost *host = data;
    if (host->options.on_log != NULL)
        host->options.on_log(server_name, level, text, host->options.data);
}

static void
free_server(void *server)
{
    ipb_on_demand_server_free(server);
}

static bool
is_stopped(GHashTable *servers)
{
    GHashTableIter iter;
    void *server;
    g_hash_table_iter_init(&iter, servers);
    while (g_hash_table_iter_next(&iter, NULL, &server))
        if (!ipb_on_demand_server_is_stopped(server))
            return false;
    return true;
}

static bool
is_every_server_stopped(const IpbToolHost *host)
{
    return is_stopped(host->servers) && is_stopped(host->unregistered);
}

static void
stop(GHashTable *servers)
{
    GHashTableIter iter;
    void *server;
    g_hash_table_iter_init(&iter, servers);
    while (g_hash_table_iter_next(&iter, NULL, &server))
        ipb_on_demand_server_stop(server);
}

static void
on_done_timer(void *data)
{
    IpbToolHost *host = data;
    g_clear_pointer(&host->done_timer, ipb_timer_free);
    if (!is_every_server_stopped(host))
        return; /* the last server calls this again */
    g_autoptr(GArray) dones = g_steal_pointer(&host->dones);
    host->dones = g_array_new(FALSE, FALSE, sizeof(IpbDone));
    for (guint i = 0; i < dones->len; i++) {
        IpbDone *done = &g_array_index(dones, IpbDone, i);
        done->func(done->data);
    }
}

/* Checks from the loop whether resets are done. */
static void
on_server_stopped(void *data)
{
    IpbToolHost *host = data;
    if (host->dones->len > 0 && host->done_timer == NULL)
        host->done_timer = ipb_timer_new(host->loop, 0, on_done_timer, host);
}

IpbToolHost *
ipb_tool_host_new(IpbLoop *loop, const IpbToolHostOptions *options)
{
    IpbToolHost *host = g_new0(IpbToolHost, 1);
    host->loop = ipb_loop_ref(loop);
    host->options = *options;
    if (options->application_tools != NULL)
        ipb_application_tools_ref(options->application_tools);
    host->cwd = g_strdup(options->cwd);
    host->state_dir = g_strdup(options->state_dir);
    host->keep_out = g_strdupv((char **) options->keep_out);
    host->env = g_strdupv((char **) options->env);
    host->server_options = (IpbOnDemandServerOptions){
        .cwd = host->cwd,
        .state_dir = host->state_dir,
        .keep_out = (const char *const *) host->keep_out,
        .env = (const char *const *) host->env,
        .connect_timeout_ms = options->connect_timeout_ms,
        .call_timeout_ms = options->call_timeout_ms,
        .legacy_servers = options->legacy_servers,
        .on_log = on_log,
        .on_stopped = on_server_stopped,
        .data = host,
    };
    host->servers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_server);
    host->unregistered = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_server);
    host->aliases = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    host->superseded = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    host->calls = g_hash_table_new(g_int64_hash, g_int64_equal);
    host->dones = g_array_new(FALSE, FALSE, sizeof(IpbDone));
    return host;
}

/* Whether @registration has all roots of @other, so that no package of @other is left. */
static bool
supersedes(const IpbRegistration *registration, const IpbRegistration *other)
{
    if (!g_str_equal(registration->name, other->name) || other->roots[0] == NULL ||
        g_str_equal(registration->id, other->id))
        return false;
    for (char **root = other->roots; *root != NULL; root++)
        if (!g_strv_contains((const char *const *) registration->roots, *root))
            return false;
    return true;
}

static void
note_superseded(IpbToolHost *host, const IpbRegistration *by)
{
    GHashTableIter iter;
    void *server;
    g_hash_table_remove(host->superseded, by->id);
    g_hash_table_iter_init(&iter, host->servers);
    while (g_hash_table_iter_next(&iter, NULL, &server)) {
        const IpbRegistration *other = ipb_on_demand_server_registration(server);
        if (supersedes(by, other))
            g_hash_table_replace(host->superseded, g_strdup(other->id), g_strdup(by->id));
    }
}

void
ipb_tool_host_allow(IpbToolHost *host, const IpbRegistration *registration)
{
    void *id = NULL, *named = NULL;
    /* Servers with equal ids are equal: only the roots may differ. */
    IpbOnDemandServer *server = g_hash_table_lookup(host->servers, registration->id);
    if (server != NULL) {
        ipb_on_demand_server_set_registration(server, registration);
    } else if (g_hash_table_steal_extended(host->unregistered, registration->id, &id, &named)) {
        ipb_on_demand_server_set_registration(named, registration);
        g_hash_table_insert(host->servers, id, named);
    } else {
        g_hash_table_insert(
            host->servers, g_strdup(registration->id),
            ipb_on_demand_server_new(host->loop, &host->server_options, registration));
    }
    note_superseded(host, registration);
}

static void
copy_texts(GHashTable *copy, GHashTable *texts)
{
    GHashTableIter iter;
    void *key, *value;
    g_hash_table_iter_init(&iter, texts);
    while (g_hash_table_iter_next(&iter, &key, &value))
        g_hash_table_replace(copy, g_strdup(key), g_strdup(value));
}

void
ipb_tool_host_allow_like(IpbToolHost *host, const IpbToolHost *other)
{
    GHashTableIter iter;
    void *server;
    g_hash_table_iter_init(&iter, other->servers);
    while (g_hash_table_iter_next(&iter, NULL, &server))
        ipb_tool_host_allow(host, ipb_on_demand_server_registration(server));
    copy_texts(host->aliases, other->aliases);
    copy_texts(host->superseded, other->superseded);
}

bool
ipb_tool_host_is_idle(const IpbToolHost *host)
{
    return g_hash_table_size(host->calls) == 0;
}

void
ipb_tool_host_add_alias(IpbToolHost *host, const char *name, const IpbJson *params, const char *id)
{
    g_hash_table_replace(host->aliases, ipb_registry_make_id(name, params), g_strdup(id));
}

void
ipb_tool_host_reset(IpbToolHost *host, void (*done)(void *data), void *data)
{
    GHashTableIter iter;
    void *value;
    if (done != NULL) {
        IpbDone entry = {done, data};
        g_array_append_val(host->dones, entry);
    }
    g_hash_table_iter_init(&iter, host->calls);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        Call *call = value;
        if (call->error == NULL)
            abandon(call);
        end_later(call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                    "the tool call was cancelled: the session is reset"));
    }
    stop(host->servers);
    stop(host->unregistered);
    on_server_stopped(host);
}

void
ipb_tool_host_free(IpbToolHost *host)
{
    if (host == NULL)
        return;
    GHashTableIter iter;
    void *value;
    while (g_hash_table_iter_init(&iter, host->calls),
           g_hash_table_iter_next(&iter, NULL, &value)) {
        abandon(value);
        unref_call(detach(value));
    }
    ipb_timer_free(host->done_timer);
    g_hash_table_unref(host->servers);
    g_hash_table_unref(host->unregistered);
    g_hash_table_unref(host->aliases);
    g_hash_table_unref(host->superseded);
    g_hash_table_unref(host->calls);
    g_array_unref(host->dones);
    ipb_application_tools_unref(host->options.application_tools);
    g_strfreev(host->env);
    g_strfreev(host->keep_out);
    g_free(host->cwd);
    g_free(host->state_dir);
    ipb_loop_unref(host->loop);
    g_free(host);
}
