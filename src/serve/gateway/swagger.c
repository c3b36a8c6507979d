/* SPDX-License-Identifier: Apache-2.0
 *
 * The description in Swagger; see the header.
 */
#include "serve/gateway/swagger.h"

#include <string.h>

#include <ipybox/version.h>

/* The name of the parameter at @mark, a "@" of the path. */
static const char *
name_parameter(const char *path, const char *mark)
{
    static const char *const NAMES[][2] = {
        {"/kernels/", "kernel_id"},
        {"/sessions/", "session_id"},
        {"/kernelspecs/", "name"},
        {"/kernelspecs/@/", "file"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        size_t size = strlen(NAMES[i][0]);
        if ((size_t) (mark - path) >= size && memcmp(mark - size, NAMES[i][0], size) == 0)
            return NAMES[i][1];
    }
    return "id";
}

/* "/api/kernels/@" → "/api/kernels/{kernel_id}". Caller frees. */
static char *
make_path(const char *pattern)
{
    GString *path = g_string_new(NULL);
    for (const char *at = pattern; *at != '\0'; at++) {
        if (*at == '@')
            g_string_append_printf(path, "{%s}", name_parameter(pattern, at));
        else
            g_string_append_c(path, *at);
    }
    return g_string_free(path, FALSE);
}

static void
write_parameters(const IpbHttpRoute *route, IpbJsonWriter *writer)
{
    ipb_json_key(writer, "parameters");
    ipb_json_begin_array(writer);
    for (const char *mark = route->path; (mark = strchr(mark, '@')) != NULL; mark++) {
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "name", name_parameter(route->path, mark));
        ipb_json_member_string(writer, "in", "path");
        ipb_json_member_bool(writer, "required", true);
        ipb_json_member_string(writer, "type", "string");
        ipb_json_end_object(writer);
    }
    if (route->body != IPB_HTTP_BODY_NONE) {
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "name", "body");
        ipb_json_member_string(writer, "in", "body");
        ipb_json_key(writer, "schema");
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "type", "object");
        ipb_json_end_object(writer);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
}

static void
write_operation(const IpbHttpRoute *route, IpbJsonWriter *writer)
{
    g_autofree char *method = g_ascii_strdown(route->method, -1);
    ipb_json_key(writer, method);
    ipb_json_begin_object(writer);
    write_parameters(route, writer);
    ipb_json_key(writer, "responses");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "default");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "description",
                           "JSON; errors have the members message and reason");
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}

static bool
is_first_of_path(const IpbHttpRoute *routes, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(routes[i].path, routes[index].path) == 0)
            return false;
    return true;
}

static void
write_path(const IpbHttpRoute *routes, size_t n_routes, const char *pattern, IpbJsonWriter *writer)
{
    g_autofree char *path = make_path(pattern);
    ipb_json_key(writer, path);
    ipb_json_begin_object(writer);
    for (size_t i = 0; i < n_routes; i++)
        if (strcmp(routes[i].path, pattern) == 0)
            write_operation(&routes[i], writer);
    ipb_json_end_object(writer);
}

void
ipb_gateway_swagger_write(const IpbHttpRoute *routes, size_t n_routes, const char *base_path,
                          IpbJsonWriter *writer)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "swagger", "2.0");
    ipb_json_key(writer, "info");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "title", "ipybox gateway");
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_end_object(writer);
    ipb_json_member_string(writer, "basePath", base_path != NULL ? base_path : "/");
    ipb_json_key(writer, "paths");
    ipb_json_begin_object(writer);
    for (size_t i = 0; i < n_routes; i++)
        if (is_first_of_path(routes, i))
            write_path(routes, n_routes, routes[i].path, writer);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}
