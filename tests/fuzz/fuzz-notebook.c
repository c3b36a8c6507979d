/* SPDX-License-Identifier: Apache-2.0
 *
 * Notebooks that are run: without outputs the text is kept byte for byte; with outputs it is a
 * notebook again, with the same cells and these outputs.
 */
#include <stdint.h>
#include <string.h>

#include "json/json.h"
#include "notebook/notebook.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUTPUTS "[{\"name\":\"stdout\",\"output_type\":\"stream\",\"text\":[\"a\\n\"]},[],{}]"

static void
check_cells(const IpbNotebook *before, const IpbNotebook *after)
{
    const GPtrArray *old_cells = ipb_notebook_cells(before), *cells = ipb_notebook_cells(after);
    g_assert(cells->len == old_cells->len);
    for (guint i = 0; i < cells->len; i++) {
        const IpbNotebookCell *old = g_ptr_array_index(old_cells, i);
        const IpbNotebookCell *cell = g_ptr_array_index(cells, i);
        g_assert(cell->number == old->number && cell->may_raise == old->may_raise);
        g_assert(g_str_equal(cell->source, old->source));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbNotebook) notebook = ipb_notebook_parse((const char *) data, size, &error);
    g_assert((notebook == NULL) == (error != NULL));
    if (notebook == NULL)
        return 0;
    size_t new_size;
    g_autofree char *same = ipb_notebook_write(notebook, &new_size);
    g_assert(new_size == size && memcmp(same, data, size) == 0);
    guint n_cells = ipb_notebook_cells(notebook)->len;
    for (guint i = 0; i < n_cells; i++)
        ipb_notebook_set_outputs(notebook, i, OUTPUTS, i);
    g_autofree char *text = ipb_notebook_write(notebook, &new_size);
    g_autoptr(IpbNotebook) again = ipb_notebook_parse(text, new_size, &error);
    g_assert_no_error(error);
    check_cells(notebook, again);
    for (guint i = 0; i < n_cells; i++)
        ipb_notebook_set_outputs(again, i, OUTPUTS, i);
    size_t last_size;
    g_autofree char *last = ipb_notebook_write(again, &last_size);
    g_assert(last_size == new_size && memcmp(last, text, new_size) == 0);
    return 0;
}
