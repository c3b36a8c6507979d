/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbClippedText: the beginning and the end of a text of any length, up to a number of characters,
 * and how much was left out between them. White space at the end does not count until something
 * follows it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

typedef struct IpbClippedText IpbClippedText;

/* @max_chars: how many characters are kept. 256 MiB are the maximum in any case, also for
 * SIZE_MAX. */
IpbClippedText *ipb_clipped_text_new(size_t max_chars);
void ipb_clipped_text_free(IpbClippedText *text);
/* @piece: UTF-8 */
void ipb_clipped_text_append(IpbClippedText *text, const char *piece);
/* Whether anything was left out. */
bool ipb_clipped_text_is_cut(const IpbClippedText *text);
/* What was kept. If text was left out, a line between the two parts says how much of how much; it
 * does not count towards @max_chars. White space at the end is included as far as there is room.
 * Caller frees. */
char *ipb_clipped_text_get(const IpbClippedText *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbClippedText, ipb_clipped_text_free)
