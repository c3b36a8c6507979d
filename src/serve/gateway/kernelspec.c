/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernelspec; see the header.
 */
#include "serve/gateway/kernelspec.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "json/json.h"

#define MAX_NAME 100
#define MAX_KERNEL_JSON (64u * 1024)
#define MAX_ARGUMENTS 64
#define MAX_VARIABLES 100
#define MAX_LOGO (256u * 1024)

/* Others of Jupyter's resources would run in the client's page: kernel.js, and scripts in SVG. */
static const char *const LOGOS[] = {"logo-32x32", "logo-64x64"};
static const char PNG[] = "\x89PNG\r\n\x1a\n";

bool
ipb_gateway_kernelspec_check_name(const char *name, GError **error)
{
    size_t size = strlen(name);
    if (size > 0 && size <= MAX_NAME && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "a name has at most %d letters, digits, \".\", \"_\" and \"-\", not \"%.*s\"",
                MAX_NAME, MAX_NAME, name);
    return false;
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool
check_owner(const IpbBeneath *directory, const char *name, GError **error)
{
    struct stat status;
    int flags = AT_SYMLINK_NOFOLLOW | (*name == '\0' ? AT_EMPTY_PATH : 0);
    const char *path = ipb_beneath_path(directory);
    if (fstatat(ipb_beneath_fd(directory), name, &status, flags) < 0) {
        if (errno == ENOENT) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "there is no %s/%s", path,
                        name);
            return false;
        }
        return ipb_error_set_errno(error, errno, "cannot look at %s/%s", path, name);
    }
    bool is_ours = status.st_uid == 0 || status.st_uid == geteuid();
    if (is_ours && (S_ISLNK(status.st_mode) || (status.st_mode & S_IWOTH) == 0))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "%s%s%s %s, and what is in it would be run: it must be yours or root's, and others "
                "must not be able to write it",
                path, *name != '\0' ? "/" : "", name,
                is_ours ? "can be written by every user" : "belongs to another user");
    return false;
}

static bool
is_ours(const IpbJson *argv)
{
    const IpbJson *program = ipb_json_is(argv, IPB_JSON_ARRAY) ? ipb_json_first(argv) : NULL;
    const IpbJson *verb = program != NULL ? ipb_json_next(program) : NULL;
    const char *text = program != NULL ? ipb_json_string(program, NULL) : NULL;
    g_autofree char *base = text != NULL ? g_path_get_basename(text) : NULL;
    return g_strcmp0(base, "ipybox") == 0 && verb != NULL &&
           g_strcmp0(ipb_json_string(verb, NULL), "kernel") == 0;
}

/* NULL: it is no text, or has a NUL. */
static const char *
get_text(const IpbJson *value)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    return text != NULL && strlen(text) == size ? text : NULL;
}

/* Those after the verb, with a NULL at the end. */
static bool
read_arguments(IpbGatewayKernelspec *spec, const IpbJson *argv, GError **error)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    bool is_valid = ipb_json_length(argv) <= MAX_ARGUMENTS;
    for (const IpbJson *item = ipb_json_next(ipb_json_next(ipb_json_first(argv)));
         is_valid && item != NULL; item = ipb_json_next(item)) {
        const char *argument = get_text(item);
        is_valid = argument != NULL;
        if (is_valid)
            g_strv_builder_add(builder, argument);
    }
    if (is_valid)
        spec->arguments = g_strv_builder_end(builder);
    else
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s: \"argv\" must have at most %d strings, without NUL characters", spec->path,
                    MAX_ARGUMENTS);
    return is_valid;
}

IpbGatewayKernelspec *
ipb_gateway_kernelspec_read(const IpbBeneath *folder, const char *name, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_gateway_kernelspec_check_name(name, error) || !check_owner(folder, "", error) ||
        !check_owner(folder, name, error))
        return NULL;
    g_autoptr(IpbBeneath) directory = ipb_beneath_descend(folder, name, 0, error);
    if (directory == NULL || !check_owner(directory, "kernel.json", error) ||
        !ipb_beneath_read(directory, "kernel.json", MAX_KERNEL_JSON, &text, &size, error))
        return NULL;
    g_autofree char *path = g_build_filename(ipb_beneath_path(directory), "kernel.json", NULL);
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    if (doc == NULL) {
        g_prefix_error(error, "%s: ", path);
        (*error)->code = IPYBOX_ERROR_INVALID;
        return NULL;
    }
    if (!ipb_json_is(ipb_json_root(doc), IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s is not a JSON object", path);
        return NULL;
    }
    g_autoptr(IpbGatewayKernelspec) spec = g_new0(IpbGatewayKernelspec, 1);
    spec->name = g_ascii_strdown(name, -1);
    spec->path = g_steal_pointer(&path);
    spec->directory = g_steal_pointer(&directory);
    spec->doc = g_steal_pointer(&doc);
    const IpbJson *argv = ipb_json_get(ipb_json_root(spec->doc), "argv");
    if (is_ours(argv) && !read_arguments(spec, argv, error))
        return NULL;
    return g_steal_pointer(&spec);
}

void
ipb_gateway_kernelspec_free(IpbGatewayKernelspec *spec)
{
    if (spec == NULL)
        return;
    g_free(spec->name);
    g_free(spec->path);
    g_strfreev(spec->arguments);
    ipb_beneath_free(spec->directory);
    ipb_json_doc_free(spec->doc);
    g_free(spec);
}

const char *
ipb_gateway_kernelspec_title(const IpbGatewayKernelspec *spec)
{
    return ipb_json_get_string(ipb_json_root(spec->doc), "display_name");
}

/* "${NAME}" would be a variable of the front end, in Jupyter. */
static bool
is_variable(const char *name, size_t size, const char *value)
{
    return name != NULL && size > 0 && strlen(name) == size && strchr(name, '=') == NULL &&
           value != NULL && strchr(value, '$') == NULL;
}

char **
ipb_gateway_kernelspec_env(const IpbGatewayKernelspec *spec, GError **error)
{
    const IpbJson *env = ipb_json_get(ipb_json_root(spec->doc), "env");
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    bool is_valid = env == NULL || ipb_json_is(env, IPB_JSON_NULL) ||
                    (ipb_json_is(env, IPB_JSON_OBJECT) && ipb_json_length(env) <= MAX_VARIABLES);
    IPB_JSON_FOREACH (item, is_valid ? env : NULL) {
        size_t size;
        const char *name = ipb_json_name(item, &size);
        const char *value = get_text(item);
        is_valid = is_valid && is_variable(name, size, value);
        if (is_valid) {
            g_autofree char *entry = g_strdup_printf("%s=%s", name, value);
            g_strv_builder_add(builder, entry);
        }
    }
    if (is_valid)
        return g_strv_builder_end(builder);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "%s: \"env\" must be an object with at most %d strings, without \"$\"", spec->path,
                MAX_VARIABLES);
    return NULL;
}

/* --- what clients get ------------------------------------------------------------------------- */

static bool
is_logo(const char *file)
{
    for (size_t i = 0; i < G_N_ELEMENTS(LOGOS); i++)
        if (g_str_has_prefix(file, LOGOS[i]) && strcmp(file + strlen(LOGOS[i]), ".png") == 0)
            return true;
    return false;
}

GBytes *
ipb_gateway_kernelspec_read_logo(const IpbGatewayKernelspec *spec, const char *file, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!is_logo(file)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "kernelspec %s has no resource %s",
                    spec->name, file);
        return NULL;
    }
    if (!ipb_beneath_read(spec->directory, file, MAX_LOGO, &text, &size, error))
        return NULL;
    if (size >= strlen(PNG) && memcmp(text, PNG, strlen(PNG)) == 0)
        return g_bytes_new_take(g_steal_pointer(&text), size);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s/%s is not a PNG file",
                ipb_beneath_path(spec->directory), file);
    return NULL;
}

static void
write_resources(const IpbGatewayKernelspec *spec, const char *base_path, IpbJsonWriter *writer)
{
    for (size_t i = 0; i < G_N_ELEMENTS(LOGOS); i++) {
        g_autofree char *file = g_strconcat(LOGOS[i], ".png", NULL);
        g_autoptr(GBytes) logo = ipb_gateway_kernelspec_read_logo(spec, file, NULL);
        if (logo == NULL)
            continue;
        g_autofree char *url = g_strdup_printf(
            "%s/kernelspecs/%s/%s", base_path != NULL ? base_path : "", spec->name, file);
        ipb_json_member_string(writer, LOGOS[i], url);
    }
}

/* @metadata: may be NULL. @spec: has the logos; or NULL. */
static void
write_spec(const char *name, const char *title, const IpbJson *metadata,
           const IpbGatewayKernelspec *spec, const char *base_path, IpbJsonWriter *writer)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", name);
    ipb_json_key(writer, "spec");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "argv"); /* only the gateway starts kernels */
    ipb_json_begin_array(writer);
    ipb_json_end_array(writer);
    ipb_json_member_object(writer, "env", NULL);
    ipb_json_member_string(writer, "display_name", title);
    ipb_json_member_string(writer, "language", "python");
    ipb_json_member_string(writer, "interrupt_mode", "message");
    ipb_json_member_object(writer, "metadata", metadata);
    ipb_json_end_object(writer);
    ipb_json_key(writer, "resources");
    ipb_json_begin_object(writer);
    if (spec != NULL)
        write_resources(spec, base_path, writer);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}

void
ipb_gateway_kernelspec_describe(const IpbGatewayKernelspec *spec, const char *base_path,
                                IpbJsonWriter *writer)
{
    const char *title = ipb_gateway_kernelspec_title(spec);
    write_spec(spec->name, title != NULL ? title : spec->name,
               ipb_json_get(ipb_json_root(spec->doc), "metadata"), spec, base_path, writer);
}

void
ipb_gateway_kernelspec_describe_own(const char *name, IpbJsonWriter *writer)
{
    write_spec(name, "Python 3 (ipybox)", NULL, NULL, NULL, writer);
}
