/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of JSON text, eight at a time, and UTF-8 sequences, for the scanner and the writer.
 *
 * In a mask, the high bit of each matching byte is set. Bits above the lowest set one may be wrong
 * (a borrow), so only the first match counts; see ipb_bytes_first.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <glib.h>

#define IPB_BYTES_WORD 8
#define IPB_BYTES_ALL(byte) (UINT64_C(0x0101010101010101) * (uint8_t) (byte))
#define IPB_BYTES_HIGH_BITS IPB_BYTES_ALL(0x80)

/* The eight bytes at @at, the first in the lowest bits. */
static inline uint64_t
ipb_bytes_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return GUINT64_FROM_LE(word);
}

static inline uint64_t
ipb_bytes_match(uint64_t word, uint8_t byte)
{
    uint64_t zero = word ^ IPB_BYTES_ALL(byte);
    return (zero - IPB_BYTES_ALL(1)) & ~zero & IPB_BYTES_HIGH_BITS;
}

/* Matches bytes that cannot be copied unchanged within a string: quote, backslash, controls and
 * non-ASCII. */
static inline uint64_t
ipb_bytes_match_special(uint64_t word)
{
    uint64_t control = (word - IPB_BYTES_ALL(0x20)) & ~word;
    return ipb_bytes_match(word, '"') | ipb_bytes_match(word, '\\') |
           ((control | word) & IPB_BYTES_HIGH_BITS);
}

/* Index of the first match. @mask is not 0. */
static inline size_t
ipb_bytes_first(uint64_t mask)
{
    return (size_t) __builtin_ctzll(mask) / 8;
}

/* The size (2 to 4) of the UTF-8 sequence at @at, whose first byte is not ASCII. If it is invalid:
 * minus the number of bytes that one U+FFFD replaces. Surrogates, overlong forms and code points
 * above U+10FFFF are invalid. */
static inline int
ipb_bytes_sequence(const char *at, size_t available)
{
    const uint8_t *bytes = (const uint8_t *) at;
    /* Range of the second byte */
    uint8_t low = 0x80, high = 0xbf;
    int size;
    if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf) {
        size = 2;
    } else if ((bytes[0] & 0xf0) == 0xe0) {
        size = 3;
        if (bytes[0] == 0xe0)
            low = 0xa0;
        else if (bytes[0] == 0xed)
            high = 0x9f;
    } else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4) {
        size = 4;
        if (bytes[0] == 0xf0)
            low = 0x90;
        else if (bytes[0] == 0xf4)
            high = 0x8f;
    } else {
        return -1;
    }
    for (int i = 1; i < size; i++) {
        if ((size_t) i >= available || bytes[i] < low || bytes[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return size;
}

/* Is the valid sequence at @at U+2028 or U+2029, which are line ends in JavaScript? */
static inline gboolean
ipb_bytes_is_separator(const char *at)
{
    return (uint8_t) at[0] == 0xe2 && (uint8_t) at[1] == 0x80 && ((uint8_t) at[2] & 0xfe) == 0xa8;
}
