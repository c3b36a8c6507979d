/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRunNotebook: a notebook file that `ipybox run` executes: the code of its cells, one after the
 * other, and what they come to. Saving replaces the file in one step, unless it was changed by
 * others in between. Cells may write the workspace: below it no link is followed.
 *
 * Ownership: the verb frees it.
 */
#pragma once

#include <stdbool.h>

#include <ipybox/ipybox.h>

typedef struct IpbRunNotebook IpbRunNotebook;

/* Reads the file. @base: the workspace of a sandbox, or NULL. @saves: it will be saved, which is
 * tried out as far as possible. */
IpbRunNotebook *ipb_run_notebook_open(const char *base, const char *path, bool saves,
                                      GError **error);
void ipb_run_notebook_free(IpbRunNotebook *notebook);

/* Goes to the next cell. Returns its code; NULL: there is none. Borrowed. */
const char *ipb_run_notebook_next(IpbRunNotebook *notebook);
/* What happens in the cell. */
void ipb_run_notebook_add(IpbRunNotebook *notebook, const IpyboxEvent *event);
/* The cell has ended. Returns whether the next one may run. */
bool ipb_run_notebook_end_cell(IpbRunNotebook *notebook, const IpyboxResult *result);
/* The number of the cell in the notebook, from 1. */
size_t ipb_run_notebook_number(const IpbRunNotebook *notebook);
/* Writes the outputs of the cells that were run into the file, if it was opened for that. */
bool ipb_run_notebook_save(IpbRunNotebook *notebook, GError **error);
