/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbNotebook: a notebook (nbformat 4.0 – 4.5) whose code cells are run. Its text is kept byte for
 * byte, except the outputs and execution counts of cells that were run.
 *
 * Ownership: the owner frees it; cells are borrowed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbNotebook IpbNotebook;

/* A code cell that is to be run. */
typedef struct {
    size_t number; /* in the notebook, from 1 */
    char *source;
    bool may_raise; /* it has the tag "raises-exception" */
} IpbNotebookCell;

/* Errors: PROTOCOL (it is no JSON, or no notebook), INVALID (of another version), LIMIT. */
IpbNotebook *ipb_notebook_parse(const char *text, size_t size, GError **error);
void ipb_notebook_free(IpbNotebook *notebook);
/* IpbNotebookCell: the code cells with code, without those tagged "skip-execution". */
const GPtrArray *ipb_notebook_cells(const IpbNotebook *notebook);
/* Sets what a cell came to. @outputs: a JSON array on one line. @execution_count: 0 for null. */
void ipb_notebook_set_outputs(IpbNotebook *notebook, size_t cell, const char *outputs,
                              int64_t execution_count);
/* The notebook's text, NUL-terminated. The caller frees it. */
char *ipb_notebook_write(const IpbNotebook *notebook, size_t *ret_size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbNotebook, ipb_notebook_free)
