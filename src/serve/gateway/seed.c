/* SPDX-License-Identifier: Apache-2.0
 *
 * The seed of kernels; see the header.
 */
#include "serve/gateway/seed.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "json/json.h"

#define MAX_NOTEBOOK_SIZE (16u * 1024 * 1024)
#define MAX_CELLS 10000
/* How long one cell may run. */
#define CELL_TIMEOUT_MS (10u * 60 * 1000)
/* Characters of a Python error that a client gets. */
#define MAX_FAILURE 1000
#define NBFORMAT 4

struct IpbGatewaySeed {
    GPtrArray *cells; /* char *, code */
};

struct IpbGatewaySeeding {
    const IpbGatewaySeed *seed;
    IpbSession *session; /* borrowed */
    IpbTimer *timer;
    guint next;
    char *failure; /* of the cell that runs; NULL: none so far */
    void (*done)(const char *failure, void *data);
    void *data;
};

/* --- the notebook ----------------------------------------------------------------------------- */

/* A text, or an array of texts. NULL: neither. Caller frees. */
static char *
read_source(const IpbJson *cell)
{
    const IpbJson *source = ipb_json_get(cell, "source");
    if (!ipb_json_is(source, IPB_JSON_ARRAY))
        return g_strdup(ipb_json_get_string(cell, "source"));
    g_autoptr(GString) code = g_string_new(NULL);
    IPB_JSON_FOREACH (line, source) {
        size_t size;
        const char *text = ipb_json_string(line, &size);
        if (text == NULL || strlen(text) != size)
            return NULL;
        g_string_append(code, text);
    }
    return g_strdup(code->str);
}

static bool
is_code(const IpbJson *cell)
{
    const char *type = ipb_json_get_string(cell, "cell_type");
    return type != NULL && strcmp(type, "code") == 0;
}

static bool
read_cells(const IpbJson *notebook, GPtrArray *cells, GError **error)
{
    int64_t version;
    const IpbJson *list = ipb_json_get(notebook, "cells");
    if (!ipb_json_get_int64(notebook, "nbformat", &version) || version != NBFORMAT ||
        !ipb_json_is(list, IPB_JSON_ARRAY)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "it is not a notebook of nbformat %d; convert it with jupyter nbconvert",
                    NBFORMAT);
        return false;
    }
    IPB_JSON_FOREACH (cell, list) {
        if (!is_code(cell))
            continue;
        char *code = read_source(cell);
        if (code == NULL || cells->len == MAX_CELLS) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        code == NULL ? "the source of code cell %u is no text without NUL"
                                     : "it has more than %u code cells",
                        code == NULL ? cells->len + 1 : MAX_CELLS);
            g_free(code);
            return false;
        }
        g_ptr_array_add(cells, code);
    }
    return true;
}

IpbGatewaySeed *
ipb_gateway_seed_read(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_file_read(path, MAX_NOTEBOOK_SIZE, &text, &size, error))
        return NULL;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    g_autoptr(GPtrArray) cells = g_ptr_array_new_with_free_func(g_free);
    if (doc == NULL || !read_cells(ipb_json_root(doc), cells, error)) {
        (*error)->code = IPYBOX_ERROR_INVALID;
        g_prefix_error(error, "cannot read the notebook %s: ", path);
        return NULL;
    }
    IpbGatewaySeed *seed = g_new0(IpbGatewaySeed, 1);
    seed->cells = g_steal_pointer(&cells);
    return seed;
}

void
ipb_gateway_seed_free(IpbGatewaySeed *seed)
{
    if (seed == NULL)
        return;
    g_ptr_array_unref(seed->cells);
    g_free(seed);
}

/* --- running it ------------------------------------------------------------------------------- */

static void
note_failure(IpbGatewaySeeding *seeding, const char *what, const char *text)
{
    if (seeding->failure != NULL)
        return;
    g_autofree char *whole = g_strdup_printf("%s: %s", what, text != NULL ? text : "");
    seeding->failure = g_utf8_strlen(whole, -1) > MAX_FAILURE
                           ? g_utf8_substring(whole, 0, MAX_FAILURE)
                           : g_steal_pointer(&whole);
}

static void run_next(IpbGatewaySeeding *seeding);

static void
on_event(const IpbEvent *event, void *data)
{
    IpbGatewaySeeding *seeding = data;
    if (event->type == IPB_EVENT_ERROR)
        note_failure(seeding, event->ename, event->evalue);
    if (event->type != IPB_EVENT_DONE)
        return;
    if (event->status == IPB_CELL_OK) {
        run_next(seeding);
        return;
    }
    note_failure(seeding, ipb_cell_status_name(event->status), event->text);
    seeding->done(seeding->failure, seeding->data); /* may free it */
}

/* What cells print and display belongs to no client, and is dropped. */
static void
run_next(IpbGatewaySeeding *seeding)
{
    g_autoptr(GError) error = NULL;
    if (seeding->next == seeding->seed->cells->len) {
        seeding->done(NULL, seeding->data);
        return;
    }
    const char *code = g_ptr_array_index(seeding->seed->cells, seeding->next++);
    IpbCellOptions options = {.timeout_ms = CELL_TIMEOUT_MS};
    g_clear_pointer(&seeding->failure, g_free);
    if (ipb_session_execute_with(seeding->session, code, &options, on_event, seeding, &error) == 0)
        seeding->done(error->message, seeding->data);
}

static void
on_timer(void *data)
{
    IpbGatewaySeeding *seeding = data;
    g_clear_pointer(&seeding->timer, ipb_timer_free);
    run_next(seeding);
}

IpbGatewaySeeding *
ipb_gateway_seeding_new(const IpbGatewaySeed *seed, IpbLoop *loop, IpbSession *session,
                        void (*done)(const char *failure, void *data), void *data)
{
    IpbGatewaySeeding *seeding = g_new0(IpbGatewaySeeding, 1);
    seeding->seed = seed;
    seeding->session = session;
    seeding->done = done;
    seeding->data = data;
    seeding->timer = ipb_timer_new(loop, 0, on_timer, seeding);
    return seeding;
}

void
ipb_gateway_seeding_free(IpbGatewaySeeding *seeding)
{
    if (seeding == NULL)
        return;
    ipb_timer_free(seeding->timer);
    g_free(seeding->failure);
    g_free(seeding);
}
