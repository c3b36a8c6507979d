/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool; see the header.
 *
 * Invariant: a session is in `waiting` until it is given away, or ends; then it is in `endings`
 * until nothing of it is left. Only one in `waiting` is not ready yet. All changes come from
 * `work_timer`, so that a burst of new sessions is served before the pool is filled again.
 */
#include "session/session-pool.h"

#define MAX_AGE_MS (10 * 60 * 1000)
/* Between two steps of filling. Cells have the loop and the processors for themselves then. */
#define STEP_DELAY_MS 20
/* After a session whose kernel ended: the first pause, and the longest one. */
#define MIN_PAUSE_MS 1000
#define MAX_PAUSE_MS 60000
/* Log lines of a session that waits. */
#define MAX_LINES 20

typedef struct {
    IpbSessionPool *pool;
    size_t owner;
    IpbSession *session;
    bool is_ready, is_ending;
    /* µs of monotonic time */
    int64_t made_at;
    /* Level and text, one after the other: for who gets it */
    GPtrArray *lines;
    /* Frees it from the loop: a session must not be freed in its own callback. */
    IpbTimer *timer;
} Entry;

struct IpbSessionPool {
    IpbSessionPoolOptions options;
    IpbLoop *loop;
    /* Entry, owned, the oldest first */
    GPtrArray *waiting, *endings;
    /* Owners of the last sessions that began; the next one replaces that at `next` */
    size_t *recent;
    unsigned next;
    unsigned n_failures;
    /* µs of monotonic time: nothing is made before */
    int64_t paused_until;
    IpbTimer *work_timer;
    IpbTimer *age_timer;
    bool is_started, is_closing;
    void (*closed)(void *data);
    void *closed_data;
};

static void
free_entry(void *data)
{
    Entry *entry = data;
    ipb_timer_free(entry->timer);
    ipb_session_free(entry->session);
    g_ptr_array_unref(entry->lines);
    g_free(entry);
}

/* --- the end of a session --------------------------------------------------------------------- */

static void work_soon(IpbSessionPool *pool);

static void
on_ended_timer(void *data)
{
    Entry *entry = data;
    IpbSessionPool *pool = entry->pool;
    g_ptr_array_remove_fast(pool->endings, entry); /* frees it */
    if (pool->is_closing && pool->endings->len == 0)
        pool->closed(pool->closed_data);
}

static void
on_ended(void *data)
{
    Entry *entry = data;
    entry->timer = ipb_timer_new(entry->pool->loop, 0, on_ended_timer, entry);
}

static void
end_entry(Entry *entry)
{
    IpbSessionPool *pool = entry->pool;
    guint index;
    if (!g_ptr_array_find(pool->waiting, entry, &index))
        return;
    g_ptr_array_steal_index(pool->waiting, index);
    entry->is_ending = true;
    g_ptr_array_add(pool->endings, entry);
    ipb_session_close(entry->session, on_ended, entry);
    work_soon(pool);
}

/* --- events of a session that waits ----------------------------------------------------------- */

static int64_t
count_ms(int64_t since)
{
    return (g_get_monotonic_time() - since) / 1000;
}

/* The kernel ended, or did not start. */
static void
replace_later(Entry *entry, const char *why)
{
    IpbSessionPool *pool = entry->pool;
    unsigned pause_ms = MIN_PAUSE_MS;
    if (count_ms(entry->made_at) > MAX_PAUSE_MS)
        pool->n_failures = 0;
    for (unsigned i = 0; i < pool->n_failures && pause_ms < MAX_PAUSE_MS; i++)
        pause_ms *= 2;
    pause_ms = MIN(pause_ms, MAX_PAUSE_MS);
    pool->n_failures++;
    pool->paused_until = g_get_monotonic_time() + pause_ms * INT64_C(1000);
    g_autofree char *text =
        g_strdup_printf("a kernel that waited for a client ended, and is replaced in %u s: %s",
                        pause_ms / 1000, why);
    if (pool->options.on_log != NULL)
        pool->options.on_log("warning", text, pool->options.data);
    end_entry(entry);
}

static void
on_event(const IpbEvent *event, void *data)
{
    Entry *entry = data;
    if (entry->is_ending)
        return;
    if (event->type == IPB_EVENT_START_FAILED || event->type == IPB_EVENT_DIED) {
        replace_later(entry, event->text);
    } else if (event->type == IPB_EVENT_READY) {
        entry->is_ready = true;
        work_soon(entry->pool);
    }
}

static void
on_log(const char *level, const char *text, void *data)
{
    Entry *entry = data;
    if (entry->lines->len >= 2 * MAX_LINES)
        return;
    g_ptr_array_add(entry->lines, g_strdup(level));
    g_ptr_array_add(entry->lines, g_strdup(text));
}

static void
on_approval(const IpbApprovalRequest *request, void *data)
{
    Entry *entry = data;
    ipb_session_refuse(entry->session, request->id, "no client has the session yet");
}

static void
on_approval_withdrawn(uint64_t request, void *data)
{
}

/* --- filling ---------------------------------------------------------------------------------- */

static unsigned
count_waiting(const IpbSessionPool *pool, size_t owner)
{
    unsigned n = 0;
    for (guint i = 0; i < pool->waiting->len; i++)
        n += ((const Entry *) g_ptr_array_index(pool->waiting, i))->owner == owner;
    return n;
}

static unsigned
count_wanted(const IpbSessionPool *pool, size_t owner)
{
    unsigned n = 0;
    for (unsigned i = 0; i < pool->options.size; i++)
        n += pool->recent[i] == owner;
    return n;
}

static bool
may_add(const IpbSessionPool *pool, size_t owner, unsigned n_of_owner, unsigned n_all)
{
    return pool->options.may_add(owner, n_of_owner, n_all, pool->options.data);
}

/* A session that is too much, too old, or would differ from a new one; NULL: none. */
static Entry *
find_surplus(const IpbSessionPool *pool)
{
    for (guint i = 0; i < pool->waiting->len; i++) {
        Entry *entry = g_ptr_array_index(pool->waiting, i);
        unsigned n = count_waiting(pool, entry->owner);
        if (n > count_wanted(pool, entry->owner) || count_ms(entry->made_at) > MAX_AGE_MS ||
            !may_add(pool, entry->owner, n - 1, pool->waiting->len - 1) ||
            !ipb_session_is_current(entry->session))
            return entry;
    }
    return NULL;
}

/* The owner of a recent session that lacks one, the newest first. */
static bool
find_needy(const IpbSessionPool *pool, size_t *ret_owner)
{
    for (unsigned i = 1; i <= pool->options.size; i++) {
        size_t owner = pool->recent[(pool->next + pool->options.size - i) % pool->options.size];
        unsigned n = count_waiting(pool, owner);
        *ret_owner = owner;
        if (n < count_wanted(pool, owner) && may_add(pool, owner, n, pool->waiting->len))
            return true;
    }
    return false;
}

static bool
is_one_starting(const IpbSessionPool *pool)
{
    for (guint i = 0; i < pool->waiting->len; i++)
        if (!((const Entry *) g_ptr_array_index(pool->waiting, i))->is_ready)
            return true;
    return false;
}

static void
add_entry(IpbSessionPool *pool, size_t owner)
{
    IpbSessionOptions options = *pool->options.get_options(owner, pool->options.data);
    g_autoptr(GError) error = NULL;
    Entry *entry = g_new0(Entry, 1);
    *entry = (Entry){
        .pool = pool,
        .owner = owner,
        .made_at = g_get_monotonic_time(),
        .lines = g_ptr_array_new_with_free_func(g_free),
    };
    options.on_event = on_event;
    options.on_log = on_log;
    options.on_approval = on_approval;
    options.on_approval_withdrawn = on_approval_withdrawn;
    options.data = entry;
    entry->session = ipb_session_new(pool->options.runtime, &options, &error);
    if (entry->session == NULL) {
        replace_later(entry, error->message);
        free_entry(entry);
        work_soon(pool);
        return;
    }
    g_ptr_array_add(pool->waiting, entry);
    ipb_session_start(entry->session, /* rehearses= */ true);
}

static void
work(IpbSessionPool *pool)
{
    size_t owner;
    Entry *surplus = find_surplus(pool);
    if (surplus != NULL)
        end_entry(surplus); /* works again soon */
    else if (!is_one_starting(pool) && find_needy(pool, &owner))
        add_entry(pool, owner);
}

static void
on_work_timer(void *data)
{
    IpbSessionPool *pool = data;
    g_clear_pointer(&pool->work_timer, ipb_timer_free);
    if (g_get_monotonic_time() < pool->paused_until)
        work_soon(pool);
    else if (!pool->is_closing)
        work(pool);
}

static void
work_soon(IpbSessionPool *pool)
{
    if (!pool->is_started || pool->is_closing || pool->work_timer != NULL)
        return;
    int64_t pause_ms = -count_ms(pool->paused_until) + 1;
    pool->work_timer =
        ipb_timer_new(pool->loop, (unsigned) MAX(pause_ms, STEP_DELAY_MS), on_work_timer, pool);
}

static void
on_age_timer(void *data)
{
    IpbSessionPool *pool = data;
    ipb_timer_free(pool->age_timer);
    pool->age_timer = ipb_timer_new(pool->loop, MAX_AGE_MS, on_age_timer, pool);
    work_soon(pool);
}

/* --- what the owner calls --------------------------------------------------------------------- */

/* One whose kernel is ready, if there is one. */
static Entry *
find_best(const IpbSessionPool *pool, size_t owner)
{
    Entry *found = NULL;
    for (guint i = 0; i < pool->waiting->len; i++) {
        Entry *entry = g_ptr_array_index(pool->waiting, i);
        if (entry->owner == owner && (found == NULL || (entry->is_ready && !found->is_ready)))
            found = entry;
    }
    return found;
}

static IpbSession *
give_away(Entry *entry, const IpbSessionOptions *options)
{
    IpbSession *session = g_steal_pointer(&entry->session);
    IpbSessionPool *pool = entry->pool;
    ipb_session_hand_over(session, options);
    for (guint i = 0; i + 1 < entry->lines->len && options->on_log != NULL; i += 2)
        options->on_log(g_ptr_array_index(entry->lines, i), g_ptr_array_index(entry->lines, i + 1),
                        options->data);
    g_ptr_array_remove(pool->waiting, entry); /* frees it */
    pool->n_failures = 0;
    return session;
}

IpbSession *
ipb_session_pool_take(IpbSessionPool *pool, size_t owner, const IpbSessionOptions *options)
{
    if (pool == NULL || pool->is_closing)
        return NULL;
    pool->recent[pool->next] = owner;
    pool->next = (pool->next + 1) % pool->options.size;
    Entry *entry;
    while ((entry = find_best(pool, owner)) != NULL) {
        if (count_ms(entry->made_at) <= MAX_AGE_MS && ipb_session_is_current(entry->session))
            break;
        end_entry(entry);
    }
    work_soon(pool);
    return entry != NULL ? give_away(entry, options) : NULL;
}

void
ipb_session_pool_update(IpbSessionPool *pool)
{
    if (pool != NULL)
        work_soon(pool);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbSessionPool *
ipb_session_pool_new(const IpbSessionPoolOptions *options)
{
    g_return_val_if_fail(options->size > 0 && options->n_owners > 0, NULL);
    IpbSessionPool *pool = g_new0(IpbSessionPool, 1);
    pool->options = *options;
    ipb_runtime_ref(options->runtime);
    pool->loop = ipb_loop_ref(ipb_runtime_loop(options->runtime));
    pool->waiting = g_ptr_array_new_with_free_func(free_entry);
    pool->endings = g_ptr_array_new_with_free_func(free_entry);
    pool->recent = g_new0(size_t, options->size);
    for (unsigned i = 0; i < options->size; i++)
        pool->recent[i] = i % options->n_owners;
    return pool;
}

void
ipb_session_pool_start(IpbSessionPool *pool)
{
    if (pool == NULL || pool->is_started)
        return;
    pool->is_started = true;
    pool->age_timer = ipb_timer_new(pool->loop, MAX_AGE_MS, on_age_timer, pool);
    work_soon(pool);
}

static void
on_nothing_timer(void *data)
{
    IpbSessionPool *pool = data;
    g_clear_pointer(&pool->work_timer, ipb_timer_free);
    pool->closed(pool->closed_data);
}

void
ipb_session_pool_close(IpbSessionPool *pool, void (*done)(void *data), void *data)
{
    g_return_if_fail(!pool->is_closing);
    pool->is_closing = true;
    pool->closed = done;
    pool->closed_data = data;
    g_clear_pointer(&pool->work_timer, ipb_timer_free);
    while (pool->waiting->len > 0)
        end_entry(g_ptr_array_index(pool->waiting, 0));
    if (pool->endings->len == 0)
        pool->work_timer = ipb_timer_new(pool->loop, 0, on_nothing_timer, pool);
}

void
ipb_session_pool_free(IpbSessionPool *pool)
{
    if (pool == NULL)
        return;
    ipb_timer_free(pool->work_timer);
    ipb_timer_free(pool->age_timer);
    g_ptr_array_unref(pool->waiting);
    g_ptr_array_unref(pool->endings);
    ipb_loop_unref(pool->loop);
    ipb_runtime_unref(pool->options.runtime);
    g_free(pool->recent);
    g_free(pool);
}
