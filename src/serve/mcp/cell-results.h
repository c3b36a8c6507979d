/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCellResults: what the last cells of a session answered, for clients that lost the connection
 * before they got it: the last 20 answers, 4 MiB in total. A cell that still runs can be waited
 * for. Nothing runs twice.
 *
 * Ownership: the tools own it, and free it before the calls that wait.
 */
#pragma once

#include "serve/mcp/served-call.h"

IpbCellResults *ipb_cell_results_new(void);
void ipb_cell_results_free(IpbCellResults *results);
/* The cell with this number was accepted. */
void ipb_cell_results_begin(IpbCellResults *results, uint64_t cell);
/* It has ended with this answer: answers the calls that wait for it. */
void ipb_cell_results_finish(IpbCellResults *results, uint64_t cell, const char *text,
                             bool is_error);
/* Answers @call with the answer of the cell, now or when it has ended. @cell 0: the newest one. */
void ipb_cell_results_get(IpbCellResults *results, IpbServedCall *call, uint64_t cell);
