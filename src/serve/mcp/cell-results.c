/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of cells; see the header.
 */
#include "serve/mcp/cell-results.h"

#include <inttypes.h>
#include <string.h>

#define MAX_RESULTS 20
#define MAX_SIZE (4u * 1024 * 1024)
/* Calls that wait for a cell. */
#define MAX_WAITING 100

typedef struct {
    uint64_t cell;
    /* NULL: it was too large to keep */
    char *text;
    size_t size;
    bool is_error;
} Result;

struct IpbCellResults {
    /* Result, the oldest first */
    GQueue kept;
    size_t size;
    /* Numbers of cells that have not ended, as pointers to uint64_t */
    GHashTable *open;
    uint64_t newest;
    /* IpbServedCall; `cell` is what it waits for */
    GPtrArray *waiting;
};

static void
free_result(Result *result)
{
    g_free(result->text);
    g_free(result);
}

IpbCellResults *
ipb_cell_results_new(void)
{
    IpbCellResults *results = g_new0(IpbCellResults, 1);
    g_queue_init(&results->kept);
    results->open = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    results->waiting = g_ptr_array_new();
    return results;
}

void
ipb_cell_results_free(IpbCellResults *results)
{
    if (results == NULL)
        return;
    g_queue_clear_full(&results->kept, (GDestroyNotify) free_result);
    g_hash_table_unref(results->open);
    g_ptr_array_unref(results->waiting);
    g_free(results);
}

void
ipb_cell_results_begin(IpbCellResults *results, uint64_t cell)
{
    g_hash_table_add(results->open, g_memdup2(&cell, sizeof cell));
    results->newest = cell;
}

static void
answer(IpbServedCall *call, const Result *result)
{
    if (result->text != NULL) {
        if (result->is_error)
            ipb_served_call_finish(call, result->text, true);
        else
            ipb_served_call_finish_named(call, "output", result->text);
        return;
    }
    g_autofree char *message = g_strdup_printf(
        "the cell has ended, but its answer has %zu bytes and was not kept", result->size);
    ipb_served_call_fail(call, message);
}

static void
keep(IpbCellResults *results, Result *result)
{
    g_queue_push_tail(&results->kept, result);
    results->size += result->text != NULL ? result->size : 0;
    while (results->size > MAX_SIZE || g_queue_get_length(&results->kept) > MAX_RESULTS) {
        Result *oldest = g_queue_pop_head(&results->kept);
        results->size -= oldest->text != NULL ? oldest->size : 0;
        free_result(oldest);
    }
}

void
ipb_cell_results_finish(IpbCellResults *results, uint64_t cell, const char *text, bool is_error)
{
    size_t size = strlen(text);
    const Result borrowed = {
        .cell = cell, .text = (char *) text, .size = size, .is_error = is_error};
    for (guint i = results->waiting->len; i-- > 0;) {
        IpbServedCall *call = g_ptr_array_index(results->waiting, i);
        if (call->cell_id != cell)
            continue;
        g_ptr_array_remove_index(results->waiting, i);
        answer(call, &borrowed);
    }
    g_hash_table_remove(results->open, &cell);
    Result *result = g_new0(Result, 1);
    *result = borrowed;
    result->text = size <= MAX_SIZE ? g_strdup(text) : NULL;
    keep(results, result);
}

static const Result *
find(const IpbCellResults *results, uint64_t cell)
{
    for (const GList *link = results->kept.head; link != NULL; link = link->next)
        if (((const Result *) link->data)->cell == cell)
            return link->data;
    return NULL;
}

/* The cell continues. */
static void
cancel_waiting(IpbServedCall *call)
{
    g_ptr_array_remove(call->results->waiting, call);
    ipb_served_call_fail(call, "cancelled");
}

void
ipb_cell_results_get(IpbCellResults *results, IpbServedCall *call, uint64_t cell)
{
    call->cell_id = cell != 0 ? cell : results->newest;
    const Result *result = find(results, call->cell_id);
    if (result != NULL) {
        answer(call, result);
    } else if (g_hash_table_contains(results->open, &call->cell_id) &&
               results->waiting->len < MAX_WAITING) {
        call->cancel = cancel_waiting;
        g_ptr_array_add(results->waiting, call);
    } else if (call->cell_id == 0) {
        ipb_served_call_fail(call, "no cell was run in this session");
    } else if (call->cell_id <= results->newest && results->waiting->len < MAX_WAITING) {
        g_autofree char *message =
            g_strdup_printf("the answer of cell %" PRIu64 " is not kept any more: the last %d are",
                            call->cell_id, MAX_RESULTS);
        ipb_served_call_fail(call, message);
    } else {
        g_autofree char *message = g_strdup_printf(
            results->waiting->len < MAX_WAITING ? "there is no cell %" PRIu64 " in this session"
                                                : "too many calls wait for cell %" PRIu64,
            call->cell_id);
        ipb_served_call_fail(call, message);
    }
}
