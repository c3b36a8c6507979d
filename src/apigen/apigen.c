/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules of a package: their names and their sources.
 */
#include "apigen/apigen.h"

#include <string.h>

#include "apigen/emit.h"
#include "apigen/identifier.h"
#include "apigen/schema.h"
#include "apigen/stub.h"
#include "apigen/tool-catalog.h"
#include "base/error.h"

#define MAX_TOOLS 10000
/* Bytes of all modules. */
#define MAX_PACKAGE_SIZE (64 << 20)
/* Characters of a module's name. A longer name ends in a digest. */
#define MAX_MODULE_NAME 100
#define DIGEST_SIZE 8
#define MAX_SERVER_NAME 100

bool
ipb_apigen_check_server_name(const char *name, GError **error)
{
    /* __init__ and __pycache__ have a special meaning in a directory of packages. */
    if (ipb_identifier_is_plain(name) && strlen(name) <= MAX_SERVER_NAME &&
        !g_str_has_prefix(name, "__"))
        return true;
    g_autofree char *shown = g_utf8_make_valid(name, (gssize) strnlen(name, MAX_SERVER_NAME));
    g_set_error(
        error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
        "\"%s\" cannot be the name of a server, because it becomes a Python package: use letters, "
        "digits and _, at most %d characters, no digit or __ at the beginning, and no keyword of "
        "Python",
        shown, MAX_SERVER_NAME);
    return false;
}

char *
ipb_apigen_module_name(const char *tool_name)
{
    g_autoptr(GString) name = g_string_new(NULL);
    bool has_alnum = false;
    for (const char *p = tool_name; *p != '\0'; p++) {
        if (((unsigned char) *p & 0xc0) == 0x80)
            continue; /* one _ for each character, not for each byte */
        has_alnum |= (bool) g_ascii_isalnum(*p);
        g_string_append_c(name, g_ascii_isalnum(*p) ? g_ascii_tolower(*p) : '_');
    }
    bool is_dunder = g_str_has_prefix(name->str, "__") && g_str_has_suffix(name->str, "__");
    if (!has_alnum || is_dunder || g_ascii_isdigit(name->str[0]))
        g_string_prepend(name, "tool_");
    if (ipb_identifier_is_keyword(name->str))
        g_string_append_c(name, '_');
    if (name->len > MAX_MODULE_NAME) {
        g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, tool_name, -1);
        g_string_truncate(name, MAX_MODULE_NAME - DIGEST_SIZE - 1);
        g_string_append_printf(name, "_%.*s", DIGEST_SIZE, digest);
    }
    return g_string_free(g_steal_pointer(&name), FALSE);
}

static void
free_file(void *data)
{
    IpbApigenFile *file = data;
    g_free(file->name);
    g_free(file->source);
    g_free(file);
}

static void
add_file(GPtrArray *files, char *name, char *source)
{
    IpbApigenFile *file = g_new0(IpbApigenFile, 1);
    file->name = name;
    file->source = source;
    g_ptr_array_add(files, file);
}

static const char *
name_of(const IpbJson *tool)
{
    return ipb_json_string(ipb_json_get(tool, "name"), NULL);
}

/* Takes @name if it is free, else frees it and returns NULL. */
static char *
take(GHashTable *taken, char *name)
{
    if (g_hash_table_contains(taken, name)) {
        g_free(name);
        return NULL;
    }
    g_hash_table_add(taken, name);
    return name;
}

/* Names each tool's module. Tools that can keep their names come first, so that adding a tool
 * changes as few names as possible. Then numbers distinguish the others. */
static char **
name_modules(const IpbJson *tools)
{
    size_t i = 0;
    char **modules = g_new0(char *, ipb_json_length(tools) + 1);
    g_autoptr(GHashTable) taken = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) counters = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    IPB_JSON_FOREACH (tool, tools) {
        g_autofree char *name = ipb_apigen_module_name(name_of(tool));
        if (g_str_equal(name, name_of(tool)))
            modules[i] = take(taken, g_steal_pointer(&name));
        i++;
    }
    i = 0;
    IPB_JSON_FOREACH (tool, tools) {
        g_autofree char *base = ipb_apigen_module_name(name_of(tool));
        guint number = GPOINTER_TO_UINT(g_hash_table_lookup(counters, base));
        for (; modules[i] == NULL; number++)
            modules[i] = take(taken, number == 0 ? g_strdup(base)
                                                 : g_strdup_printf("%s_%u", base, number + 1));
        g_hash_table_replace(counters, g_steal_pointer(&base), GUINT_TO_POINTER(number));
        i++;
    }
    return modules;
}

static bool
check_tools(const IpbJson *tools, GError **error)
{
    if (!ipb_json_is(tools, IPB_JSON_ARRAY)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "the server's list of tools is not an array");
        return false;
    }
    if (ipb_json_length(tools) > MAX_TOOLS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the server has %zu tools, more than %d", ipb_json_length(tools), MAX_TOOLS);
        return false;
    }
    size_t number = 0;
    IPB_JSON_FOREACH (tool, tools) {
        number++;
        size_t size = 0;
        if (ipb_json_string(ipb_json_get(tool, "name"), &size) == NULL || size == 0) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                        "tool %zu of the server's list has no name", number);
            return false;
        }
    }
    return true;
}

static char *
list_module(const IpbModule *module, const IpbApigenOptions *options)
{
    switch (options->listing) {
    case IPB_APIGEN_SIGNATURES:
        return ipb_stub_make_signature(module, options->async_api);
    case IPB_APIGEN_STUBS:
        return ipb_stub_make(module, options->async_api);
    case IPB_APIGEN_NAMED_SIGNATURES: {
        g_autofree char *signature = ipb_stub_make_signature(module, options->async_api);
        return g_strconcat(module->name, "\n", signature, NULL);
    }
    case IPB_APIGEN_MODULES:
        break;
    }
    return g_strdup(module->name);
}

/* Generates a module, and adds its tool to the catalog. *name, the module's name, becomes what the
 * listing says about the tool. */
static char *
generate_module(const IpbJson *tool, char **name, const IpbApigenOptions *options, GString *catalog)
{
    g_autoptr(IpbModule) module = ipb_schema_read_tool(tool);
    module->name = *name;
    module->server_name = options->server_name;
    module->is_application = options->is_application;
    char *source = ipb_emit_module(module, options->async_api);
    char *listed = list_module(module, options);
    ipb_tool_catalog_append(catalog, module, options->async_api);
    g_free(*name);
    *name = listed;
    return source;
}

GPtrArray *
ipb_apigen_generate(const IpbJson *tools, const IpbApigenOptions *options, char ***ret_modules,
                    GError **error)
{
    if (!ipb_apigen_check_server_name(options->server_name, error) || !check_tools(tools, error))
        return NULL;
    g_auto(GStrv) modules = name_modules(tools);
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(free_file);
    add_file(files, g_strdup("__init__.py"),
             ipb_emit_init(options->server_name, options->registration_id));
    g_autoptr(GString) catalog = g_string_new(NULL);
    size_t size = 0, i = 0;
    IPB_JSON_FOREACH (tool, tools) {
        char *file = g_strconcat(modules[i], ".py", NULL);
        char *source = generate_module(tool, &modules[i], options, catalog);
        add_file(files, file, source);
        size += strlen(source);
        if (size > MAX_PACKAGE_SIZE) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                        "the API of server %s is larger than %d MiB: tool %zu of %zu exceeds it",
                        options->server_name, MAX_PACKAGE_SIZE >> 20, i + 1,
                        ipb_json_length(tools));
            return NULL;
        }
        i++;
    }
    add_file(files, g_strdup(IPB_TOOL_CATALOG_FILE),
             g_string_free(g_steal_pointer(&catalog), FALSE));
    *ret_modules = g_steal_pointer(&modules);
    return g_steal_pointer(&files);
}
