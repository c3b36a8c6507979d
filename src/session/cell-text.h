/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCellText: makes one text of a cell's events, as the results of ipybox 0.9 have it: what was
 * printed, displayed and returned, in order. Paths of images, and notices, are kept beside it. The
 * text is limited to a number of characters: see clipped-text.h.
 */
#pragma once

#include "session/session.h"

typedef struct IpbCellText IpbCellText;

/* @max_chars: of the text; SIZE_MAX: the maximum that is kept at all (256 MiB). */
IpbCellText *ipb_cell_text_new(size_t max_chars);
/* As in the SDK of ipybox 0.9: output and displays follow each other without added line breaks,
 * updates of displays are left out, and white space at both ends is removed. */
IpbCellText *ipb_cell_text_new_joined(size_t max_chars);
/* From now on a line says where output of cells that have ended begins, and where it ends. */
void ipb_cell_text_mark_late(IpbCellText *text);
void ipb_cell_text_free(IpbCellText *text);
/* Adds the text of an event. */
void ipb_cell_text_add(IpbCellText *text, const IpbEvent *event);
/* Of a joined text: what the last event added, before the text was cut; NULL: nothing. */
const char *ipb_cell_text_added(const IpbCellText *text);
/* Whether any event added text, even if only blanks. */
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
/* The notices, "[ipybox] …", in order, including those that are also in the text. */
const GPtrArray *ipb_cell_text_notices(const IpbCellText *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbCellText, ipb_cell_text_free)
