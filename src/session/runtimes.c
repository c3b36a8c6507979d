/* SPDX-License-Identifier: Apache-2.0
 *
 * Runtimes of sessions; see the header.
 */
#include "session/runtimes.h"

#include "base/error.h"

/* Each is a Python process that has imported IPython, or two: sandboxes have one of their own. */
#define MAX_RUNTIMES 16

typedef struct {
    char *key;
    IpbRuntime *runtime;
    unsigned n_users;
} Entry;

struct IpbRuntimes {
    GPtrArray *entries; /* Entry, the longest unused first */
    unsigned n_stopping;
    void (*stopped)(void *data);
    void *stopped_data;
};

static void
free_entry(void *data)
{
    Entry *entry = data;
    ipb_runtime_unref(entry->runtime);
    g_free(entry->key);
    g_free(entry);
}

IpbRuntimes *
ipb_runtimes_new(void)
{
    IpbRuntimes *runtimes = g_new0(IpbRuntimes, 1);
    runtimes->entries = g_ptr_array_new_with_free_func(free_entry);
    return runtimes;
}

void
ipb_runtimes_free(IpbRuntimes *runtimes)
{
    if (runtimes == NULL)
        return;
    g_ptr_array_unref(runtimes->entries);
    g_free(runtimes);
}

static char *
make_key(const char *python, const char *const *preload)
{
    /* A newline in a path or module could at worst make two runtimes share one place. */
    g_autofree char *modules = preload != NULL ? g_strjoinv("\n", (char **) preload) : NULL;
    return g_strconcat(python != NULL ? python : "", "\n", modules, NULL);
}

/* Removes the runtime that was unused for the longest time. Its last reference ends it. */
static bool
make_room(IpbRuntimes *runtimes)
{
    for (guint i = 0; i < runtimes->entries->len; i++) {
        const Entry *entry = g_ptr_array_index(runtimes->entries, i);
        if (entry->n_users > 0)
            continue;
        g_ptr_array_remove_index(runtimes->entries, i);
        return true;
    }
    return false;
}

IpbRuntime *
ipb_runtimes_get(IpbRuntimes *runtimes, const char *python, const char *const *preload,
                 GError **error)
{
    g_autofree char *key = make_key(python, preload);
    for (guint i = 0; i < runtimes->entries->len; i++) {
        Entry *entry = g_ptr_array_index(runtimes->entries, i);
        if (!g_str_equal(entry->key, key))
            continue;
        entry->n_users++;
        return ipb_runtime_ref(entry->runtime);
    }
    if (runtimes->entries->len >= MAX_RUNTIMES && !make_room(runtimes)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "sessions with %d different Pythons or lists of modules to preload are open: "
                    "close some",
                    MAX_RUNTIMES);
        return NULL;
    }
    IpbRuntimeOptions options = {.python = python, .preload = preload};
    IpbRuntime *runtime = ipb_runtime_new(NULL, &options, error);
    if (runtime == NULL)
        return NULL;
    Entry *entry = g_new(Entry, 1);
    *entry = (Entry){.key = g_steal_pointer(&key), .runtime = runtime, .n_users = 1};
    g_ptr_array_add(runtimes->entries, entry);
    return ipb_runtime_ref(runtime);
}

void
ipb_runtimes_give_back(IpbRuntimes *runtimes, IpbRuntime *runtime)
{
    for (guint i = 0; i < runtimes->entries->len; i++) {
        Entry *entry = g_ptr_array_index(runtimes->entries, i);
        if (entry->runtime != runtime)
            continue;
        entry->n_users--;
        /* Moves it to the end: it was used last. */
        g_ptr_array_steal_index(runtimes->entries, i);
        g_ptr_array_add(runtimes->entries, entry);
        break;
    }
    ipb_runtime_unref(runtime);
}

static void
part_stopped(IpbRuntimes *runtimes)
{
    if (--runtimes->n_stopping == 0)
        runtimes->stopped(runtimes->stopped_data); /* may free */
}

static void
on_stopped(void *data)
{
    part_stopped(data);
}

void
ipb_runtimes_stop(IpbRuntimes *runtimes, void (*done)(void *data), void *data)
{
    runtimes->stopped = done;
    runtimes->stopped_data = data;
    runtimes->n_stopping = runtimes->entries->len + 1;
    for (guint i = 0; i < runtimes->entries->len; i++) {
        const Entry *entry = g_ptr_array_index(runtimes->entries, i);
        ipb_runtime_stop(entry->runtime, on_stopped, runtimes);
    }
    part_stopped(runtimes);
}
