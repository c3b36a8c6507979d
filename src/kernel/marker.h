/* SPDX-License-Identifier: Apache-2.0
 *
 * Markers: the 18 bytes that a kernel writes into its output pipes to put text and frames in order
 * (docs/internals/kernel-wire.md). NUL, the 12 bytes of the key, the number (little-endian), "\n".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/utf8.h"

#define IPB_MARKER_KEY_SIZE 12
#define IPB_MARKER_SIZE 18

typedef enum {
    IPB_MARKER_NONE,  /* all of it is text */
    IPB_MARKER_FOUND, /* text, then a marker */
    IPB_MARKER_CUT,   /* text, then up to the end what may be the beginning of a marker */
} IpbMarkerResult;

/* Finds the first marker with a number greater than @after. A marker with a lower number is a copy
 * of an old one, so it is text. *@ret_text_size: the size of the text before the marker. */
IpbMarkerResult ipb_marker_find(const uint8_t *key, uint32_t after, const uint8_t *bytes,
                                size_t size, size_t *ret_text_size, uint32_t *ret_number);

/* Appends output as valid UTF-8 text. A NUL becomes U+2400. */
void ipb_marker_decode_text(IpbUtf8Decoder *decoder, const uint8_t *bytes, size_t size,
                            GString *out);
/* Call it at the end of the text: appends what is left in the decoder. */
void ipb_marker_decode_end(IpbUtf8Decoder *decoder, GString *out);
