/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs of cells; see the header.
 */
#include "notebook/outputs.h"

#include <string.h>

#include "base/error.h"

/* Bytes of all outputs that are kept. */
#define MAX_SIZE ((size_t) 512 * 1024 * 1024)
#define UNKNOWN_MARK "[ipybox] written by code of an unknown cell:\n"
#define OWN_MARK "[ipybox] written by this cell:\n"

typedef struct {
    GPtrArray *list; /* IpbNotebookOutput */
    bool clears;     /* when the next output comes */
    bool is_unknown; /* what comes is output of an unknown cell */
} Cell;

struct IpbOutputs {
    GPtrArray *cells;     /* Cell */
    GHashTable *displays; /* display_id → IpbNotebookBundle, both of the outputs that show it */
    size_t size; /* of all outputs, as if they shared nothing: a document has all of them */
};

static size_t
size_of_text(const char *text)
{
    return text != NULL ? strlen(text) : 0;
}

static size_t
size_of_bundle(const IpbNotebookBundle *bundle)
{
    return bundle != NULL ? size_of_text(bundle->data) + size_of_text(bundle->metadata) : 0;
}

static size_t
size_of(const IpbNotebookOutput *output)
{
    return sizeof *output + (output->text != NULL ? output->text->len : 0) +
           size_of_bundle(output->bundle) + size_of_text(output->ename) +
           size_of_text(output->evalue) + size_of_text(output->traceback);
}

static void
leave_bundle(IpbNotebookBundle *bundle)
{
    if (bundle == NULL || --bundle->n_outputs > 0)
        return;
    g_free(bundle->display_id);
    g_free(bundle->data);
    g_free(bundle->metadata);
    g_free(bundle);
}

static void
free_output(void *data)
{
    IpbNotebookOutput *output = data;
    if (output->text != NULL)
        g_string_free(output->text, TRUE);
    leave_bundle(output->bundle);
    g_free(output->ename);
    g_free(output->evalue);
    g_free(output->traceback);
    g_free(output);
}

static void
free_cell(void *data)
{
    Cell *cell = data;
    g_ptr_array_unref(cell->list);
    g_free(cell);
}

IpbOutputs *
ipb_outputs_new(void)
{
    IpbOutputs *outputs = g_new0(IpbOutputs, 1);
    outputs->cells = g_ptr_array_new_with_free_func(free_cell);
    outputs->displays = g_hash_table_new(g_str_hash, g_str_equal);
    return outputs;
}

void
ipb_outputs_free(IpbOutputs *outputs)
{
    if (outputs == NULL)
        return;
    g_hash_table_unref(outputs->displays);
    g_ptr_array_unref(outputs->cells);
    g_free(outputs);
}

size_t
ipb_outputs_add_cell(IpbOutputs *outputs)
{
    Cell *cell = g_new0(Cell, 1);
    cell->list = g_ptr_array_new_with_free_func(free_output);
    g_ptr_array_add(outputs->cells, cell);
    return outputs->cells->len - 1;
}

void
ipb_outputs_forget_displays(IpbOutputs *outputs)
{
    g_hash_table_remove_all(outputs->displays);
}

const GPtrArray *
ipb_outputs_get(const IpbOutputs *outputs, size_t cell)
{
    return ((const Cell *) g_ptr_array_index(outputs->cells, cell))->list;
}

bool
ipb_outputs_check_size(const IpbOutputs *outputs, GError **error)
{
    if (outputs->size <= MAX_SIZE)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "the outputs are larger than %zu MiB",
                MAX_SIZE >> 20);
    return false;
}

/* --- changes ---------------------------------------------------------------------------------- */

/* The bundle that displays with this id show; NULL: there is none. */
static IpbNotebookBundle *
find_bundle(const IpbOutputs *outputs, const char *display_id)
{
    return display_id != NULL ? g_hash_table_lookup(outputs->displays, display_id) : NULL;
}

static void
clear(IpbOutputs *outputs, Cell *cell)
{
    cell->clears = false;
    while (cell->list->len > 0) {
        const IpbNotebookOutput *output = g_ptr_array_index(cell->list, cell->list->len - 1);
        const IpbNotebookBundle *bundle = output->bundle;
        outputs->size -= size_of(output);
        if (bundle != NULL && bundle->n_outputs == 1 &&
            find_bundle(outputs, bundle->display_id) == bundle)
            g_hash_table_remove(outputs->displays, bundle->display_id);
        g_ptr_array_set_size(cell->list, (int) cell->list->len - 1);
    }
}

void
ipb_outputs_clear(IpbOutputs *outputs, size_t index, bool waits)
{
    Cell *cell = g_ptr_array_index(outputs->cells, index);
    if (waits)
        cell->clears = true;
    else
        clear(outputs, cell);
}

/* The cell, about to get an output. */
static Cell *
begin_output(IpbOutputs *outputs, size_t index)
{
    Cell *cell = g_ptr_array_index(outputs->cells, index);
    if (cell->clears)
        clear(outputs, cell);
    return cell;
}

/* Takes @output. */
static void
add(IpbOutputs *outputs, Cell *cell, IpbNotebookOutput *output)
{
    outputs->size += size_of(output);
    g_ptr_array_add(cell->list, output);
}

void
ipb_outputs_add_text(IpbOutputs *outputs, size_t index, bool is_stderr, const char *text)
{
    if (*text == '\0')
        return;
    Cell *cell = begin_output(outputs, index);
    IpbNotebookOutput *last =
        cell->list->len > 0 ? g_ptr_array_index(cell->list, cell->list->len - 1) : NULL;
    if (last != NULL && last->kind == IPB_OUTPUT_STREAM && last->is_stderr == is_stderr) {
        g_string_append(last->text, text);
        outputs->size += strlen(text);
        return;
    }
    IpbNotebookOutput *output = g_new0(IpbNotebookOutput, 1);
    output->kind = IPB_OUTPUT_STREAM;
    output->is_stderr = is_stderr;
    output->text = g_string_new(text);
    add(outputs, cell, output);
}

/* Whether a text that is added now would begin within a line. */
static bool
is_line_open(const Cell *cell)
{
    const IpbNotebookOutput *last =
        cell->list->len > 0 ? g_ptr_array_index(cell->list, cell->list->len - 1) : NULL;
    return last != NULL && last->kind == IPB_OUTPUT_STREAM && !last->is_stderr &&
           last->text->str[last->text->len - 1] != '\n';
}

void
ipb_outputs_set_unknown(IpbOutputs *outputs, size_t index, bool is_unknown)
{
    Cell *cell = g_ptr_array_index(outputs->cells, index);
    if (cell->is_unknown == is_unknown)
        return;
    cell->is_unknown = is_unknown;
    begin_output(outputs, index);
    if (is_line_open(cell))
        ipb_outputs_add_text(outputs, index, false, "\n");
    ipb_outputs_add_text(outputs, index, false, is_unknown ? UNKNOWN_MARK : OWN_MARK);
}

void
ipb_outputs_add_error(IpbOutputs *outputs, size_t index, const char *ename, const char *evalue,
                      const char *traceback)
{
    IpbNotebookOutput *output = g_new0(IpbNotebookOutput, 1);
    output->kind = IPB_OUTPUT_ERROR;
    output->ename = g_strdup(ename);
    output->evalue = g_strdup(evalue);
    output->traceback = g_strdup(traceback);
    add(outputs, begin_output(outputs, index), output);
}

void
ipb_outputs_set_execution_count(IpbOutputs *outputs, size_t index, int64_t execution_count)
{
    const GPtrArray *list = ipb_outputs_get(outputs, index);
    for (guint i = 0; i < list->len; i++)
        ((IpbNotebookOutput *) g_ptr_array_index(list, i))->execution_count = execution_count;
}

bool
ipb_outputs_is_json_type(const char *mime_type)
{
    return g_str_equal(mime_type, "application/json") ||
           (g_str_has_prefix(mime_type, "application/") && g_str_has_suffix(mime_type, "+json"));
}

static bool
check_bundle(const IpbJson *data, GError **error)
{
    if (!ipb_json_is(data, IPB_JSON_OBJECT)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                            "\"data\" must be an object");
        return false;
    }
    IPB_JSON_FOREACH (value, data) {
        size_t size;
        const char *type = ipb_json_name(value, &size);
        if (strlen(type) == size &&
            (ipb_json_is(value, IPB_JSON_STRING) || ipb_outputs_is_json_type(type)))
            continue;
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                            "\"data\" has a value that is not a string, and not of a JSON type");
        return false;
    }
    return true;
}

static char *
copy_object(const IpbJson *object)
{
    if (!ipb_json_is(object, IPB_JSON_OBJECT))
        return g_strdup("{}");
    IpbSpan raw = ipb_json_raw(object);
    return g_strndup(raw.start, raw.size);
}

static void
set_bundle(IpbOutputs *outputs, IpbNotebookBundle *bundle, const IpbJson *data,
           const IpbJson *metadata)
{
    outputs->size -= size_of_bundle(bundle) * bundle->n_outputs;
    g_free(bundle->data);
    g_free(bundle->metadata);
    bundle->data = copy_object(data);
    bundle->metadata = copy_object(metadata);
    outputs->size += size_of_bundle(bundle) * bundle->n_outputs;
}

bool
ipb_outputs_add_bundle(IpbOutputs *outputs, size_t index, IpbOutputKind kind, const IpbJson *data,
                       const IpbJson *metadata, const char *display_id, int64_t execution_count,
                       GError **error)
{
    if (!check_bundle(data, error))
        return false;
    Cell *cell = begin_output(outputs, index); /* which may clear displays with this id */
    IpbNotebookBundle *bundle = find_bundle(outputs, display_id);
    if (bundle == NULL) {
        bundle = g_new0(IpbNotebookBundle, 1);
        bundle->display_id = g_strdup(display_id);
        if (display_id != NULL)
            g_hash_table_insert(outputs->displays, bundle->display_id, bundle);
    }
    set_bundle(outputs, bundle, data, metadata);
    bundle->n_outputs++;
    IpbNotebookOutput *output = g_new0(IpbNotebookOutput, 1);
    output->kind = kind;
    output->bundle = bundle;
    output->execution_count = execution_count;
    add(outputs, cell, output);
    return true;
}

bool
ipb_outputs_update(IpbOutputs *outputs, const IpbJson *data, const IpbJson *metadata,
                   const char *display_id, GError **error)
{
    if (!check_bundle(data, error))
        return false;
    IpbNotebookBundle *bundle = find_bundle(outputs, display_id);
    if (bundle != NULL)
        set_bundle(outputs, bundle, data, metadata);
    return ipb_outputs_check_size(outputs, error);
}
