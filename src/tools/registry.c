/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry; see the header. Readers take no lock: the file is replaced as a whole. Writers hold
 * flock on servers.lock from reading to replacing. Nothing is kept in memory between calls.
 */
#include "tools/registry.h"

#include <string.h>

#include "base/error.h"
#include "base/file-lock.h"
#include "base/file.h"
#include "mcp/params.h"
#include "tools/registry-file.h"

#define FILE_NAME "servers.json"
#define LOCK_NAME "servers.lock"
#define MAX_NAME 128
#define ID_DIGITS 32
#define LOCK_TIMEOUT_MS 10000

struct IpbRegistry {
    char *directory;
    char *path;
    char *lock_path;
};

void
ipb_registration_free(IpbRegistration *registration)
{
    if (registration == NULL)
        return;
    g_free(registration->id);
    g_free(registration->name);
    g_free(registration->params_json);
    g_strfreev(registration->roots);
    g_free(registration->tools);
    g_free(registration);
}

void
ipb_registration_write(const IpbRegistration *registration, IpbJsonWriter *writer)
{
    ipb_json_member_string(writer, "id", registration->id);
    ipb_json_member_string(writer, "name", registration->name);
    ipb_json_key(writer, "params");
    ipb_json_write_raw(writer, registration->params_json, strlen(registration->params_json));
    ipb_json_key(writer, "roots");
    ipb_json_begin_array(writer);
    for (char **root = registration->roots; *root != NULL; root++)
        ipb_json_write_string(writer, *root);
    ipb_json_end_array(writer);
    if (registration->tools != NULL)
        ipb_json_member_string(writer, "tools", registration->tools);
}

IpbRegistration *
ipb_registration_copy(const IpbRegistration *registration)
{
    IpbRegistration *copy = g_new0(IpbRegistration, 1);
    copy->id = g_strdup(registration->id);
    copy->name = g_strdup(registration->name);
    copy->params_json = g_strdup(registration->params_json);
    copy->roots = g_strdupv(registration->roots);
    copy->tools = g_strdup(registration->tools);
    return copy;
}

IpbRegistry *
ipb_registry_new(const char *state_dir)
{
    IpbRegistry *registry = g_new0(IpbRegistry, 1);
    registry->directory = state_dir != NULL
                              ? g_strdup(state_dir)
                              : g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    registry->path = g_build_filename(registry->directory, FILE_NAME, NULL);
    registry->lock_path = g_build_filename(registry->directory, LOCK_NAME, NULL);
    return registry;
}

void
ipb_registry_free(IpbRegistry *registry)
{
    if (registry == NULL)
        return;
    g_free(registry->directory);
    g_free(registry->path);
    g_free(registry->lock_path);
    g_free(registry);
}

static bool
load(const IpbRegistry *registry, IpbRegistryFile *ret_file, GError **error)
{
    return ipb_registry_file_load(registry->directory, registry->path, ret_file, error);
}

/* The lock, and what the file holds under it. -1 on failure. */
static int
lock_and_load(const IpbRegistry *registry, IpbRegistryFile *ret_file, GError **error)
{
    if (!ipb_file_make_directories(registry->directory, 0700, error))
        return -1;
    ipb_autofd lock = ipb_file_lock(registry->lock_path, LOCK_TIMEOUT_MS, error);
    if (lock < 0 || !load(registry, ret_file, error))
        return -1;
    return ipb_fd_steal(&lock);
}

/* What is done with a registry */

char *
ipb_registry_make_id(const char *name, const IpbJson *params)
{
    g_autofree char *canonical = ipb_server_params_canonical(params);
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(checksum, (const guchar *) name, (gssize) strlen(name) + 1);
    g_checksum_update(checksum, (const guchar *) canonical, -1);
    return g_strndup(g_checksum_get_string(checksum), ID_DIGITS);
}

static int
compare_digests(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

char *
ipb_registry_digest_tools(const IpbJson *tools)
{
    static const char *const MEMBERS[] = {"name",        "title",        "description",
                                          "inputSchema", "outputSchema", NULL};
    g_autoptr(GPtrArray) digests = g_ptr_array_new_with_free_func(g_free);
    IPB_JSON_FOREACH (tool, tools) {
        g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
        for (const char *const *member = MEMBERS; *member != NULL; member++) {
            IpbSpan raw = ipb_json_raw(ipb_json_get(tool, *member));
            g_checksum_update(checksum, (const guchar *) *member, (gssize) strlen(*member) + 1);
            if (raw.size > 0)
                g_checksum_update(checksum, (const guchar *) raw.start, (gssize) raw.size);
        }
        g_ptr_array_add(digests, g_strdup(g_checksum_get_string(checksum)));
    }
    g_ptr_array_sort(digests, compare_digests);
    g_autoptr(GChecksum) all = g_checksum_new(G_CHECKSUM_SHA256);
    for (guint i = 0; i < digests->len; i++)
        g_checksum_update(all, g_ptr_array_index(digests, i), -1);
    return g_strdup(g_checksum_get_string(all));
}

/* Lists are short: copies are simpler than keeping builders. */
static void
remove_root(IpbRegistration *registration, const char *root)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (char **other = registration->roots; *other != NULL; other++)
        if (!g_str_equal(*other, root))
            g_strv_builder_add(builder, *other);
    g_strfreev(registration->roots);
    registration->roots = g_strv_builder_end(builder);
}

static void
add_root(IpbRegistration *registration, const char *root)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_strv_builder_addv(builder, (const char **) registration->roots);
    g_strv_builder_add(builder, root);
    g_strfreev(registration->roots);
    registration->roots = g_strv_builder_end(builder);
}

static IpbRegistryEntry *
find_entry(const IpbRegistryFile *file, const char *id)
{
    for (guint i = 0; i < file->entries->len; i++)
        if (g_str_equal(ipb_registry_file_get(file, i)->registration->id, id))
            return ipb_registry_file_get(file, i);
    return NULL;
}

/* The entry for the server, which is added if there is none; NULL if there is no room. */
static IpbRegistryEntry *
provide_entry(IpbRegistryFile *file, const char *name, const IpbJson *params, GError **error)
{
    g_autofree char *id = ipb_registry_make_id(name, params);
    IpbRegistryEntry *entry = find_entry(file, id);
    if (entry != NULL)
        return entry;
    if (file->entries->len >= IPB_REGISTRY_MAX_SERVERS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%d servers are registered: remove some with ipybox servers remove",
                    IPB_REGISTRY_MAX_SERVERS);
        return NULL;
    }
    return ipb_registry_file_add(file, name, params);
}

/* One root holds one package of a name: whoever generated last has it. */
static bool
move_root(IpbRegistryFile *file, IpbRegistryEntry *to, const char *root, GError **error)
{
    for (guint i = 0; i < file->entries->len; i++) {
        IpbRegistration *other = ipb_registry_file_get(file, i)->registration;
        if (g_str_equal(other->name, to->registration->name))
            remove_root(other, root);
    }
    if (g_strv_length(to->registration->roots) >= IPB_REGISTRY_MAX_ROOTS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the server %s has packages in %d directories already: remove it with ipybox "
                    "servers remove and register it again",
                    to->registration->name, IPB_REGISTRY_MAX_ROOTS);
        return false;
    }
    add_root(to->registration, root);
    return true;
}

bool
ipb_registry_check(const char *name, const IpbJson *params, GError **error)
{
    size_t size = strspn(name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_-");
    if (size == 0 || size > MAX_NAME || name[size] != '\0') {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "a server's name is made of 1 – %d ASCII letters, digits, \"_\" and \"-\"",
                    MAX_NAME);
        return false;
    }
    g_autoptr(IpbServerParams) parsed = ipb_server_params_parse(params, error);
    return parsed != NULL;
}

static bool
check_root(const char *root, GError **error)
{
    if (root == NULL || (g_path_is_absolute(root) && g_utf8_validate(root, -1, NULL)))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "the root directory must be an absolute path in UTF-8: %s", root);
    return false;
}

IpbRegistration *
ipb_registry_add(IpbRegistry *registry, const char *name, const IpbJson *params, const char *root,
                 GError **error)
{
    return ipb_registry_add_package(registry, name, params, root, NULL, error);
}

IpbRegistration *
ipb_registry_add_package(IpbRegistry *registry, const char *name, const IpbJson *params,
                         const char *root, const char *tools, GError **error)
{
    if (!ipb_registry_check(name, params, error) || !check_root(root, error))
        return NULL;
    g_auto(IpbRegistryFile) file = {0};
    ipb_autofd lock = lock_and_load(registry, &file, error);
    if (lock < 0)
        return NULL;
    IpbRegistryEntry *entry = provide_entry(&file, name, params, error);
    if (entry == NULL || (root != NULL && !move_root(&file, entry, root, error)))
        return NULL;
    if (tools != NULL) {
        g_free(entry->registration->tools);
        entry->registration->tools = g_strdup(tools);
    }
    if (!ipb_registry_file_save(&file, registry->path, error))
        return NULL;
    return ipb_registration_copy(entry->registration);
}

IpbRegistration *
ipb_registry_get(IpbRegistry *registry, const char *id, GError **error)
{
    g_auto(IpbRegistryFile) file = {0};
    if (!load(registry, &file, error))
        return NULL;
    IpbRegistryEntry *entry = find_entry(&file, id);
    if (entry != NULL)
        return ipb_registration_copy(entry->registration);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "no MCP server with id %s is registered: see ipybox servers list", id);
    return NULL;
}

static void
free_registration(void *registration)
{
    ipb_registration_free(registration);
}

GPtrArray *
ipb_registry_list(IpbRegistry *registry, GError **error)
{
    g_auto(IpbRegistryFile) file = {0};
    if (!load(registry, &file, error))
        return NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func(free_registration);
    for (guint i = 0; i < file.entries->len; i++)
        g_ptr_array_add(list, g_steal_pointer(&ipb_registry_file_get(&file, i)->registration));
    return list;
}

/* The one that is meant, by id or by a name that only one has. */
static IpbRegistryEntry *
find_one(const IpbRegistryFile *file, const char *id_or_name, GError **error)
{
    IpbRegistryEntry *found = find_entry(file, id_or_name);
    g_autoptr(GString) ids = g_string_new(NULL);
    unsigned n_found = 0;
    for (guint i = 0; found == NULL && i < file->entries->len; i++)
        if (g_str_equal(ipb_registry_file_get(file, i)->registration->name, id_or_name))
            g_string_append_printf(ids, "%s%s", n_found++ > 0 ? ", " : "",
                                   ipb_registry_file_get(file, i)->registration->id);
    if (n_found == 1)
        return find_entry(file, ids->str);
    if (n_found > 1)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%u MCP servers are called %s: say which by its id: %s", n_found, id_or_name,
                    ids->str);
    else if (found == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no MCP server %s is registered: see ipybox servers list", id_or_name);
    return found;
}

bool
ipb_registry_remove(IpbRegistry *registry, const char *id_or_name, GError **error)
{
    g_auto(IpbRegistryFile) file = {0};
    ipb_autofd lock = lock_and_load(registry, &file, error);
    if (lock < 0)
        return false;
    IpbRegistryEntry *entry = find_one(&file, id_or_name, error);
    if (entry == NULL)
        return false;
    g_ptr_array_remove(file.entries, entry);
    return ipb_registry_file_save(&file, registry->path, error);
}
