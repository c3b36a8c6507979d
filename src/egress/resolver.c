/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups; see the header. GLib calls back also after a cancellation. Therefore the data of its
 * callback is a separate Query, which a cancelled lookup abandons. A thread that hangs in the
 * host's resolver cannot be ended. It is left alone, and GLib's pool starts another one.
 *
 * GLib's GResolver is not used, because it would link half of GIO, and what GIO loads, into static
 * programs.
 */
#include "egress/resolver.h"

#include <errno.h>
#include <gio/gio.h>
#include <netdb.h>
#include <netinet/in.h>

#include "base/error.h"
#include "base/thread.h"

#define MAX_RUNNING 6
#define LOOKUP_TIMEOUT_MS (20 * 1000)

typedef struct {
    IpbLookup *lookup; /* NULL: the lookup was cancelled */
    GCancellable *cancellable;
} Query;

typedef struct {
    IpbHost addresses[IPB_RESOLVER_MAX_ADDRESSES];
    size_t n;
} Found;

struct IpbResolver {
    IpbLoop *loop;
    GQueue waiting; /* IpbLookup, borrowed */
    unsigned n_running;
};

struct IpbLookup {
    IpbResolver *resolver;
    char *name;
    IpbLookupFunc func;
    void *data;
    Query *query; /* running */
    IpbTimer *timer;
};

static void start_waiting(IpbResolver *resolver);

IpbResolver *
ipb_resolver_new(IpbLoop *loop)
{
    IpbResolver *resolver = g_new0(IpbResolver, 1);
    resolver->loop = ipb_loop_ref(loop);
    g_queue_init(&resolver->waiting);
    return resolver;
}

void
ipb_resolver_free(IpbResolver *resolver)
{
    if (resolver == NULL)
        return;
    g_assert(resolver->waiting.length == 0 && resolver->n_running == 0);
    ipb_loop_unref(resolver->loop);
    g_free(resolver);
}

/* Ends the lookup without a result. The next one in the queue can start. */
static void
cancel(IpbLookup *lookup)
{
    g_clear_pointer(&lookup->timer, ipb_timer_free);
    g_queue_remove(&lookup->resolver->waiting, lookup);
    if (lookup->query == NULL)
        return;
    Query *query = g_steal_pointer(&lookup->query);
    query->lookup = NULL;
    lookup->resolver->n_running--;
    g_cancellable_cancel(query->cancellable);
    start_waiting(lookup->resolver);
}

static void
fail(IpbLookup *lookup, const GError *error)
{
    cancel(lookup);
    lookup->func(NULL, 0, error, lookup->data);
}

static Found *
take_addresses(const struct addrinfo *list)
{
    Found *found = g_new0(Found, 1);
    for (; list != NULL && found->n < IPB_RESOLVER_MAX_ADDRESSES; list = list->ai_next) {
        IpbHost *address = &found->addresses[found->n];
        const void *socket_address = list->ai_addr;
        const struct sockaddr_in *in = socket_address;
        const struct sockaddr_in6 *in6 = socket_address;
        /* The scope is dropped: an address with a scope is link-local, which is refused anyway. */
        if (list->ai_family == AF_INET)
            ipb_hostname_from_address(&in->sin_addr, sizeof in->sin_addr, address);
        else if (list->ai_family == AF_INET6)
            ipb_hostname_from_address(&in6->sin6_addr, sizeof in6->sin6_addr, address);
        else
            continue;
        found->n++;
    }
    return found;
}

/* Runs in a thread. */
static void
resolve(GTask *task, gpointer source, gpointer name, GCancellable *cancellable)
{
    const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    int result = getaddrinfo(name, NULL, &hints, &list);
    if (result == 0) {
        g_task_return_pointer(task, take_addresses(list), g_free);
        freeaddrinfo(list);
    } else {
        g_task_return_new_error(task, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "%s",
                                result == EAI_SYSTEM ? g_strerror(errno) : gai_strerror(result));
    }
}

static void
on_resolved(GObject *source, GAsyncResult *result, gpointer data)
{
    g_autofree Query *query = data;
    g_autoptr(GError) resolver_error = NULL;
    g_autofree Found *found = g_task_propagate_pointer(G_TASK(result), &resolver_error);
    g_object_unref(query->cancellable);
    IpbLookup *lookup = query->lookup;
    if (lookup == NULL)
        return;
    lookup->query = NULL;
    lookup->resolver->n_running--;
    start_waiting(lookup->resolver);
    if (found != NULL && found->n > 0) {
        g_clear_pointer(&lookup->timer, ipb_timer_free);
        lookup->func(found->addresses, found->n, NULL, lookup->data);
        return;
    }
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "the name does not resolve: %s",
                    resolver_error != NULL ? resolver_error->message : "it has no address");
    fail(lookup, error);
}

static void
on_timeout(void *data)
{
    IpbLookup *lookup = data;
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, "the name did not resolve within %d s",
                    LOOKUP_TIMEOUT_MS / 1000);
    fail(lookup, error);
}

/* Called from the loop, because the caller must not get a result before its call has returned. */
static void
on_no_thread(void *data)
{
    g_autoptr(GError) error = NULL;
    ipb_error_set_errno(&error, EAGAIN, "no thread can be started to resolve the name");
    fail(data, error);
}

static void
start(IpbLookup *lookup)
{
    if (!ipb_thread_check(NULL)) {
        g_clear_pointer(&lookup->timer, ipb_timer_free);
        lookup->timer = ipb_timer_new(lookup->resolver->loop, 0, on_no_thread, lookup);
        return;
    }
    GMainContext *context = ipb_loop_context(lookup->resolver->loop);
    lookup->query = g_new0(Query, 1);
    lookup->query->lookup = lookup;
    lookup->query->cancellable = g_cancellable_new();
    lookup->resolver->n_running++;
    /* The task calls back in the context that is now the default of the thread. */
    g_main_context_push_thread_default(context);
    g_autoptr(GTask) task =
        g_task_new(NULL, lookup->query->cancellable, on_resolved, lookup->query);
    g_main_context_pop_thread_default(context);
    g_task_set_task_data(task, g_strdup(lookup->name), g_free);
    g_task_set_return_on_cancel(task, TRUE);
    g_task_run_in_thread(task, resolve);
}

static void
start_waiting(IpbResolver *resolver)
{
    while (resolver->n_running < MAX_RUNNING && resolver->waiting.length > 0)
        start(g_queue_pop_head(&resolver->waiting));
}

IpbLookup *
ipb_lookup_new(IpbResolver *resolver, const char *name, IpbLookupFunc func, void *data)
{
    IpbLookup *lookup = g_new0(IpbLookup, 1);
    lookup->resolver = resolver;
    lookup->name = g_strdup(name);
    lookup->func = func;
    lookup->data = data;
    lookup->timer = ipb_timer_new(resolver->loop, LOOKUP_TIMEOUT_MS, on_timeout, lookup);
    g_queue_push_tail(&resolver->waiting, lookup);
    start_waiting(resolver);
    return lookup;
}

void
ipb_lookup_free(IpbLookup *lookup)
{
    if (lookup == NULL)
        return;
    cancel(lookup);
    g_free(lookup->name);
    g_free(lookup);
}
