/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8: characters are counted, and byte streams decoded. Output of cells passes here, so both
 * take eight bytes at a time.
 *
 * IpbUtf8Decoder: makes valid UTF-8 of a byte stream that arrives in pieces. An invalid sequence
 * becomes U+FFFD. A sequence that is cut by the end of a piece waits for the next piece.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

typedef struct {
    uint8_t pending[4];
    size_t n_pending;
} IpbUtf8Decoder;

/* Whether a byte does not continue a character. */
static inline bool
ipb_utf8_begins_char(char byte)
{
    return ((unsigned char) byte & 0xc0) != 0x80;
}

/* How many characters begin in @bytes, so what is not UTF-8 can be counted, too. */
size_t ipb_utf8_count(const char *bytes, size_t size);
/* The size of the first @n_chars characters, counted likewise. */
size_t ipb_utf8_size_of(const char *bytes, size_t size, size_t n_chars);

/* Skips the byte order mark (EF BB BF) at the beginning of a text. Returns true if there was
 * one. */
bool ipb_utf8_skip_mark(const char **text, size_t *size);

/* Appends the decoded text to @out. With @is_end a waiting sequence becomes U+FFFD. */
void ipb_utf8_decode(IpbUtf8Decoder *decoder, const void *bytes, size_t size, bool is_end,
                     GString *out);
