/* SPDX-License-Identifier: Apache-2.0
 *
 * Dialling; see the header. A small version of RFC 8305: addresses are tried in the resolver's
 * order, but the two families alternate.
 */
#include "egress/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "http/trusting-port.h"

#define STAGGER_MS 250
#define DIAL_TIMEOUT_MS (30 * 1000)
/* With these a server that disappeared is detected after about two minutes, even if there is
 * nothing to send. */
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_INTERVAL_S 20
#define KEEPALIVE_PROBES 3

typedef struct {
    IpbDial *dial;
    int fd; /* -1: not started, or failed */
    IpbWatch *watch;
} Attempt;

struct IpbDial {
    IpbLoop *loop;
    IpbDomainRules *rules; /* the rules at the time of the call */
    IpbDestination destination;
    IpbDialFunc func;
    void *data;
    IpbLookup *lookup;
    IpbHost addresses[IPB_RESOLVER_MAX_ADDRESSES];
    Attempt attempts[IPB_RESOLVER_MAX_ADDRESSES];
    size_t n_addresses, n_started, n_failed;
    int last_errno;
    IpbTimer *next;     /* starts the next attempt */
    IpbTimer *deadline; /* for all attempts together */
};

static void on_next(void *data);

static void
end_attempt(Attempt *attempt)
{
    g_clear_pointer(&attempt->watch, ipb_watch_free);
    ipb_fd_close(&attempt->fd);
}

static void
stop(IpbDial *dial)
{
    g_clear_pointer(&dial->lookup, ipb_lookup_free);
    g_clear_pointer(&dial->next, ipb_timer_free);
    g_clear_pointer(&dial->deadline, ipb_timer_free);
    for (size_t i = 0; i < dial->n_started; i++)
        end_attempt(&dial->attempts[i]);
}

static void
fail(IpbDial *dial, const GError *error)
{
    stop(dial);
    dial->func(-1, error, dial->data);
}

static void
succeed(IpbDial *dial, Attempt *attempt)
{
    g_clear_pointer(&attempt->watch, ipb_watch_free);
    int fd = ipb_fd_steal(&attempt->fd);
    stop(dial);
    dial->func(fd, NULL, dial->data);
}

static void
fail_connect(IpbDial *dial)
{
    g_autoptr(GError) error = NULL;
    if (dial->last_errno == ECONNREFUSED)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "the host refused the connection");
    else if (dial->last_errno == ETIMEDOUT)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, "the host does not answer");
    else
        ipb_error_set_errno(&error, dial->last_errno, "the host cannot be reached");
    fail(dial, error);
}

static void
on_deadline(void *data)
{
    g_autoptr(GError) error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                                          "no connection within %d s", DIAL_TIMEOUT_MS / 1000);
    fail(data, error);
}

static void
schedule_next(IpbDial *dial, unsigned delay_ms)
{
    g_clear_pointer(&dial->next, ipb_timer_free);
    if (dial->n_started < dial->n_addresses)
        dial->next = ipb_timer_new(dial->loop, delay_ms, on_next, dial);
}

static void
on_attempt_failed(Attempt *attempt, int saved_errno)
{
    IpbDial *dial = attempt->dial;
    end_attempt(attempt);
    dial->last_errno = saved_errno;
    dial->n_failed++;
    if (dial->n_failed == dial->n_addresses)
        fail_connect(dial);
    else
        schedule_next(dial, 0);
}

/* Such a server would take the connection for one of the user's own programs, and allow it more
 * than any rule does. */
static void
refuse_trusting_port(IpbDial *dial)
{
    g_autoptr(GError) error = g_error_new(
        IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
        "port %u is an ipybox server of this user's, which no sandbox reaches by the network",
        dial->destination.port);
    fail(dial, error);
}

static void
on_connected(uint32_t events, void *data)
{
    Attempt *attempt = data;
    int saved_errno = 0;
    socklen_t size = sizeof saved_errno;
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &saved_errno, &size) < 0)
        saved_errno = errno;
    if (saved_errno != 0)
        on_attempt_failed(attempt, saved_errno);
    else if (ipb_trusting_port_is_peer(attempt->fd))
        refuse_trusting_port(attempt->dial);
    else
        succeed(attempt->dial, attempt);
}

static void
set_options(int fd)
{
    const int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S,
              probes = KEEPALIVE_PROBES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static bool
start_attempt(IpbDial *dial, Attempt *attempt, const IpbHost *address)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } target = {0};
    socklen_t size;
    uint16_t port = htons((uint16_t) dial->destination.port);
    if (address->kind == IPB_HOST_IPV4) {
        target.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        memcpy(&target.v4.sin_addr, address->address, 4);
        size = sizeof target.v4;
    } else {
        target.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
        memcpy(&target.v6.sin6_addr, address->address, 16);
        size = sizeof target.v6;
    }
    attempt->fd = socket(target.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (attempt->fd < 0)
        return false;
    set_options(attempt->fd);
    if (connect(attempt->fd, &target.any, size) < 0 && errno != EINPROGRESS)
        return false;
    /* A socket that is connected already counts as writable. */
    attempt->watch = ipb_watch_new(dial->loop, attempt->fd, EPOLLOUT, on_connected, attempt, NULL);
    return attempt->watch != NULL;
}

static void
on_next(void *data)
{
    IpbDial *dial = data;
    g_clear_pointer(&dial->next, ipb_timer_free);
    size_t index = dial->n_started++;
    Attempt *attempt = &dial->attempts[index];
    *attempt = (Attempt){.dial = dial, .fd = -1};
    if (start_attempt(dial, attempt, &dial->addresses[index]))
        schedule_next(dial, STAGGER_MS);
    else
        on_attempt_failed(attempt, errno);
}

/* Alternates between the families, and keeps the order within each. The family of the first address
 * comes first. */
static void
interleave(IpbHost *addresses, size_t n)
{
    IpbHost sorted[IPB_RESOLVER_MAX_ADDRESSES];
    bool is_taken[IPB_RESOLVER_MAX_ADDRESSES] = {false};
    IpbHostKind wanted = addresses[0].kind;
    for (size_t i = 0; i < n; i++) {
        size_t first = n, of_family = n;
        for (size_t k = 0; k < n && of_family == n; k++) {
            if (is_taken[k])
                continue;
            first = MIN(first, k);
            if (addresses[k].kind == wanted)
                of_family = k;
        }
        size_t chosen = of_family < n ? of_family : first;
        is_taken[chosen] = true;
        sorted[i] = addresses[chosen];
        wanted = sorted[i].kind == IPB_HOST_IPV4 ? IPB_HOST_IPV6 : IPB_HOST_IPV4;
    }
    memcpy(addresses, sorted, n * sizeof *addresses);
}

static void
on_resolved(const IpbHost *addresses, size_t n_addresses, const GError *error, void *data)
{
    IpbDial *dial = data;
    g_autofree char *reason = NULL;
    g_clear_pointer(&dial->lookup, ipb_lookup_free);
    if (error != NULL) {
        fail(dial, error);
        return;
    }
    for (size_t i = 0; i < n_addresses; i++) {
        g_autofree char *refusal = NULL;
        if (dial->rules == NULL || ipb_domain_rules_check_address(dial->rules, &dial->destination,
                                                                  &addresses[i], &refusal))
            dial->addresses[dial->n_addresses++] = addresses[i];
        else if (reason == NULL)
            reason = g_steal_pointer(&refusal);
    }
    if (dial->n_addresses == 0) {
        g_autoptr(GError) refused = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED, reason);
        fail(dial, refused);
        return;
    }
    interleave(dial->addresses, dial->n_addresses);
    schedule_next(dial, 0);
}

IpbDial *
ipb_dial_new(IpbLoop *loop, IpbResolver *resolver, IpbDomainRules *rules,
             const IpbDestination *destination, IpbDialFunc func, void *data)
{
    IpbDial *dial = g_new0(IpbDial, 1);
    dial->loop = ipb_loop_ref(loop);
    dial->rules = rules != NULL ? ipb_domain_rules_ref(rules) : NULL;
    dial->destination = *destination;
    dial->func = func;
    dial->data = data;
    dial->deadline = ipb_timer_new(loop, DIAL_TIMEOUT_MS, on_deadline, dial);
    if (destination->host.kind == IPB_HOST_NAME) {
        dial->lookup = ipb_lookup_new(resolver, destination->host.text, on_resolved, dial);
    } else {
        dial->addresses[dial->n_addresses++] = destination->host;
        schedule_next(dial, 0);
    }
    return dial;
}

void
ipb_dial_free(IpbDial *dial)
{
    if (dial == NULL)
        return;
    stop(dial);
    ipb_domain_rules_unref(dial->rules);
    ipb_loop_unref(dial->loop);
    g_free(dial);
}
