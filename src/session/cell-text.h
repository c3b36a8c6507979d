/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCellText: a cell's events as one text, the way the original's results read: what was printed, what was shown and
 * what was returned, in order; images as paths and notices beside it. Bounded by a number of characters: see clipped-text.h.
 */
#pragma once

#include "session/session.h"

typedef struct IpbCellText IpbCellText;

/* @max_chars: of the text; SIZE_MAX: as much as is kept at all (256 MiB). */
IpbCellText *ipb_cell_text_new(size_t max_chars);
/* As the original's SDK has it: what was printed and shown follows each other as it came, without lines of its own; updates of
 * displays are left out; blanks at both ends go. */
IpbCellText *ipb_cell_text_new_joined(size_t max_chars);
void ipb_cell_text_free(IpbCellText *text);
/* Adds what the event contributes. */
void ipb_cell_text_add(IpbCellText *text, const IpbEvent *event);
/* Of a joined text: what the last event added, before the text was cut; NULL: nothing. */
const char *ipb_cell_text_added(const IpbCellText *text);
/* Did anything add, were it blanks? */
bool ipb_cell_text_has_output(const IpbCellText *text);
/* The text so far, without blank lines before it and white space after it. */
char *ipb_cell_text_get(const IpbCellText *text);
/* The text so far, with all its blanks. */
char *ipb_cell_text_get_raw(const IpbCellText *text);
bool ipb_cell_text_is_truncated(const IpbCellText *text);
/* The cell's error as "name: message", newline, traceback; or NULL. */
const char *ipb_cell_text_error(const IpbCellText *text);
/* Paths of the images, in order. */
const GPtrArray *ipb_cell_text_images(const IpbCellText *text);
/* The notices, "[ipybox] …", in order. Those that are in the text, too, are among them. */
const GPtrArray *ipb_cell_text_notices(const IpbCellText *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbCellText, ipb_cell_text_free)
