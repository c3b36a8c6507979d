/* SPDX-License-Identifier: Apache-2.0
 *
 * The description in Swagger; see the header.
 */
#include "serve/gateway/swagger.h"

#include <string.h>

#include <ipybox/version.h>

/* The name of the parameter after this segment of a path. No path has two of them. */
static const char *
name_parameter(const char *path)
{
    static const char *const NAMES[][2] = {
        {"/kernels/", "kernel_id"},
        {"/sessions/", "session_id"},
        {"/kernelspecs/", "name"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++)
        if (strstr(path, NAMES[i][0]) != NULL)
            return NAMES[i][1];
    return "id";
}

/* "/api/kernels/@" → "/api/kernels/{kernel_id}". Caller frees. */
static char *
make_path(const char *pattern)
{
    const char *mark = strchr(pattern, '@');
    if (mark == NULL)
        return g_strdup(pattern);
    return g_strdup_printf("%.*s{%s}%s", (int) (mark - pattern), pattern, name_parameter(pattern),
                           mark + 1);
}

static void
write_parameters(const IpbHttpRoute *route, IpbJsonWriter *writer)
{
    ipb_json_key(writer, "parameters");
    ipb_json_begin_array(writer);
    if (strchr(route->path, '@') != NULL) {
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "name", name_parameter(route->path));
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
