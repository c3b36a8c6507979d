/* SPDX-License-Identifier: Apache-2.0
 *
 * The REST half of the gateway: names, statuses and members are Jupyter's.
 */
#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "json/writer.h"
#include "serve/gateway/private.h"

/* Variables for a kernel in one request. */
#define MAX_ENV 100
#define ENV_PREFIX "KERNEL_"

static void
answer_json(IpbHttpRequest *request, unsigned status, IpbJsonWriter *writer)
{
    ipb_http_request_answer_text(request, status, ipb_json_writer_finish(writer, NULL));
}

static unsigned
status_of(const GError *error)
{
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT))
        return 403; /* as Jupyter's gateway has it */
    bool is_of_client = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID) ||
                        g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    return is_of_client ? 400 : 500;
}

/* The kernel that the path names; NULL: answered. */
static IpbGatewayKernel *
find_kernel(IpbGateway *gateway, IpbHttpRequest *request)
{
    const char *id = ipb_http_request_parameter(request, 0);
    IpbGatewayKernel *kernel = ipb_gateway_find_kernel(gateway, id);
    if (kernel == NULL) {
        g_autofree char *message = g_strdup_printf("Kernel does not exist: %s", id);
        ipb_http_request_answer_error(request, 404, message);
    }
    return kernel;
}

/* --- what there is ----------------------------------------------------------------------------- */

static void
on_get_api(IpbHttpRequest *request, void *data)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_end_object(writer);
    answer_json(request, 200, writer);
}

static void
on_get_specs(IpbHttpRequest *request, void *data)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_specs_describe(writer);
    answer_json(request, 200, writer);
}

static void
on_get_spec(IpbHttpRequest *request, void *data)
{
    const char *name = ipb_http_request_parameter(request, 0);
    if (strcmp(name, IPB_GATEWAY_SPEC) != 0) {
        g_autofree char *message = g_strdup_printf("Kernel spec %s not found", name);
        ipb_http_request_answer_error(request, 404, message);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_specs_describe_one(writer);
    answer_json(request, 200, writer);
}

static void
on_get_kernels(IpbHttpRequest *request, void *data)
{
    IpbGateway *gateway = data;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < gateway->kernels->len; i++) {
        IpbGatewayKernel *kernel = g_ptr_array_index(gateway->kernels, i);
        if (!ipb_gateway_kernel_is_closing(kernel))
            ipb_gateway_kernel_describe(kernel, writer);
    }
    ipb_json_end_array(writer);
    answer_json(request, 200, writer);
}

static void
answer_kernel(IpbHttpRequest *request, const IpbGatewayKernel *kernel)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_kernel_describe(kernel, writer);
    answer_json(request, 200, writer);
}

static void
on_get_kernel(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = find_kernel(data, request);
    if (kernel != NULL)
        answer_kernel(request, kernel);
}

/* --- starting ---------------------------------------------------------------------------------- */

/* Jupyter's clients send what they are told of their environment; as in Jupyter's gateway, only KERNEL_… reaches kernels. */
static char **
read_env(const IpbJson *env)
{
    g_autoptr(GPtrArray) entries = g_ptr_array_new();
    IPB_JSON_FOREACH (item, env) {
        size_t size;
        const char *name = ipb_json_name(item, &size);
        const char *value = name != NULL ? ipb_json_get_string(env, name) : NULL;
        if (value != NULL && strlen(name) == size && g_str_has_prefix(name, ENV_PREFIX) &&
            strchr(name, '=') == NULL && entries->len < MAX_ENV)
            g_ptr_array_add(entries, g_strdup_printf("%s=%s", name, value));
    }
    g_ptr_array_add(entries, NULL);
    return (char **) g_ptr_array_steal(entries, NULL);
}

/* Without a body, or with an empty one, everything is the default. */
static bool
parse_start(IpbSpan body, IpbJsonDoc **ret_doc, char ***ret_env, GError **error)
{
    g_autoptr(IpbJsonDoc) doc = NULL;
    if (body.size > 0) {
        doc = ipb_json_parse(body.start, body.size, &IPB_JSON_LIMITS_SMALL, error);
        if (doc == NULL) {
            (*error)->code = IPYBOX_ERROR_INVALID;
            return false;
        }
    }
    const IpbJson *root = doc != NULL ? ipb_json_root(doc) : NULL;
    static const char *const STRINGS[] = {"name", "working_dir"};
    if (root != NULL && !ipb_json_is(root, IPB_JSON_OBJECT) && !ipb_json_is(root, IPB_JSON_NULL)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the body is no object");
        return false;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(STRINGS); i++) {
        const IpbJson *value = ipb_json_get(root, STRINGS[i]);
        if (value == NULL || ipb_json_is(value, IPB_JSON_NULL) ||
            ipb_json_get_string(root, STRINGS[i]) != NULL)
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s must be a string", STRINGS[i]);
        return false;
    }
    *ret_env = read_env(ipb_json_get(root, "env"));
    *ret_doc = g_steal_pointer(&doc);
    return true;
}

static bool
is_known_spec(const char *name)
{
    static const char *const NAMES[] = {IPB_GATEWAY_SPEC, "python", "ipython", "ipybox", ""};
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++)
        if (name == NULL || strcmp(NAMES[i], name) == 0)
            return true;
    return false;
}

static void
answer_started(IpbHttpRequest *request, const IpbGatewayKernel *kernel)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_kernel_describe(kernel, writer);
    size_t size;
    char *text = ipb_json_writer_finish(writer, &size);
    g_autoptr(GBytes) body = g_bytes_new_take(text, size);
    g_autofree char *location =
        g_strdup_printf("Location: /api/kernels/%s\r\n", ipb_gateway_kernel_id(kernel));
    IpbHttpAnswer answer = {.status = 201, .headers = location, .body = body};
    if (!ipb_http_request_answer(request, &answer))
        ipb_http_request_answer_error(request, 503, "too many answers wait to be read");
}

static void
on_start_kernel(IpbHttpRequest *request, void *data)
{
    g_autoptr(IpbJsonDoc) doc = NULL;
    g_auto(GStrv) env = NULL;
    g_autoptr(GError) error = NULL;
    if (!parse_start(ipb_http_request_body(request), &doc, &env, &error)) {
        ipb_http_request_answer_error(request, 400, error->message);
        return;
    }
    const IpbJson *root = doc != NULL ? ipb_json_root(doc) : NULL;
    const char *name = ipb_json_get_string(root, "name");
    const char *working_dir = ipb_json_get_string(root, "working_dir");
    if (!is_known_spec(name)) {
        g_autofree char *message =
            g_strdup_printf("No such kernel named %s; there is " IPB_GATEWAY_SPEC, name);
        ipb_http_request_answer_error(request, 404, message);
        return;
    }
    if (working_dir != NULL && !g_path_is_absolute(working_dir)) {
        ipb_http_request_answer_error(request, 400, "working_dir must be an absolute path");
        return;
    }
    IpbGatewayKernel *kernel =
        ipb_gateway_start_kernel(data, (const char *const *) env, working_dir, &error);
    if (kernel == NULL)
        ipb_http_request_answer_error(request, status_of(error), error->message);
    else
        answer_started(request, kernel);
}

/* --- what is done to a kernel ------------------------------------------------------------------ */

static void
on_interrupt(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = find_kernel(data, request);
    if (kernel == NULL)
        return;
    ipb_gateway_kernel_interrupt(kernel);
    ipb_http_request_answer_text(request, 204, NULL);
}

/* Answered once the old process is on its way out: what is sent from then on meets the new one. */
static void
on_restart(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = find_kernel(data, request);
    if (kernel == NULL)
        return;
    ipb_gateway_kernel_restart(kernel, NULL, NULL);
    answer_kernel(request, kernel);
}

static void
on_delete(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = find_kernel(data, request);
    if (kernel == NULL)
        return;
    ipb_gateway_end_kernel(data, kernel);
    ipb_http_request_answer_text(request, 204, NULL);
}

static void
on_channels(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = find_kernel(data, request);
    if (kernel != NULL)
        ipb_gateway_channel_open(data, kernel, request);
}

#define APPLICATION IPB_HTTP_ROLE_APPLICATION

const IpbHttpRoute IPB_GATEWAY_ROUTES[] = {
    {"GET", "/api", IPB_HTTP_BODY_NONE, APPLICATION, on_get_api},
    {"GET", "/api/kernelspecs", IPB_HTTP_BODY_NONE, APPLICATION, on_get_specs},
    {"GET", "/api/kernelspecs/@", IPB_HTTP_BODY_NONE, APPLICATION, on_get_spec},
    {"GET", "/api/kernels", IPB_HTTP_BODY_NONE, APPLICATION, on_get_kernels},
    {"POST", "/api/kernels", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_start_kernel},
    {"GET", "/api/kernels/@", IPB_HTTP_BODY_NONE, APPLICATION, on_get_kernel},
    {"DELETE", "/api/kernels/@", IPB_HTTP_BODY_NONE, APPLICATION, on_delete},
    {"POST", "/api/kernels/@/interrupt", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_interrupt},
    {"POST", "/api/kernels/@/restart", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_restart},
    {"GET", "/api/kernels/@/channels", IPB_HTTP_BODY_NONE, APPLICATION, on_channels},
};
const size_t IPB_GATEWAY_N_ROUTES = G_N_ELEMENTS(IPB_GATEWAY_ROUTES);
