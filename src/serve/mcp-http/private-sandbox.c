/* SPDX-License-Identifier: Apache-2.0
 *
 * Configurations of sandboxes for principals; see the header. It is a file and not an option of
 * sessions, because servers that a client registers get the configuration of the session, too.
 */
#include "serve/mcp-http/private-sandbox.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "json/writer.h"
#include "sandbox/policy.h"

#define MAX_CONFIGURATION (1024 * 1024)
#define FILESYSTEM "filesystem"
#define DENY_READ "denyRead"
#define ALLOW_READ "allowRead"
#define DENY_WRITE "denyWrite"
#define DIRECTORY "serve"

/* ipb_sandbox_policy_default(). Several principals would share IPython's directories. */
#define DEFAULT(directories)                                                                       \
    "{\"allowPty\":true,\"filesystem\":{\"denyRead\":[\".env\"],\"allowWrite\":[\".\"" directories \
    "],\"denyWrite\":[]},\"network\":{\"allowedDomains\":[],\"deniedDomains\":[],"                 \
    "\"allowLocalBinding\":true}}"
#define DEFAULT_OF_ONE DEFAULT(",\"~/Library/Jupyter\",\"~/.ipython\"")
#define DEFAULT_OF_SEVERAL DEFAULT("")

static void
copy_members(IpbJsonWriter *writer, const IpbJson *object, const char *const *without)
{
    IPB_JSON_FOREACH (member, object) {
        size_t size;
        const char *name = ipb_json_name(member, &size);
        if (g_strv_contains(without, name))
            continue;
        ipb_json_key_n(writer, name, size);
        ipb_json_write_value(writer, member);
    }
}

static void
write_list(IpbJsonWriter *writer, const IpbJson *object, const char *name, const char *const *paths)
{
    ipb_json_key(writer, name);
    ipb_json_begin_array(writer);
    IPB_JSON_FOREACH (item, ipb_json_get(object, name))
        ipb_json_write_value(writer, item);
    for (; *paths != NULL; paths++)
        ipb_json_write_string(writer, *paths);
    ipb_json_end_array(writer);
}

/* @workspace NULL: @root is the workspace. */
static char *
make_text(const IpbJson *config, const char *root, const char *workspace, const char *const *hidden,
          const char *const *fixed)
{
    static const char *const OUTER[] = {FILESYSTEM, NULL};
    static const char *const INNER[] = {DENY_READ, ALLOW_READ, DENY_WRITE, NULL};
    const char *const allowed[] = {workspace, NULL};
    const IpbJson *filesystem = ipb_json_get(config, FILESYSTEM);
    g_autoptr(GPtrArray) denied = g_ptr_array_new();
    if (workspace != NULL)
        g_ptr_array_add(denied, (char *) root);
    for (; *hidden != NULL; hidden++)
        g_ptr_array_add(denied, (char *) *hidden);
    g_ptr_array_add(denied, NULL);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    copy_members(writer, config, OUTER);
    ipb_json_key(writer, FILESYSTEM);
    ipb_json_begin_object(writer);
    copy_members(writer, filesystem, INNER);
    write_list(writer, filesystem, DENY_READ, (const char *const *) denied->pdata);
    write_list(writer, filesystem, ALLOW_READ, allowed);
    write_list(writer, filesystem, DENY_WRITE, fixed);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static bool
check_path(const char *path, GError **error)
{
    if (strpbrk(path, "*?[]{}\\") == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "%s cannot be kept from sandboxes, because its name has one of * ? [ ] { } \\: "
                "choose another name",
                path);
    return false;
}

static bool
check_paths(const char *const *paths, GError **error)
{
    for (; *paths != NULL; paths++)
        if (!check_path(*paths, error))
            return false;
    return true;
}

/* The text of the configuration at @path, which is valid. Caller frees. */
static char *
read_config(const char *path, bool is_of_one, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (path == NULL)
        return g_strdup(is_of_one ? DEFAULT_OF_ONE : DEFAULT_OF_SEVERAL);
    if (!ipb_file_read_to_end(path, MAX_CONFIGURATION, &text, &size, error))
        return NULL;
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_parse(text, size, path, error);
    return policy != NULL ? g_steal_pointer(&text) : NULL;
}

/* Several servers may have the same state directory. */
static char *
make_path(const char *state_dir, const char *root, const char *name, const char *const *hidden)
{
    g_autofree char *list = g_strjoinv("\n", (char **) hidden);
    g_autofree char *text = g_strdup_printf("%s\n%s", root, list);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
    g_autofree char *file = name != NULL ? g_strdup_printf("%.16s-%s.json", digest, name)
                                         : g_strdup_printf("%.16s.json", digest);
    return g_build_filename(state_dir, DIRECTORY, file, NULL);
}

char *
ipb_private_sandbox_write(const char *state_dir, const char *root, const char *name,
                          const char *config, const char *const *hidden, const char *const *fixed,
                          GError **error)
{
    if (!check_paths(hidden, error) || !check_paths(fixed, error))
        return NULL;
    if (name != NULL && !check_path(root, error))
        return NULL;
    g_autofree char *given = read_config(config, name == NULL, error);
    g_autoptr(IpbJsonDoc) doc =
        given != NULL ? ipb_json_parse(given, strlen(given), &IPB_JSON_LIMITS_SMALL, error) : NULL;
    if (doc == NULL)
        return NULL;
    g_autofree char *workspace = name != NULL ? g_build_filename(root, name, NULL) : NULL;
    g_autofree char *text = make_text(ipb_json_root(doc), root, workspace, hidden, fixed);
    g_autofree char *path = make_path(state_dir, root, name, hidden);
    g_autofree char *directory = g_path_get_dirname(path);
    if (!ipb_file_make_directories(directory, 0700, error) ||
        !ipb_file_write_atomic(path, text, strlen(text), 0600, error))
        return NULL;
    return g_steal_pointer(&path);
}
