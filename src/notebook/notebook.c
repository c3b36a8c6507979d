/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and changes a notebook; see the header.
 */
#include "notebook/notebook.h"

#include <string.h>

#include "base/error.h"
#include "json/json.h"
#include "notebook/indent.h"

#define MAX_MINOR 5
#define MAX_CELLS 100000
/* Containers that the members of a cell are in. */
#define DEPTH_OF_MEMBERS 3
#define MAX_INDENT 8

/* The place of a value in the text. */
typedef struct {
    size_t offset, size;
} Place;

typedef struct {
    IpbNotebookCell cell; /* the first member */
    Place outputs, execution_count;
    char *new_outputs; /* NULL: not run */
    int64_t new_count;
} Cell;

struct IpbNotebook {
    char *text;
    size_t size;
    unsigned indent;  /* spaces; 0: on one line */
    GPtrArray *cells; /* Cell */
};

static void
free_cell(void *data)
{
    Cell *cell = data;
    g_free(cell->cell.source);
    g_free(cell->new_outputs);
    g_free(cell);
}

void
ipb_notebook_free(IpbNotebook *notebook)
{
    if (notebook == NULL)
        return;
    g_ptr_array_unref(notebook->cells);
    g_free(notebook->text);
    g_free(notebook);
}

const GPtrArray *
ipb_notebook_cells(const IpbNotebook *notebook)
{
    return notebook->cells;
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool
refuse(GError **error, size_t number, const char *what)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "cell %zu %s", number, what);
    return false;
}

/* How the file is indented: by the spaces before the first member of the notebook. Tabs count as
 * none. */
static unsigned
find_indent(const char *text)
{
    const char *root = text + strspn(text, " \t\r\n");
    size_t size = g_str_has_prefix(root, "{\n") ? strspn(root + 2, " ") : 0;
    return (unsigned) MIN(size, MAX_INDENT);
}

static bool
add_source(GString *source, const IpbJson *value)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL || strlen(text) != size || !g_utf8_validate_len(text, size, NULL))
        return false;
    g_string_append_len(source, text, (gssize) size);
    return true;
}

/* A string, or an array of strings. */
static char *
read_source(const IpbJson *cell, size_t number, GError **error)
{
    const IpbJson *value = ipb_json_get(cell, "source");
    g_autoptr(GString) source = g_string_new(NULL);
    bool is_right = true;
    if (ipb_json_is(value, IPB_JSON_ARRAY)) {
        IPB_JSON_FOREACH (line, value)
            is_right = is_right && add_source(source, line);
    } else {
        is_right = add_source(source, value);
    }
    if (is_right)
        return g_strdup(source->str);
    refuse(error, number, "has no \"source\" that is a text or an array of texts, without NUL");
    return NULL;
}

static bool
has_tag(const IpbJson *cell, const char *tag)
{
    const IpbJson *tags = ipb_json_get(ipb_json_get(cell, "metadata"), "tags");
    if (!ipb_json_is(tags, IPB_JSON_ARRAY))
        return false;
    IPB_JSON_FOREACH (item, tags)
        if (g_strcmp0(ipb_json_string(item, NULL), tag) == 0)
            return true;
    return false;
}

static bool
is_blank(const char *source)
{
    return source[strspn(source, " \t\r\n\f\v")] == '\0';
}

static Place
find_place(const IpbJson *value, const char *start)
{
    IpbSpan raw = ipb_json_raw(value);
    return (Place){(size_t) (raw.start - start), raw.size};
}

/* @start: where the text begins in the memory of the document. */
static bool
read_code_cell(IpbNotebook *notebook, const IpbJson *value, size_t number, const char *start,
               GError **error)
{
    const IpbJson *outputs = ipb_json_get(value, "outputs");
    const IpbJson *count = ipb_json_get(value, "execution_count");
    g_autofree char *source = read_source(value, number, error);
    if (source == NULL)
        return false;
    if (!ipb_json_is(outputs, IPB_JSON_ARRAY) || count == NULL)
        return refuse(error, number, "has no \"outputs\" and \"execution_count\"");
    if (is_blank(source) || has_tag(value, "skip-execution"))
        return true;
    Cell *cell = g_new0(Cell, 1);
    cell->cell.number = number;
    cell->cell.source = g_steal_pointer(&source);
    cell->cell.may_raise = has_tag(value, "raises-exception");
    cell->outputs = find_place(outputs, start);
    cell->execution_count = find_place(count, start);
    g_ptr_array_add(notebook->cells, cell);
    return true;
}

static bool
check_version(const IpbJson *root, GError **error)
{
    int64_t major, minor;
    if (!ipb_json_is(root, IPB_JSON_OBJECT) || !ipb_json_get_int64(root, "nbformat", &major) ||
        !ipb_json_get_int64(root, "nbformat_minor", &minor)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                            "it is not a notebook: it has no \"nbformat\"");
        return false;
    }
    if (major == 4 && minor >= 0 && minor <= MAX_MINOR)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "it is a notebook of the format %" G_GINT64_FORMAT ".%" G_GINT64_FORMAT
                ", and 4.0 to 4.%d are known: convert it with jupyter nbconvert --to notebook",
                major, minor, MAX_MINOR);
    return false;
}

static bool
read_cells(IpbNotebook *notebook, const IpbJson *root, const char *start, GError **error)
{
    const IpbJson *cells = ipb_json_get(root, "cells");
    size_t number = 0;
    if (!ipb_json_is(cells, IPB_JSON_ARRAY) || ipb_json_length(cells) > MAX_CELLS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "it is not a notebook: \"cells\" must be an array of at most %d", MAX_CELLS);
        return false;
    }
    IPB_JSON_FOREACH (cell, cells) {
        const char *type = ipb_json_get_string(cell, "cell_type");
        number++;
        if (type == NULL)
            return refuse(error, number, "has no \"cell_type\"");
        if (g_str_equal(type, "code") && !read_code_cell(notebook, cell, number, start, error))
            return false;
    }
    return true;
}

IpbNotebook *
ipb_notebook_parse(const char *text, size_t size, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, error);
    if (document == NULL || !check_version(ipb_json_root(document), error))
        return NULL;
    g_autoptr(IpbNotebook) notebook = g_new0(IpbNotebook, 1);
    notebook->text = g_strndup(text, size);
    notebook->size = size;
    notebook->indent = find_indent(notebook->text);
    notebook->cells = g_ptr_array_new_with_free_func(free_cell);
    const IpbJson *root = ipb_json_root(document);
    const char *start = ipb_json_raw(root).start - strspn(notebook->text, " \t\r\n");
    return read_cells(notebook, root, start, error) ? g_steal_pointer(&notebook) : NULL;
}

/* --- writing ---------------------------------------------------------------------------------- */

void
ipb_notebook_set_outputs(IpbNotebook *notebook, size_t index, const char *outputs,
                         int64_t execution_count)
{
    Cell *cell = g_ptr_array_index(notebook->cells, index);
    g_free(cell->new_outputs);
    cell->new_outputs = g_strdup(outputs);
    cell->new_count = execution_count;
}

/* Copies the text from *@at up to @place, and skips that. */
static void
copy_until(GString *out, const IpbNotebook *notebook, size_t *at, Place place)
{
    g_string_append_len(out, notebook->text + *at, (gssize) (place.offset - *at));
    *at = place.offset + place.size;
}

static void
write_outputs(GString *out, const IpbNotebook *notebook, size_t *at, const Cell *cell)
{
    copy_until(out, notebook, at, cell->outputs);
    if (notebook->indent == 0) {
        g_string_append(out, cell->new_outputs);
        return;
    }
    size_t size;
    g_autofree char *text =
        ipb_indent_json(cell->new_outputs, notebook->indent, DEPTH_OF_MEMBERS, &size);
    g_string_append_len(out, text, (gssize) size);
}

static void
write_count(GString *out, const IpbNotebook *notebook, size_t *at, const Cell *cell)
{
    copy_until(out, notebook, at, cell->execution_count);
    if (cell->new_count > 0)
        g_string_append_printf(out, "%" G_GINT64_FORMAT, cell->new_count);
    else
        g_string_append(out, "null");
}

char *
ipb_notebook_write(const IpbNotebook *notebook, size_t *ret_size)
{
    GString *out = g_string_sized_new(notebook->size);
    size_t at = 0;
    for (guint i = 0; i < notebook->cells->len; i++) {
        const Cell *cell = g_ptr_array_index(notebook->cells, i);
        if (cell->new_outputs == NULL)
            continue;
        bool is_count_first = cell->execution_count.offset < cell->outputs.offset;
        if (is_count_first)
            write_count(out, notebook, &at, cell);
        write_outputs(out, notebook, &at, cell);
        if (!is_count_first)
            write_count(out, notebook, &at, cell);
    }
    copy_until(out, notebook, &at, (Place){notebook->size, 0});
    *ret_size = out->len;
    return g_string_free(out, FALSE);
}
