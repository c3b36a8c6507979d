/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups; see the header. GLib calls back after a cancellation, too, so what it calls back with is a Query of its own, which the
 * lookup lets go of. A thread that hangs in the host's resolver cannot be ended, only left alone: GLib's pool grows past such.
 */
#include "egress/resolver.h"

#include <gio/gio.h>

#include "base/error.h"

#define MAX_RUNNING 6
#define LOOKUP_TIMEOUT_MS (20 * 1000)

typedef struct {
    IpbLookup *lookup; /* NULL: nobody waits any more */
    GCancellable *cancellable;
} Query;

struct IpbResolver {
    IpbLoop *loop;
    GResolver *host;
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
    resolver->host = g_resolver_get_default();
    g_queue_init(&resolver->waiting);
    return resolver;
}

void
ipb_resolver_free(IpbResolver *resolver)
{
    if (resolver == NULL)
        return;
    g_assert(resolver->waiting.length == 0 && resolver->n_running == 0);
    g_object_unref(resolver->host);
    ipb_loop_unref(resolver->loop);
    g_free(resolver);
}

/* The lookup is under way no more; its place is free for another. */
static void
let_go(IpbLookup *lookup)
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
    let_go(lookup);
    lookup->func(NULL, 0, error, lookup->data);
}

static size_t
take_addresses(GList *list, IpbHost addresses[IPB_RESOLVER_MAX_ADDRESSES])
{
    size_t n = 0;
    for (GList *item = list; item != NULL && n < IPB_RESOLVER_MAX_ADDRESSES; item = item->next) {
        GInetAddress *address = item->data;
        /* An address with a scope is link-local, which is refused anyway. */
        ipb_hostname_from_address(g_inet_address_to_bytes(address),
                                  g_inet_address_get_native_size(address), &addresses[n++]);
    }
    return n;
}

static void
on_resolved(GObject *source, GAsyncResult *result, gpointer data)
{
    g_autofree Query *query = data;
    g_autoptr(GError) resolver_error = NULL;
    GList *list = g_resolver_lookup_by_name_finish(G_RESOLVER(source), result, &resolver_error);
    IpbHost addresses[IPB_RESOLVER_MAX_ADDRESSES];
    size_t n = take_addresses(list, addresses);
    g_resolver_free_addresses(list);
    g_object_unref(query->cancellable);
    IpbLookup *lookup = query->lookup;
    if (lookup == NULL)
        return;
    lookup->query = NULL;
    lookup->resolver->n_running--;
    start_waiting(lookup->resolver);
    if (n > 0) {
        g_clear_pointer(&lookup->timer, ipb_timer_free);
        lookup->func(addresses, n, NULL, lookup->data);
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

static void
start(IpbLookup *lookup)
{
    GMainContext *context = ipb_loop_context(lookup->resolver->loop);
    lookup->query = g_new0(Query, 1);
    lookup->query->lookup = lookup;
    lookup->query->cancellable = g_cancellable_new();
    lookup->resolver->n_running++;
    /* It calls back in the context that is the thread's default now. */
    g_main_context_push_thread_default(context);
    g_resolver_lookup_by_name_async(lookup->resolver->host, lookup->name,
                                    lookup->query->cancellable, on_resolved, lookup->query);
    g_main_context_pop_thread_default(context);
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
    let_go(lookup);
    g_free(lookup->name);
    g_free(lookup);
}
