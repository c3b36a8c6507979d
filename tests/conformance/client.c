/* SPDX-License-Identifier: Apache-2.0
 *
 * The client that the conformance suite tests. It uses src/mcp as it is: it connects to a server,
 * lists its tools and calls them.
 *
 * usage: conformance-client URL
 *
 * The suite says in the environment what it expects. MCP_CONFORMANCE_CONTEXT may name the calls and
 * credentials. Without it, each tool is called once, with arguments made from its schema. Exit
 * status: 0, even if tools report failures; 1 with the error on stderr. A call that fails ends only
 * itself.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "json/writer.h"
#include "login.h"
#include "mcp/client.h"

#define TIMEOUT_MS 20000
#define MAX_LOGINS 3
/* The URL that the suite accepts as our client id metadata document. */
#define METADATA_URL "https://conformance-test.local/client-metadata.json"

typedef struct {
    IpbMcpClient *client;
    bool is_done;
    IpbJsonDoc *document;
    const IpbJson *result;
    bool has_failed;
    bool wants_login;
} Run;

static void
on_answer(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    Run *run = data;
    run->is_done = true;
    ipb_json_doc_free(run->document);
    run->document = document != NULL ? g_steal_pointer(document) : NULL;
    run->result = result;
    if (error == NULL)
        return;
    g_printerr("%s\n", error->message);
    run->has_failed = true;
    run->wants_login |= g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
}

static void
on_progress(const IpbMcpProgress *progress, void *data)
{
    (void) data;
    g_print("progress %g of %g\n", progress->progress, progress->total);
}

static void
on_log(const char *level, const char *text, void *data)
{
    (void) data;
    g_printerr("%s: %s\n", level, text);
}

static void
on_done(void *data)
{
    *(bool *) data = true;
}

/* True: there is a result. */
static bool
wait_for(Run *run)
{
    run->is_done = false;
    while (!run->is_done)
        g_main_context_iteration(NULL, TRUE);
    return run->result != NULL;
}

/* A value that the schema of an argument allows. */
static void
write_example(IpbJsonWriter *writer, const IpbJson *schema)
{
    const char *type = ipb_json_get_string(schema, "type");
    const IpbJson *choices = ipb_json_get(schema, "enum");
    if (ipb_json_length(choices) > 0)
        ipb_json_write_value(writer, ipb_json_first(choices));
    else if (g_strcmp0(type, "number") == 0 || g_strcmp0(type, "integer") == 0)
        ipb_json_write_int(writer, 5);
    else if (g_strcmp0(type, "boolean") == 0)
        ipb_json_write_bool(writer, true);
    else if (g_strcmp0(type, "array") == 0)
        ipb_json_write_raw(writer, "[]", 2);
    else if (g_strcmp0(type, "object") == 0)
        ipb_json_write_raw(writer, "{}", 2);
    else
        ipb_json_write_string(writer, "example");
}

static char *
make_arguments(const IpbJson *schema, size_t *ret_size)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    const IpbJson *required = ipb_json_get(schema, "required");
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (property, ipb_json_get(schema, "properties")) {
        const char *name = ipb_json_name(property, NULL);
        bool is_required = false;
        IPB_JSON_FOREACH (item, required)
            is_required |= g_strcmp0(ipb_json_string(item, NULL), name) == 0;
        if (!is_required)
            continue;
        ipb_json_key(writer, name);
        write_example(writer, property);
    }
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, ret_size);
}

/* The suite checks whether schemas arrive unchanged: the tool gets the schema of another one. */
static char *
make_echo_arguments(const IpbJson *tools, size_t *ret_size)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (tool, tools)
        if (g_strcmp0(ipb_json_get_string(tool, "name"), "json_schema_2020_12_tool") == 0)
            ipb_json_member_value(writer, "schema", ipb_json_get(tool, "inputSchema"));
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, ret_size);
}

static void
call(Run *run, const char *name, const char *arguments, size_t size)
{
    ipb_mcp_client_call_tool(run->client, name, arguments, size, on_progress, on_answer, run);
    if (!wait_for(run))
        return;
    IpbSpan raw = ipb_json_raw(run->result);
    g_print("%s: %.*s\n", name, (int) raw.size, raw.start);
}

static void
call_tools(Run *run, const IpbJson *calls)
{
    ipb_mcp_client_list_tools(run->client, on_answer, run);
    if (!wait_for(run))
        return;
    g_autoptr(IpbJsonDoc) document = g_steal_pointer(&run->document);
    const IpbJson *tools = ipb_json_get(run->result, "tools");
    IPB_JSON_FOREACH (item, calls) {
        IpbSpan raw = ipb_json_raw(ipb_json_get(item, "arguments"));
        call(run, ipb_json_get_string(item, "name"), raw.start, raw.size);
    }
    if (calls != NULL)
        return;
    /* The server of this scenario has only a list. */
    if (g_strcmp0(g_getenv("MCP_CONFORMANCE_SCENARIO"), "json-schema-ref-no-deref") == 0)
        return;
    IPB_JSON_FOREACH (tool, tools) {
        const char *name = ipb_json_get_string(tool, "name");
        size_t size;
        g_autofree char *arguments = g_strcmp0(name, "json_schema_echo") == 0
                                         ? make_echo_arguments(tools, &size)
                                         : make_arguments(ipb_json_get(tool, "inputSchema"), &size);
        call(run, name, arguments, size);
    }
}

/* One connection from its beginning to its end. */
static void
run_session(Run *run, IpbLoop *loop, const IpbServerParams *params, const IpbJson *calls)
{
    static const IpbMcpClientFuncs FUNCS = {.on_log = on_log};
    g_auto(GStrv) env = g_get_environ();
    /* The suite expects one revision, and its legacy servers reject a probe. So the client knows in
     * advance that they are legacy. */
    g_autoptr(IpbLegacyServers) legacy_servers = ipb_legacy_servers_new();
    g_autofree char *key = ipb_legacy_servers_make_key(params);
    bool is_legacy = g_strcmp0(g_getenv("MCP_CONFORMANCE_PROTOCOL_VERSION"), "2026-07-28") < 0;
    ipb_legacy_servers_set(legacy_servers, key, is_legacy);
    IpbMcpClientOptions options = {
        .name = "conformance",
        .params = params,
        .base_env = (const char *const *) env,
        .connect_timeout_ms = TIMEOUT_MS,
        .call_timeout_ms = TIMEOUT_MS,
        .legacy_servers = legacy_servers,
    };
    run->client = ipb_mcp_client_new(loop, &options, &FUNCS, run);
    ipb_mcp_client_connect(run->client, on_answer, run);
    if (wait_for(run))
        call_tools(run, calls);

    bool is_closed = false;
    ipb_mcp_client_close(run->client, on_done, &is_closed);
    while (!is_closed)
        g_main_context_iteration(NULL, TRUE);
    ipb_mcp_client_free(run->client);
    ipb_json_doc_free(run->document);
}

/* Opens one session after the other, as a person does who logs in when an error says so. */
static bool
run_sessions(IpbLoop *loop, const IpbServerParams *params, const IpbJson *calls, GError **error)
{
    for (unsigned n_logins = 0;; n_logins++) {
        Run run = {0};
        run_session(&run, loop, params, calls);
        if (!run.wants_login || n_logins == MAX_LOGINS)
            return !run.has_failed;
        if (!log_in(loop, params, error))
            return false;
    }
}

static void
write_oauth(IpbJsonWriter *writer, const IpbJson *context)
{
    const char *id = ipb_json_get_string(context, "client_id");
    const char *secret = ipb_json_get_string(context, "client_secret");
    const char *scenario = g_getenv("MCP_CONFORMANCE_SCENARIO");
    ipb_json_begin_object(writer);
    if (id != NULL)
        ipb_json_member_string(writer, "clientId", id);
    if (secret != NULL)
        ipb_json_member_string(writer, "clientSecret", secret);
    if (g_strcmp0(scenario, "auth/basic-cimd") == 0)
        ipb_json_member_string(writer, "clientMetadataUrl", METADATA_URL);
    if (g_strcmp0(scenario, "auth/client-credentials-basic") == 0)
        ipb_json_member_string(writer, "grantType", "client_credentials");
    ipb_json_end_object(writer);
}

/* The parameters that a user of such a server would write. */
static IpbServerParams *
make_params(const char *url, const IpbJson *context, GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    size_t size;
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "url", url);
    ipb_json_member_string(writer, "type", "streamable_http");
    ipb_json_key(writer, "oauth");
    write_oauth(writer, context);
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    return document != NULL ? ipb_server_params_parse(ipb_json_root(document), error) : NULL;
}

static bool
run(const char *url, GError **error)
{
    const char *text = g_getenv("MCP_CONFORMANCE_CONTEXT");
    g_autoptr(IpbJsonDoc) context = NULL;
    if (text != NULL) {
        context = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, error);
        if (context == NULL)
            return false;
    }
    const IpbJson *root = context != NULL ? ipb_json_root(context) : NULL;
    g_autoptr(IpbServerParams) params = make_params(url, root, error);
    if (params == NULL)
        return false;
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, error);
    if (loop == NULL)
        return false;
    return run_sessions(loop, params, ipb_json_get(root, "toolCalls"), error);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    if (argc != 2) {
        g_printerr("usage: conformance-client URL\n");
        return EXIT_FAILURE;
    }
    if (run(argv[1], &error))
        return EXIT_SUCCESS;
    if (error != NULL)
        g_printerr("%s\n", error->message);
    return EXIT_FAILURE;
}
