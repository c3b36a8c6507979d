/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools of one session; see the header. A call goes resolve → approval → connect → send →
 * result, and is in the table of calls until its function was called or it was cancelled. What it
 * waits for meanwhile (an approval, an answer) calls back once in any case and holds a reference
 * for that, so a call that ended early is freed when that comes.
 */
#include "tools/tool-host.h"

#include <string.h>

#include "base/error.h"
#include "tools/denial-note.h"
#include "tools/tool-result.h"
#include "tools/tool-server.h"

/* Calls at the same time, waiting for approval or an answer. */
#define MAX_CALLS 1000
#define MAX_TOOL_NAME 1024
/* Of names and ids of a kernel that appear in messages. */
#define MAX_SHOWN_NAME 128

/* The id of registrations is 32 hex digits: none is like this. */
#define OWN_SERVER "ipybox"

typedef struct {
    unsigned refs;
    IpbToolHost *host; /* NULL: it has ended */
    uint64_t id;
    IpbToolServer *server; /* NULL: there is none, and the error says so, or the tool is our own */
    bool is_own;
    bool is_own_running;
    char *tool_name;
    char *arguments;
    size_t arguments_size;
    uint64_t approval; /* 0: none is waited for */
    int64_t mcp_call;  /* 0: not sent, or answered */
    IpbToolResultForm form;
    GError *error; /* it ends with this, from the loop */
    IpbTimer *error_timer;
    IpbToolCallFunc func;
    void *data;
} Call;

typedef struct {
    void (*func)(void *data);
    void *data;
} Done;

struct IpbToolHost {
    IpbLoop *loop;
    IpbToolHostOptions options; /* of it, the functions */
    IpbToolServerOptions server_options;
    char *cwd;
    char *state_dir;
    char **keep_out;
    char **env;
    GHashTable *servers; /* id → IpbToolServer, both owned */
    GHashTable *calls;   /* &call->id → Call */
    uint64_t last_call;
    GArray *dones; /* Done, of resets */
    IpbTimer *done_timer;
};

static const char *
get_server_name(const Call *call)
{
    return call->is_own ? OWN_SERVER : ipb_tool_server_registration(call->server)->name;
}

/* Calls */

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

/* Takes the call out of the host; returns the table's reference. */
static Call *
detach(Call *call)
{
    g_hash_table_remove(call->host->calls, &call->id);
    if (call->server != NULL)
        ipb_tool_server_forget(call->server, call);
    g_clear_pointer(&call->error_timer, ipb_timer_free);
    call->host = NULL;
    return call;
}

/* Calls off what the call waits for. */
static void
abandon(Call *call)
{
    IpbToolHost *host = call->host;
    if (call->approval != 0)
        ipb_approvals_cancel(host->options.approvals, call->approval);
    if (call->is_own_running)
        host->options.on_own_cancel(call->id, host->options.data);
    if (call->mcp_call != 0 && ipb_tool_server_client(call->server) != NULL)
        ipb_mcp_client_cancel(ipb_tool_server_client(call->server), call->mcp_call);
}

static void
end(Call *call, GBytes *result, const GError *error)
{
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

/* Takes @error. The first one counts. */
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

/* Has it ended, or is it known how it will? Then what it waited for is of no interest. */
static bool
is_over(const Call *call)
{
    return call->host == NULL || call->error != NULL;
}

/* The way of a call */

/* The connection's timeouts are the server's fault: TIMEOUT is kept for approvals. */
static void
end_with_client_error(Call *call, const GError *error)
{
    g_autoptr(GError) told = g_error_copy(error);
    if (g_error_matches(told, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT) ||
        g_error_matches(told, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED))
        told->code = IPYBOX_ERROR_SERVER;
    end(call, NULL, told);
}

/* For errors of servers in a sandbox that look like its doing. */
static void
add_denial_note(const Call *call, GError **failure)
{
    const IpbRegistration *registration = ipb_tool_server_registration(call->server);
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

static void
on_approval(const GError *error, void *data)
{
    g_autoptr(Call) call = data;
    call->approval = 0;
    if (is_over(call))
        return;
    if (error != NULL) {
        end(call, NULL, error);
    } else if (call->is_own) {
        call->is_own_running = true;
        call->host->options.on_own_call(call->id, call->tool_name, call->arguments,
                                        call->arguments_size, call->host->options.data);
    } else {
        ipb_tool_server_use(call->server, on_server, call);
    }
}

void
ipb_tool_host_answer(IpbToolHost *host, uint64_t id, GBytes *result, const GError *error)
{
    Call *call = g_hash_table_lookup(host->calls, &id);
    if (call == NULL || is_over(call))
        return;
    call->is_own_running = false;
    g_autoptr(GBytes) whole = result != NULL && call->form == IPB_TOOL_RESULT_WHOLE
                                  ? ipb_tool_result_make_whole(result)
                                  : NULL;
    end(call, whole != NULL ? whole : result, error);
}

static bool
is_plain_name(const char *text)
{
    size_t size = strspn(text, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_-");
    return size > 0 && size <= MAX_SHOWN_NAME && text[size] == '\0';
}

/* What a kernel asked for is shown to people and in a command that they may copy: only if it is
 * harmless. */
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

static IpbToolServer *
find_server(IpbToolHost *host, const char *server_id, const char *server_name,
            const IpbJson *server_params)
{
    if (server_id != NULL)
        return g_hash_table_lookup(host->servers, server_id);
    if (!ipb_json_is(server_params, IPB_JSON_OBJECT))
        return NULL;
    /* The id stands for the name and the parameters. */
    g_autofree char *id = ipb_registry_make_id(server_name, server_params);
    return g_hash_table_lookup(host->servers, id);
}

/* Tool names go into prompts and logs: no control characters. */
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

/* NULL, or why there will be no such call. */
static GError *
check_call(const Call *call, const char *server_id, const char *server_name)
{
    if (g_hash_table_size(call->host->calls) > MAX_CALLS)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                           "more than %d tool calls at the same time", MAX_CALLS);
    if (call->server == NULL && !call->is_own)
        return make_not_registered(server_id, server_name);
    if (!is_tool_name(call->tool_name))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                           "a tool's name is 1 – %d bytes of printable text", MAX_TOOL_NAME);
    return NULL;
}

uint64_t
ipb_tool_host_call(IpbToolHost *host, const char *server_id, const char *server_name,
                   const IpbJson *server_params, const char *tool_name, const char *arguments_json,
                   size_t arguments_size, IpbToolResultForm form, IpbToolCallFunc func, void *data)
{
    Call *call = g_new0(Call, 1);
    *call = (Call){
        .refs = 1,
        .host = host,
        .id = ++host->last_call,
        .server = find_server(host, server_id, server_name, server_params),
        .is_own = server_id != NULL && g_str_equal(server_id, OWN_SERVER) &&
                  host->options.on_own_call != NULL,
        .tool_name = g_strdup(tool_name),
        .form = form,
        .func = func,
        .data = data,
    };
    g_hash_table_insert(host->calls, &call->id, call);
    GError *error = check_call(call, server_id, server_name);
    if (error != NULL) {
        end_later(call, error);
        return call->id;
    }
    call->arguments = g_strndup(arguments_json, arguments_size);
    call->arguments_size = arguments_size;
    call->refs++;
    call->approval =
        ipb_approvals_request(host->options.approvals, get_server_name(call), call->tool_name,
                              call->arguments, arguments_size, on_approval, call);
    return call->id;
}

void
ipb_tool_host_cancel(IpbToolHost *host, uint64_t id)
{
    Call *call = g_hash_table_lookup(host->calls, &id);
    if (call == NULL)
        return;
    abandon(call);
    unref_call(detach(call));
}

/* The host */

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
    ipb_tool_server_free(server);
}

static bool
is_every_server_stopped(const IpbToolHost *host)
{
    GHashTableIter iter;
    void *server;
    g_hash_table_iter_init(&iter, host->servers);
    while (g_hash_table_iter_next(&iter, NULL, &server))
        if (!ipb_tool_server_is_stopped(server))
            return false;
    return true;
}

static void
on_done_timer(void *data)
{
    IpbToolHost *host = data;
    g_clear_pointer(&host->done_timer, ipb_timer_free);
    if (!is_every_server_stopped(host))
        return; /* the last one comes here again */
    g_autoptr(GArray) dones = g_steal_pointer(&host->dones);
    host->dones = g_array_new(FALSE, FALSE, sizeof(Done));
    for (guint i = 0; i < dones->len; i++) {
        Done *done = &g_array_index(dones, Done, i);
        done->func(done->data);
    }
}

/* Looks from the loop whether resets are done. */
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
    host->cwd = g_strdup(options->cwd);
    host->state_dir = g_strdup(options->state_dir);
    host->keep_out = g_strdupv((char **) options->keep_out);
    host->env = g_strdupv((char **) options->env);
    host->server_options = (IpbToolServerOptions){
        .cwd = host->cwd,
        .state_dir = host->state_dir,
        .keep_out = (const char *const *) host->keep_out,
        .env = (const char *const *) host->env,
        .connect_timeout_ms = options->connect_timeout_ms,
        .call_timeout_ms = options->call_timeout_ms,
        .eras = options->eras,
        .on_log = on_log,
        .on_stopped = on_server_stopped,
        .data = host,
    };
    host->servers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_server);
    host->calls = g_hash_table_new(g_int64_hash, g_int64_equal);
    host->dones = g_array_new(FALSE, FALSE, sizeof(Done));
    return host;
}

void
ipb_tool_host_allow(IpbToolHost *host, const IpbRegistration *registration)
{
    /* Equal ids are equal servers: only the roots may differ. */
    IpbToolServer *server = g_hash_table_lookup(host->servers, registration->id);
    if (server != NULL)
        ipb_tool_server_set_registration(server, registration);
    else
        g_hash_table_insert(host->servers, g_strdup(registration->id),
                            ipb_tool_server_new(host->loop, &host->server_options, registration));
}

void
ipb_tool_host_reset(IpbToolHost *host, void (*done)(void *data), void *data)
{
    GHashTableIter iter;
    void *value;
    if (done != NULL) {
        Done entry = {done, data};
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
    g_hash_table_iter_init(&iter, host->servers);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        ipb_tool_server_stop(value);
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
    g_hash_table_unref(host->calls);
    g_array_unref(host->dones);
    g_strfreev(host->env);
    g_strfreev(host->keep_out);
    g_free(host->cwd);
    g_free(host->state_dir);
    ipb_loop_unref(host->loop);
    g_free(host);
}
