/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox servers`: the registered MCP servers: list, add, remove, import.
 */
#include <stdio.h>
#include <string.h>

#include "apigen/apigen.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/mcp-servers-file.h"
#include "json/writer.h"
#include "tools/registry.h"

static int
fail(const GError *error)
{
    return ipb_cli_fail(&ipb_verb_servers, ipb_cli_status(error), "%s", error->message);
}

/* --- list ------------------------------------------------------------------------------------- */

static void
print_json(const GPtrArray *all)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < all->len; i++) {
        ipb_json_begin_object(writer);
        ipb_registration_write(g_ptr_array_index(all, i), writer);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
}

/* The command or the URL, for a table. Secrets are in ${NAME} or in env, which is not shown. */
static char *
describe_params(const char *params_json)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(params_json, strlen(params_json), &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *params = doc != NULL ? ipb_json_root(doc) : NULL;
    const char *url = ipb_json_get_string(params, "url");
    if (url != NULL)
        return ipb_cli_printable(url);
    g_autoptr(GString) text = g_string_new(ipb_json_get_string(params, "command"));
    IPB_JSON_FOREACH (argument, ipb_json_get(params, "args"))
        g_string_append_printf(text, " %s", ipb_json_string(argument, NULL));
    return ipb_cli_printable(text->str);
}

static int
list_servers(IpbRegistry *registry, bool as_json)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) all = ipb_registry_list(registry, &error);
    if (all == NULL)
        return fail(error);
    if (as_json) {
        print_json(all);
        return IPB_EXIT_OK;
    }
    int width = 4;
    for (guint i = 0; i < all->len; i++)
        width = MAX(width, (int) strlen(((IpbRegistration *) g_ptr_array_index(all, i))->name));
    if (all->len > 0)
        printf("%-32s  %-*s  %s\n", "ID", width, "NAME", "SERVER");
    else
        fputs("No MCP server is registered; see 'ipybox apigen --help'.\n", stderr);
    for (guint i = 0; i < all->len; i++) {
        const IpbRegistration *registration = g_ptr_array_index(all, i);
        g_autofree char *server = describe_params(registration->params_json);
        printf("%-32s  %-*s  %s\n", registration->id, width, registration->name, server);
        for (char **root = registration->roots; *root != NULL; root++) {
            g_autofree char *printable = ipb_cli_printable(*root);
            printf("%-32s  %-*s  in %s\n", "", width, "", printable);
        }
    }
    return IPB_EXIT_OK;
}

/* --- add, remove, import ---------------------------------------------------------------------- */

static int
add_server(IpbRegistry *registry, const char *name, const char *params_json)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(params_json, strlen(params_json), &IPB_JSON_LIMITS_SMALL, &error);
    if (doc == NULL)
        return ipb_cli_fail(&ipb_verb_servers, IPB_EXIT_USAGE, "PARAMS: %s", error->message);
    if (!ipb_apigen_check_server_name(name, &error))
        return fail(error);
    g_autoptr(IpbRegistration) registration =
        ipb_registry_add(registry, name, ipb_json_root(doc), NULL, &error);
    if (registration == NULL)
        return fail(error);
    printf("%s\n", registration->id);
    return IPB_EXIT_OK;
}

static int
remove_server(IpbRegistry *registry, const char *id_or_name)
{
    g_autoptr(GError) error = NULL;
    return ipb_registry_remove(registry, id_or_name, &error) ? IPB_EXIT_OK : fail(error);
}

/* Checks all servers before it registers the first. */
static int
import_servers(IpbRegistry *registry, const char *path)
{
    g_autoptr(GError) error = NULL;
    const IpbJson *servers;
    g_autoptr(IpbJsonDoc) doc = ipb_mcp_servers_file_load(path, &servers, &error);
    if (doc == NULL)
        return fail(error);
    IPB_JSON_FOREACH (server, servers) {
        const char *name = ipb_json_name(server, NULL);
        g_autoptr(IpbRegistration) registration =
            ipb_registry_add(registry, name, server, NULL, &error);
        if (registration == NULL)
            return fail(error);
        printf("%s  %s\n", registration->id, name);
    }
    return IPB_EXIT_OK;
}

static int
run_servers(int argc, char **argv)
{
    int as_json = 0;
    const GOptionEntry options[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print the list as JSON", NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_servers, options,
                       "Commands:\n  list                 print the servers and the directories of "
                       "their packages (default)\n  add NAME PARAMS      register a server; PARAMS "
                       "are its parameters as JSON\n"
                       "  remove ID|NAME       remove a server; its packages cannot call it any "
                       "more\n  import FILE          register all servers of an MCP host's "
                       "{\"mcpServers\": …} file\n\n"
                       "Example:\n  ipybox servers add time '{\"command\": \"uvx\", \"args\": "
                       "[\"mcp-server-time\"]}'",
                       &argc, &argv, &status))
        return status;
    static const char *const COMMANDS[] = {"list", "add", "remove", "import", NULL};
    g_autoptr(IpbRegistry) registry = ipb_registry_new(NULL);
    const char *what = argc > 1 ? argv[1] : "list";
    if (g_str_equal(what, "list") && argc <= 2)
        return list_servers(registry, as_json);
    if (g_str_equal(what, "add") && argc == 4)
        return add_server(registry, argv[2], argv[3]);
    if (g_str_equal(what, "remove") && argc == 3)
        return remove_server(registry, argv[2]);
    if (g_str_equal(what, "import") && argc == 3)
        return import_servers(registry, argv[2]);
    return ipb_cli_fail_command(&ipb_verb_servers, what, COMMANDS);
}

const IpbVerb ipb_verb_servers = {
    "servers", "[list | add NAME PARAMS | remove ID|NAME | import FILE]",
    "list, add, remove or import registered MCP servers", run_servers};
