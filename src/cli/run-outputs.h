/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRunOutputs: what the cells of a session of libipybox have shown, as Jupyter keeps it. Cells
 * have indexes in the order in which they began.
 *
 * Ownership: the owner frees it; what is in it is borrowed.
 */
#pragma once

#include <ipybox/ipybox.h>

#include "notebook/outputs.h"

typedef struct IpbRunOutputs IpbRunOutputs;

IpbRunOutputs *ipb_run_outputs_new(void);
void ipb_run_outputs_free(IpbRunOutputs *run);

void ipb_run_outputs_begin_cell(IpbRunOutputs *run);
/* Adds an event of the current cell, or a late one of an earlier cell. */
void ipb_run_outputs_add(IpbRunOutputs *run, const IpyboxEvent *event);
/* Adds a line to standard error of the current cell. */
void ipb_run_outputs_add_line(IpbRunOutputs *run, const char *text);
/* The current cell has ended. */
void ipb_run_outputs_end_cell(IpbRunOutputs *run, int64_t execution_count);

/* 0: the cell did not run. */
int64_t ipb_run_outputs_count(const IpbRunOutputs *run, size_t cell);
const IpbOutputs *ipb_run_outputs_get(const IpbRunOutputs *run);
/* The first error of adding an event, after which nothing is added. LIMIT: see
 * ipb_outputs_check_size(). NULL: there was none. */
const GError *ipb_run_outputs_error(const IpbRunOutputs *run);
