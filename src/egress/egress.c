/* SPDX-License-Identifier: Apache-2.0
 *
 * The listeners of a sandbox and their connections; see the header. domain-rules.c says what is
 * allowed.
 */
#include "egress/egress.h"

#include <string.h>
#include <sys/socket.h>

#include "base/acceptor.h"
#include "base/error.h"
#include "base/fd.h"
#include "egress/connection.h"
#include "egress/dns.h"
#include "egress/http-proxy.h"
#include "egress/http-forward.h"
#include "egress/inspect.h"
#include "egress/application-proxy.h"
#include "egress/socks.h"

/* Of one sandbox at a time. A connection takes two descriptors of this process, which all sandboxes
 * share. */
#define MAX_CONNECTIONS 128

static const char TOO_MANY[] = "the sandbox has 128 connections already, which is the limit";

typedef struct {
    IpbEgress *egress;
    const IpbProtocol *protocol;
    IpbDestination application_proxy; /* port 0: none */
    IpbAcceptor *acceptor;
} Listener;

struct IpbEgress {
    IpbEgressContext context;
    IpbSandboxPlan *plan;
    IpbDns *dns;
    Listener *listeners;
    guint n_listeners;
    GPtrArray *connections; /* IpbConnection, owned */
};

static void
free_connection(void *connection)
{
    ipb_connection_free(connection);
}

static void
on_connection_end(IpbConnection *connection, void *data)
{
    IpbEgress *egress = data;
    g_ptr_array_remove_fast(egress->connections, connection);
}

/* There are too many connections. An HTTP client gets an answer that says so. */
static void
reject(Listener *listener, int accepted)
{
    ipb_autofd fd = accepted;
    char unread[4096];
    ipb_violations_report(listener->egress->context.violations, "network-outbound", "(any)",
                          TOO_MANY);
    if (listener->protocol == &IPB_HTTP_PROXY || listener->protocol == &IPB_INSPECT_HTTP) {
        g_autofree char *reply = ipb_http_forward_busy_reply(TOO_MANY);
        send(fd, reply, strlen(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    /* Unread input would turn the close into a reset, which discards the answer. */
    shutdown(fd, SHUT_WR);
    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) == sizeof unread)
        ;
}

static void
on_accepted(int fd, void *data)
{
    Listener *listener = data;
    IpbEgress *egress = listener->egress;
    const IpbConnectionOptions options = {
        .context = &egress->context,
        .protocol = listener->protocol,
        .on_end = on_connection_end,
        .data = egress,
    };
    if (egress->connections->len >= MAX_CONNECTIONS) {
        reject(listener, fd);
        return;
    }
    IpbConnection *connection = ipb_connection_new(fd, &options, NULL);
    if (connection == NULL)
        return;
    g_ptr_array_add(egress->connections, connection);
    if (listener->application_proxy.port != 0)
        ipb_connection_open_unchecked(connection, &listener->application_proxy);
}

/* The protocol of a listener; NULL for those that take no stream connections here. */
static const IpbProtocol *
protocol_of(const IpbSandboxPolicy *policy, IpbListenerKind kind)
{
    bool is_proxy_forced = policy->http_proxy_port != 0;
    switch (kind) {
    case IPB_LISTENER_HTTP_PROXY:
        return policy->http_proxy_port != 0 ? &IPB_APPLICATION_PROXY : &IPB_HTTP_PROXY;
    case IPB_LISTENER_SOCKS:
        return policy->socks_proxy_port != 0 ? &IPB_APPLICATION_PROXY : &IPB_SOCKS;
    case IPB_LISTENER_DNS_TCP:
        return &IPB_DNS_TCP;
    case IPB_LISTENER_TLS:
        return is_proxy_forced ? &IPB_APPLICATION_PROXY_REQUIRED_TLS : &IPB_INSPECT_TLS;
    case IPB_LISTENER_HTTP:
        return is_proxy_forced ? &IPB_APPLICATION_PROXY_REQUIRED_HTTP : &IPB_INSPECT_HTTP;
    case IPB_LISTENER_TOOLS:
    case IPB_LISTENER_DNS_UDP:
    default:
        return NULL;
    }
}

static unsigned
application_proxy_port(const IpbSandboxPolicy *policy, IpbListenerKind kind)
{
    if (kind == IPB_LISTENER_HTTP_PROXY)
        return policy->http_proxy_port;
    return kind == IPB_LISTENER_SOCKS ? policy->socks_proxy_port : 0;
}

static bool
add_listener(IpbEgress *egress, IpbListenerKind kind, int *fd, GError **error)
{
    static const uint8_t LOOPBACK[4] = {127, 0, 0, 1};
    const IpbSandboxPolicy *policy = egress->plan->policy;
    if (kind == IPB_LISTENER_DNS_UDP) {
        if (egress->dns != NULL) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "a sandbox has one name server");
            return false;
        }
        egress->dns = ipb_dns_new(&egress->context, ipb_fd_steal(fd), error);
        return egress->dns != NULL;
    }
    Listener *listener = &egress->listeners[egress->n_listeners++];
    listener->egress = egress;
    listener->protocol = protocol_of(policy, kind);
    listener->application_proxy.port = application_proxy_port(policy, kind);
    ipb_hostname_from_address(LOOPBACK, sizeof LOOPBACK, &listener->application_proxy.host);
    listener->acceptor =
        ipb_acceptor_new(egress->context.loop, ipb_fd_steal(fd), on_accepted, listener, error);
    return listener->acceptor != NULL;
}

static bool
add_listeners(IpbEgress *egress, int *fds, GError **error)
{
    const GArray *listeners = egress->plan->listeners;
    egress->listeners = g_new0(Listener, MAX(listeners->len, 1));
    for (guint i = 0; i < listeners->len; i++) {
        IpbListenerKind kind = g_array_index(listeners, IpbPlanListener, i).kind;
        if (kind != IPB_LISTENER_TOOLS && !add_listener(egress, kind, &fds[i], error))
            return false;
    }
    return true;
}

IpbEgress *
ipb_egress_new(IpbLoop *loop, const IpbEgressOptions *options, GError **error)
{
    const GArray *listeners = options->plan->listeners;
    g_autofree int *fds = g_memdup2(options->listeners, listeners->len * sizeof(int));
    IpbEgress *egress = g_new0(IpbEgress, 1);
    egress->plan = ipb_sandbox_plan_ref(options->plan);
    egress->connections = g_ptr_array_new_with_free_func(free_connection);
    egress->context.loop = ipb_loop_ref(loop);
    egress->context.upstream = options->upstream;
    egress->context.addresses = ipb_synthetic_addresses_new();
    egress->context.violations = ipb_violations_new(loop, options->on_violation, options->data);
    egress->context.resolver = ipb_resolver_new(loop);
    egress->context.rules = ipb_domain_rules_new(egress->plan->policy, error);
    bool is_made = egress->context.rules != NULL && add_listeners(egress, fds, error);
    for (guint i = 0; i < listeners->len; i++)
        if (g_array_index(listeners, IpbPlanListener, i).kind != IPB_LISTENER_TOOLS)
            ipb_fd_close(&fds[i]);
    if (!is_made)
        g_clear_pointer(&egress, ipb_egress_free);
    return egress;
}

bool
ipb_egress_set_policy(IpbEgress *egress, IpbSandboxPolicy *policy, GError **error)
{
    IpbDomainRules *rules = ipb_domain_rules_new(policy, error);
    if (rules == NULL)
        return false;
    ipb_domain_rules_unref(egress->context.rules);
    egress->context.rules = rules;
    return true;
}

void
ipb_egress_flush(IpbEgress *egress)
{
    ipb_violations_flush(egress->context.violations);
}

void
ipb_egress_free(IpbEgress *egress)
{
    if (egress == NULL)
        return;
    for (guint i = 0; i < egress->n_listeners; i++)
        ipb_acceptor_free(egress->listeners[i].acceptor);
    g_free(egress->listeners);
    ipb_dns_free(egress->dns);
    g_ptr_array_unref(egress->connections);
    ipb_domain_rules_unref(egress->context.rules);
    ipb_resolver_free(egress->context.resolver);
    ipb_violations_free(egress->context.violations);
    ipb_synthetic_addresses_free(egress->context.addresses);
    ipb_loop_unref(egress->context.loop);
    ipb_sandbox_plan_unref(egress->plan);
    g_free(egress);
}
