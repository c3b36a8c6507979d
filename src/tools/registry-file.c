/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes the registry's file; see the header.
 */
#include "tools/registry-file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "json/writer.h"

#define VERSION 1
#define MAX_FILE (16 * 1024 * 1024)

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
    IpbRegistryEntry *entry = data;
    ipb_registration_free(entry->registration);
    g_free(entry);
}

void
ipb_registry_file_clear(IpbRegistryFile *file)
{
    g_clear_pointer(&file->entries, g_ptr_array_unref);
    g_clear_pointer(&file->document, ipb_json_doc_free);
}

IpbRegistryEntry *
ipb_registry_file_get(const IpbRegistryFile *file, guint i)
{
    return g_ptr_array_index(file->entries, i);
}

IpbRegistryEntry *
ipb_registry_file_add(IpbRegistryFile *file, const char *name, const IpbJson *params)
{
    IpbRegistryEntry *entry = g_new0(IpbRegistryEntry, 1);
    entry->registration = g_new0(IpbRegistration, 1);
    entry->registration->id = ipb_registry_make_id(name, params);
    entry->registration->name = g_strdup(name);
    entry->registration->params_json = to_text(params);
    entry->registration->roots = g_new0(char *, 1);
    g_ptr_array_add(file->entries, entry);
    return entry;
}

/* Reading */

/* The file says which commands are run: nobody else may be able to write it. */
static bool
check_owner(const char *path, GError **error)
{
    struct stat info;
    if (stat(path, &info) < 0) {
        if (errno == ENOENT || errno == ENOTDIR) /* below /dev/null, the home of some users */
            return true;
        return ipb_error_set_errno(error, errno, "cannot look at %s", path);
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

/* NULL if it is no array of strings. */
static char **
read_roots(const IpbJson *roots)
{
    if (!ipb_json_is(roots, IPB_JSON_ARRAY) || ipb_json_length(roots) > IPB_REGISTRY_MAX_ROOTS)
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

/* NULL, or what is wrong with it. The id is recomputed: one written by hand would stand for
 * something else. */
static const char *
read_entry(const IpbJson *object, IpbRegistryFile *file)
{
    const char *name = ipb_json_get_string(object, "name");
    const IpbJson *params = ipb_json_get(object, "params");
    if (name == NULL)
        return "a server has no name";
    if (!ipb_json_is(params, IPB_JSON_OBJECT))
        return "the params of a server are no object";
    g_auto(GStrv) roots = read_roots(ipb_json_get(object, "roots"));
    if (roots == NULL)
        return "the roots of a server are no list of strings";
    IpbRegistryEntry *entry = ipb_registry_file_add(file, name, params);
    entry->source = object;
    g_strfreev(entry->registration->roots);
    entry->registration->roots = g_steal_pointer(&roots);
    entry->registration->tools = g_strdup(ipb_json_get_string(object, "tools"));
    return NULL;
}

static bool
parse_file(const char *path, const char *text, size_t size, IpbRegistryFile *file, GError **error)
{
    g_autoptr(GError) cause = NULL;
    file->document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, &cause);
    if (file->document == NULL)
        return corrupt(path, error, cause->message);
    const IpbJson *root = ipb_json_root(file->document);
    const IpbJson *servers = ipb_json_get(root, "servers");
    int64_t version;
    if (!ipb_json_get_int64(root, "version", &version) || version != VERSION)
        return corrupt(path, error, "its version is not 1, another ipybox wrote it");
    if (!ipb_json_is(servers, IPB_JSON_ARRAY) ||
        ipb_json_length(servers) > IPB_REGISTRY_MAX_SERVERS)
        return corrupt(path, error, "\"servers\" is no list of at most 1000 servers");
    IPB_JSON_FOREACH (server, servers) {
        const char *problem = read_entry(server, file);
        if (problem != NULL)
            return corrupt(path, error, problem);
    }
    return true;
}

bool
ipb_registry_file_load(const char *directory, const char *path, IpbRegistryFile *ret_file,
                       GError **error)
{
    g_auto(IpbRegistryFile) file = {NULL, g_ptr_array_new_with_free_func(free_entry)};
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
    file = (IpbRegistryFile){0};
    return true;
}

/* Writing */

static bool
is_ours(const IpbJson *member, const char *const *names)
{
    return g_strv_contains(names, ipb_json_name(member, NULL));
}

/* The members of @source that we do not write ourselves. */
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
write_entry(IpbJsonWriter *writer, const IpbRegistryEntry *entry)
{
    static const char *const OURS[] = {"id", "name", "params", "roots", "tools", NULL};
    ipb_json_begin_object(writer);
    ipb_registration_write(entry->registration, writer);
    write_others(writer, entry->source, OURS);
    ipb_json_end_object(writer);
}

bool
ipb_registry_file_save(const IpbRegistryFile *file, const char *path, GError **error)
{
    static const char *const OURS[] = {"version", "servers", NULL};
    g_autoptr(IpbJsonWriter) writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "version", VERSION);
    ipb_json_key(writer, "servers");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < file->entries->len; i++)
        write_entry(writer, ipb_registry_file_get(file, i));
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
