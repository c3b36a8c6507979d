/* SPDX-License-Identifier: Apache-2.0
 *
 * The gateway: its server and its table of kernels; see the header.
 *
 * Invariant: a kernel that is closing stays in the table until its session is closed, so that the gateway's end waits for it, but nobody
 * finds it there.
 */
#include "serve/gateway/gateway.h"

#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "serve/gateway/private.h"

/* WebSockets included. */
#define MAX_CONNECTIONS 1024

void
ipb_gateway_log(IpbGateway *gateway, const char *level, const char *format, ...)
{
    if (gateway->on_log == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    gateway->on_log(level, text, gateway->data);
}

/* --- kernels ----------------------------------------------------------------------------------- */

/* A kernel that is being closed, until its session is gone. */
typedef struct {
    IpbGateway *gateway;
    IpbGatewayKernel *kernel;
} Ending;

static void
tell_if_closed(IpbGateway *gateway)
{
    if (gateway->is_closing && gateway->kernels->len == 0 && gateway->closed != NULL)
        g_steal_pointer (&gateway->closed)(gateway->closed_data); /* may free the gateway */
}

static void
on_kernel_closed(void *data)
{
    Ending *ending = data;
    IpbGateway *gateway = ending->gateway;
    g_ptr_array_remove_fast(gateway->kernels, ending->kernel);
    g_ptr_array_remove_fast(gateway->endings, ending);
    tell_if_closed(gateway);
}

void
ipb_gateway_end_kernel(IpbGateway *gateway, IpbGatewayKernel *kernel)
{
    Ending *ending = g_new0(Ending, 1);
    *ending = (Ending){gateway, kernel};
    g_ptr_array_add(gateway->endings, ending);
    ipb_gateway_kernel_close(kernel, on_kernel_closed, ending);
}

static void
on_kernel_end(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data)
{
    IpbGateway *gateway = data;
    ipb_gateway_log(gateway, "info", "kernel %s ends: %s", ipb_gateway_kernel_id(kernel),
                    why == IPB_GATEWAY_END_IDLE ? "it was idle for too long" : "a client asked");
    ipb_gateway_end_kernel(gateway, kernel);
}

/* What all kernels get, then @more, which wins. Borrows the strings. */
static const char **
join_env(const char *const *all, const char *const *more)
{
    GPtrArray *env = g_ptr_array_new();
    for (; all != NULL && *all != NULL; all++)
        g_ptr_array_add(env, (void *) *all);
    for (; more != NULL && *more != NULL; more++)
        g_ptr_array_add(env, (void *) *more);
    g_ptr_array_add(env, NULL);
    return (const char **) g_ptr_array_free(env, FALSE);
}

IpbGatewayKernel *
ipb_gateway_start_kernel(IpbGateway *gateway, const char *const *env, const char *working_dir,
                         GError **error)
{
    if (gateway->kernels->len >= gateway->max_kernels) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "Resource Limit: there are %u kernels, and there may be no more",
                    gateway->max_kernels);
        return NULL;
    }
    g_autofree char *id = g_uuid_string_random();
    g_autofree const char **kernel_env = join_env(gateway->session->kernel_env, env);
    IpbSessionOptions session = *gateway->session;
    session.kernel_env = (const char *const *) kernel_env;
    session.working_dir = working_dir;
    IpbGatewayKernel *kernel =
        ipb_gateway_kernel_new(gateway->runtime,
                               &(IpbGatewayKernelOptions){
                                   .session = &session,
                                   .id = id,
                                   .name = IPB_GATEWAY_SPEC,
                                   .idle_s = gateway->idle_s,
                                   .culls_connected = gateway->culls_connected,
                                   .on_end = on_kernel_end,
                                   .data = gateway,
                               },
                               error);
    if (kernel == NULL)
        return NULL;
    g_ptr_array_add(gateway->kernels, kernel);
    ipb_gateway_log(gateway, "info", "kernel %s starts", id);
    return kernel;
}

IpbGatewayKernel *
ipb_gateway_find_kernel(IpbGateway *gateway, const char *id)
{
    for (guint i = 0; i < gateway->kernels->len; i++) {
        IpbGatewayKernel *kernel = g_ptr_array_index(gateway->kernels, i);
        if (strcmp(ipb_gateway_kernel_id(kernel), id) == 0)
            return ipb_gateway_kernel_is_closing(kernel) ? NULL : kernel;
    }
    return NULL;
}

/* --- life -------------------------------------------------------------------------------------- */

IpbGateway *
ipb_gateway_new(const IpbGatewayOptions *options)
{
    IpbGateway *gateway = g_new0(IpbGateway, 1);
    gateway->runtime = ipb_runtime_ref(options->runtime);
    gateway->loop = ipb_loop_ref(ipb_runtime_loop(options->runtime));
    gateway->session = options->session;
    gateway->max_kernels = options->max_kernels;
    gateway->idle_s = options->idle_s;
    gateway->culls_connected = options->culls_connected;
    gateway->on_log = options->on_log;
    gateway->data = options->data;
    gateway->kernels = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_gateway_kernel_free);
    gateway->endings = g_ptr_array_new_with_free_func(g_free);
    gateway->channels = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_gateway_channel_free);
    IpbHttpServerOptions server = IPB_HTTP_SERVER_OPTIONS;
    server.routes = IPB_GATEWAY_ROUTES;
    server.n_routes = IPB_GATEWAY_N_ROUTES;
    server.data = gateway;
    server.error_member = "message";
    server.takes_any_type_with_token = true; /* as Jupyter's own, whose client sends none */
    server.max_connections = MAX_CONNECTIONS;
    gateway->server = ipb_http_server_new(gateway->loop, &server, options->gate);
    return gateway;
}

/* Some WebSocket clients, Jupyter's own among them, give the server itself for the origin. It serves no pages. */
static void
allow_own_origins(IpbGateway *gateway, const char *host)
{
    const char *names[] = {"localhost", "127.0.0.1", "[::1]", host};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *origin =
            g_strdup_printf("http://%s:%u", names[i], ipb_gateway_port(gateway));
        ipb_http_gate_allow_origin(ipb_http_server_gate(gateway->server), origin);
    }
}

bool
ipb_gateway_listen(IpbGateway *gateway, const char *host, unsigned port, GError **error)
{
    if (!ipb_http_server_listen(gateway->server, host, port, error))
        return false;
    allow_own_origins(gateway, host);
    return true;
}

unsigned
ipb_gateway_port(const IpbGateway *gateway)
{
    return ipb_http_server_port(gateway->server);
}

static void
on_close_timer(void *data)
{
    tell_if_closed(data);
}

void
ipb_gateway_close(IpbGateway *gateway, void (*done)(void *data), void *data)
{
    gateway->is_closing = true;
    gateway->closed = done;
    gateway->closed_data = data;
    g_clear_pointer(&gateway->server, ipb_http_server_free);
    for (guint i = 0; i < gateway->kernels->len; i++) {
        IpbGatewayKernel *kernel = g_ptr_array_index(gateway->kernels, i);
        if (!ipb_gateway_kernel_is_closing(kernel))
            ipb_gateway_end_kernel(gateway, kernel);
    }
    gateway->close_timer = ipb_timer_new(gateway->loop, 0, on_close_timer, gateway);
}

void
ipb_gateway_free(IpbGateway *gateway)
{
    if (gateway == NULL)
        return;
    ipb_http_server_free(gateway->server);
    ipb_timer_free(gateway->close_timer);
    g_ptr_array_unref(gateway->channels);
    g_ptr_array_unref(gateway->kernels);
    g_ptr_array_unref(gateway->endings);
    ipb_loop_unref(gateway->loop);
    ipb_runtime_unref(gateway->runtime);
    g_free(gateway);
}
