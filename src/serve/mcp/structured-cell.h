/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbStructuredCell: the structured content of a cell's answer, for programs that would have to
 * take the text apart. Its schema is the outputSchema in tools.json.
 */
#pragma once

#include "json/writer.h"
#include "session/cell-text.h"

typedef struct IpbStructuredCell IpbStructuredCell;

/* @max_chars: of the printed text, and of the result. */
IpbStructuredCell *ipb_structured_cell_new(size_t max_chars);
void ipb_structured_cell_free(IpbStructuredCell *cell);
void ipb_structured_cell_add(IpbStructuredCell *cell, const IpbEvent *event);
/* The JSON object. @done: the DONE event; @text: has the images and notices. Caller frees. */
char *ipb_structured_cell_finish(const IpbStructuredCell *cell, const IpbEvent *done,
                                 const IpbCellText *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbStructuredCell, ipb_structured_cell_free)
