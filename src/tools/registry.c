/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry; see the header. Readers take no lock, because the file is replaced as a whole.
 * Writers hold flock on servers.lock from reading to replacing. Nothing is kept in memory between
 * calls.
 */
#include "tools/registry.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file-lock.h"
#include "base/file.h"
#include "json/writer.h"
#include "mcp/server-params.h"

#define LOCK_NAME "servers.lock"
#define VERSION 1
#define MAX_FILE (16 * 1024 * 1024)
#define MAX_SERVERS 1000
#define MAX_ROOTS 1000
#define MAX_NAME 128
#define ID_DIGITS 32
#define LOCK_TIMEOUT_MS 10000

struct IpbRegistry {
    char *directory;
    char *path;
    char *lock_path;
};

/* A registration and the object that it was read from, which may have unknown members. */
typedef struct {
    IpbRegistration *registration;
    const IpbJson *source; /* or NULL */
} Entry;

typedef struct {
    IpbJsonDoc *document; /* NULL: there was no file */
    GPtrArray *entries;   /* Entry, owned */
} File;

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
    registry->path = g_build_filename(registry->directory, IPB_REGISTRY_FILE, NULL);
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

char *
ipb_registry_make_id(const char *name, const IpbJson *params)
{
    g_autofree char *canonical = ipb_server_params_canonical(params);
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(checksum, (const guchar *) name, (gssize) strlen(name) + 1);
    g_checksum_update(checksum, (const guchar *) canonical, -1);
    return g_strndup(g_checksum_get_string(checksum), ID_DIGITS);
}

static char *
to_text(const IpbJson *value)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_value(writer, value);
    return ipb_json_writer_finish(writer, NULL);
}

static void
free_entry(void *data)
{
    Entry *entry = data;
    ipb_registration_free(entry->registration);
    g_free(entry);
}

static void
clear_file(File *file)
{
    g_clear_pointer(&file->entries, g_ptr_array_unref);
    g_clear_pointer(&file->document, ipb_json_doc_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(File, clear_file)

static Entry *
get_entry(const File *file, guint i)
{
    return g_ptr_array_index(file->entries, i);
}

static Entry *
add_entry(File *file, const char *name, const IpbJson *params)
{
    Entry *entry = g_new0(Entry, 1);
    entry->registration = g_new0(IpbRegistration, 1);
    entry->registration->id = ipb_registry_make_id(name, params);
    entry->registration->name = g_strdup(name);
    entry->registration->params_json = to_text(params);
    entry->registration->roots = g_new0(char *, 1);
    g_ptr_array_add(file->entries, entry);
    return entry;
}

/* --- reading the file --- */

/* The file says which commands are run, so no other user may be able to write it. */
static bool
check_owner(const char *path, GError **error)
{
    struct stat info;
    if (stat(path, &info) < 0) {
        /* a path below /dev/null, the home of some users */
        if (errno == ENOENT || errno == ENOTDIR)
            return true;
        return ipb_error_set_errno(error, errno, "cannot read the attributes of %s", path);
    }
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "%s is neither a file nor a directory: move it away", path);
        return false;
    }
    if ((info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return true;
    g_set_error(
        error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
        "%s can be written by others, who could register commands to be run: check what is in "
        "it, then make it yours alone with chown and chmod go-w",
        path);
    return false;
}

static bool
corrupt(const char *path, GError **error, const char *what)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "the registry %s cannot be read: %s. Correct it, or move it away and register the "
                "servers again",
                path, what);
    return false;
}

/* NULL: it is not an array of strings. */
static char **
read_roots(const IpbJson *roots)
{
    if (!ipb_json_is(roots, IPB_JSON_ARRAY) || ipb_json_length(roots) > MAX_ROOTS)
        return NULL;
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    IPB_JSON_FOREACH (root, roots) {
        size_t size;
        const char *text = ipb_json_string(root, &size);
        if (text == NULL || strlen(text) != size)
            return NULL;
        g_strv_builder_add(builder, text);
    }
    return g_strv_builder_end(builder);
}

/* Returns NULL, or what is wrong with the object. The id is computed again, because an id that was
 * written by hand may mean another server. */
static const char *
read_entry(const IpbJson *object, File *file)
{
    const char *name = ipb_json_get_string(object, "name");
    const IpbJson *params = ipb_json_get(object, "params");
    if (name == NULL)
        return "a server has no name";
    if (!ipb_json_is(params, IPB_JSON_OBJECT))
        return "the params of a server are not an object";
    g_auto(GStrv) roots = read_roots(ipb_json_get(object, "roots"));
    if (roots == NULL)
        return "the roots of a server are not a list of strings";
    Entry *entry = add_entry(file, name, params);
    entry->source = object;
    g_strfreev(entry->registration->roots);
    entry->registration->roots = g_steal_pointer(&roots);
    entry->registration->tools = g_strdup(ipb_json_get_string(object, "tools"));
    return NULL;
}

static bool
parse_file(const char *path, const char *text, size_t size, File *file, GError **error)
{
    g_autoptr(GError) cause = NULL;
    file->document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, &cause);
    if (file->document == NULL)
        return corrupt(path, error, cause->message);
    const IpbJson *root = ipb_json_root(file->document);
    const IpbJson *servers = ipb_json_get(root, "servers");
    int64_t version;
    if (!ipb_json_get_int64(root, "version", &version) || version != VERSION)
        return corrupt(path, error,
                       "another version of ipybox wrote it: its format is not version 1");
    if (!ipb_json_is(servers, IPB_JSON_ARRAY) || ipb_json_length(servers) > MAX_SERVERS)
        return corrupt(path, error, "\"servers\" is not a list of at most 1000 servers");
    IPB_JSON_FOREACH (server, servers) {
        const char *problem = read_entry(server, file);
        if (problem != NULL)
            return corrupt(path, error, problem);
    }
    return true;
}

static bool
load_file(const char *directory, const char *path, File *ret_file, GError **error)
{
    g_auto(File) file = {NULL, g_ptr_array_new_with_free_func(free_entry)};
    g_autofree char *text = NULL;
    size_t size;
    g_autoptr(GError) failure = NULL;
    if (!check_owner(directory, error) || !check_owner(path, error))
        return false;
    if (ipb_file_read(path, MAX_FILE, &text, &size, &failure)) {
        if (!parse_file(path, text, size, &file, error))
            return false;
    } else if (!g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return false;
    }
    *ret_file = file;
    file = (File){0};
    return true;
}

/* --- writing the file --- */

static bool
is_ours(const IpbJson *member, const char *const *names)
{
    return g_strv_contains(names, ipb_json_name(member, NULL));
}

/* Writes the members of @source that are not ours. */
static void
write_others(IpbJsonWriter *writer, const IpbJson *source, const char *const *ours)
{
    IPB_JSON_FOREACH (member, source) {
        size_t size;
        const char *name = ipb_json_name(member, &size);
        if (!is_ours(member, ours)) {
            ipb_json_key_n(writer, name, size);
            ipb_json_write_value(writer, member);
        }
    }
}

static void
write_entry(IpbJsonWriter *writer, const Entry *entry)
{
    static const char *const OURS[] = {"id", "name", "params", "roots", "tools", NULL};
    ipb_json_begin_object(writer);
    ipb_registration_write(entry->registration, writer);
    write_others(writer, entry->source, OURS);
    ipb_json_end_object(writer);
}

static bool
save_file(const File *file, const char *path, GError **error)
{
    static const char *const OURS[] = {"version", "servers", NULL};
    g_autoptr(IpbJsonWriter) writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "version", VERSION);
    ipb_json_key(writer, "servers");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < file->entries->len; i++)
        write_entry(writer, get_entry(file, i));
    ipb_json_end_array(writer);
    if (file->document != NULL)
        write_others(writer, ipb_json_root(file->document), OURS);
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(g_steal_pointer(&writer), &size);
    if (size > MAX_FILE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the registry %s would be larger than %d bytes", path, MAX_FILE);
        return false;
    }
    return ipb_file_write_atomic(path, text, size, 0600, error);
}

static bool
load(const IpbRegistry *registry, File *ret_file, GError **error)
{
    return load_file(registry->directory, registry->path, ret_file, error);
}

/* Takes the lock and reads the file. -1: it failed. */
static int
lock_and_load(const IpbRegistry *registry, File *ret_file, GError **error)
{
    if (!ipb_file_make_directories(registry->directory, 0700, error))
        return -1;
    ipb_autofd lock = ipb_file_lock(registry->lock_path, LOCK_TIMEOUT_MS, error);
    if (lock < 0 || !load(registry, ret_file, error))
        return -1;
    return ipb_fd_steal(&lock);
}

/* --- the registry --- */

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

/* Lists are short, so copying them is simpler than keeping builders. */
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

static Entry *
find_entry(const File *file, const char *id)
{
    for (guint i = 0; i < file->entries->len; i++)
        if (g_str_equal(get_entry(file, i)->registration->id, id))
            return get_entry(file, i);
    return NULL;
}

/* The entry for the server, which is added if there is none. NULL: there is no room. */
static Entry *
provide_entry(File *file, const char *name, const IpbJson *params, GError **error)
{
    g_autofree char *id = ipb_registry_make_id(name, params);
    Entry *entry = find_entry(file, id);
    if (entry != NULL)
        return entry;
    if (file->entries->len >= MAX_SERVERS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%d servers are registered: remove some with ipybox servers remove",
                    MAX_SERVERS);
        return NULL;
    }
    return add_entry(file, name, params);
}

/* A root has one package of a name: the one that was generated last. */
static bool
move_root(File *file, Entry *to, const char *root, GError **error)
{
    for (guint i = 0; i < file->entries->len; i++) {
        IpbRegistration *other = get_entry(file, i)->registration;
        if (g_str_equal(other->name, to->registration->name))
            remove_root(other, root);
    }
    if (g_strv_length(to->registration->roots) >= MAX_ROOTS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the server %s has packages in %d directories already: remove it with ipybox "
                    "servers remove and register it again",
                    to->registration->name, MAX_ROOTS);
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
    g_auto(File) file = {0};
    ipb_autofd lock = lock_and_load(registry, &file, error);
    if (lock < 0)
        return NULL;
    Entry *entry = provide_entry(&file, name, params, error);
    if (entry == NULL || (root != NULL && !move_root(&file, entry, root, error)))
        return NULL;
    if (tools != NULL) {
        g_free(entry->registration->tools);
        entry->registration->tools = g_strdup(tools);
    }
    if (!save_file(&file, registry->path, error))
        return NULL;
    return ipb_registration_copy(entry->registration);
}

IpbRegistration *
ipb_registry_get(IpbRegistry *registry, const char *id, GError **error)
{
    g_auto(File) file = {0};
    if (!load(registry, &file, error))
        return NULL;
    Entry *entry = find_entry(&file, id);
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
    g_auto(File) file = {0};
    if (!load(registry, &file, error))
        return NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func(free_registration);
    for (guint i = 0; i < file.entries->len; i++)
        g_ptr_array_add(list, g_steal_pointer(&get_entry(&file, i)->registration));
    return list;
}

/* Finds the entry by id, or by a name that only one entry has. */
static Entry *
find_one(const File *file, const char *id_or_name, GError **error)
{
    Entry *found = find_entry(file, id_or_name);
    g_autoptr(GString) ids = g_string_new(NULL);
    unsigned n_found = 0;
    for (guint i = 0; found == NULL && i < file->entries->len; i++)
        if (g_str_equal(get_entry(file, i)->registration->name, id_or_name))
            g_string_append_printf(ids, "%s%s", n_found++ > 0 ? ", " : "",
                                   get_entry(file, i)->registration->id);
    if (n_found == 1)
        return find_entry(file, ids->str);
    if (n_found > 1)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%u MCP servers are called %s: use the id of one of them: %s", n_found,
                    id_or_name, ids->str);
    else if (found == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no MCP server %s is registered: see ipybox servers list", id_or_name);
    return found;
}

bool
ipb_registry_remove(IpbRegistry *registry, const char *id_or_name, GError **error)
{
    g_auto(File) file = {0};
    ipb_autofd lock = lock_and_load(registry, &file, error);
    if (lock < 0)
        return false;
    Entry *entry = find_one(&file, id_or_name, error);
    if (entry == NULL)
        return false;
    g_ptr_array_remove(file.entries, entry);
    return save_file(&file, registry->path, error);
}
