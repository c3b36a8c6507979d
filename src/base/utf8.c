/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting, and incremental decoding with replacement; see the header.
 */
#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* The lowest and the highest bit of each of eight bytes. */
#define LOW_BITS UINT64_C(0x0101010101010101)
#define HIGH_BITS UINT64_C(0x8080808080808080)

static uint64_t
load(const void *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* --- counting --------------------------------------------------------------------------------- */

/* Of eight bytes. Those that continue a character have the two highest bits 10. The product has the
 * sum of the eight bytes in its highest one. */
static size_t
count_word(uint64_t word)
{
    uint64_t continues = (word >> 7) & ~(word >> 6) & LOW_BITS;
    return 8 - (size_t) ((continues * LOW_BITS) >> 56);
}

size_t
ipb_utf8_count(const char *bytes, size_t size)
{
    size_t i = 0, n = 0;
    for (; size - i >= sizeof(uint64_t); i += sizeof(uint64_t))
        n += count_word(load(bytes + i));
    for (; i < size; i++)
        n += ipb_utf8_begins_char(bytes[i]);
    return n;
}

size_t
ipb_utf8_size_of(const char *bytes, size_t size, size_t n_chars)
{
    size_t i = 0;
    for (; size - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
        size_t n = count_word(load(bytes + i));
        if (n > n_chars)
            break;
        n_chars -= n;
    }
    for (; i < size; i++)
        if (ipb_utf8_begins_char(bytes[i]) && n_chars-- == 0)
            break;
    return i;
}

/* --- decoding --------------------------------------------------------------------------------- */

/* Length of a sequence by its first byte; 0 if no sequence begins with it. */
static size_t
sequence_length(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    if (first >= 0xf0 && first < 0xf5)
        return 4;
    return 0;
}

/* How many of the @size bytes are the beginning of one valid sequence (Unicode table 3-7). */
static size_t
valid_prefix(const uint8_t *bytes, size_t size)
{
    size_t length = sequence_length(bytes[0]);
    if (length == 0)
        return 0;
    size_t n = 1;
    for (; n < length && n < size; n++) {
        uint8_t low = 0x80, high = 0xbf;
        if (n == 1 && bytes[0] == 0xe0)
            low = 0xa0;
        else if (n == 1 && bytes[0] == 0xed)
            high = 0x9f;
        else if (n == 1 && bytes[0] == 0xf0)
            low = 0x90;
        else if (n == 1 && bytes[0] == 0xf4)
            high = 0x8f;
        if (bytes[n] < low || bytes[n] > high)
            break;
    }
    return n;
}

/* How many bytes at the beginning are ASCII; up to seven more may be. */
static size_t
ascii_prefix(const uint8_t *bytes, size_t size)
{
    size_t i = 0;
    while (size - i >= sizeof(uint64_t) && (load(bytes + i) & HIGH_BITS) == 0)
        i += sizeof(uint64_t);
    return i;
}

/* Decodes the sequence at @bytes. Returns how many bytes it took; 0 if it is cut by the end. */
static size_t
decode_one(const uint8_t *bytes, size_t size, GString *out)
{
    size_t n = valid_prefix(bytes, size);
    if (n > 0 && n == sequence_length(bytes[0])) {
        g_string_append_len(out, (const char *) bytes, (gssize) n);
        return n;
    }
    if (n > 0 && n == size)
        return 0;
    g_string_append(out, REPLACEMENT);
    return MAX(n, 1);
}

void
ipb_utf8_decode(IpbUtf8Decoder *decoder, const void *bytes, size_t size, bool is_end, GString *out)
{
    const uint8_t *p = bytes, *end = p + size;
    /* Complete a sequence of the last piece, byte by byte. */
    while (decoder->n_pending > 0 && p < end) {
        decoder->pending[decoder->n_pending++] = *p++;
        size_t taken = decode_one(decoder->pending, decoder->n_pending, out);
        if (taken == 0)
            continue;
        decoder->n_pending -= taken;
        memmove(decoder->pending, decoder->pending + taken, decoder->n_pending);
        if (decoder->n_pending > 0) { /* the byte that broke the sequence begins a new one */
            decoder->n_pending = 0;
            p--;
        }
    }
    while (p < end) {
        /* The common case in one copy: everything up to the first invalid byte. */
        const char *begin = (const char *) p, *valid_end;
        p += ascii_prefix(p, (size_t) (end - p));
        g_utf8_validate_len((const char *) p, (gsize) (end - p), &valid_end);
        g_string_append_len(out, begin, valid_end - begin);
        p = (const uint8_t *) valid_end;
        if (p == end)
            break;
        if (*p == 0) { /* NUL is valid UTF-8, but not for GLib */
            g_string_append_c(out, '\0');
            p++;
            continue;
        }
        size_t taken = decode_one(p, (size_t) (end - p), out);
        if (taken == 0) {
            decoder->n_pending = (size_t) (end - p);
            memcpy(decoder->pending, p, decoder->n_pending);
            break;
        }
        p += taken;
    }
    if (is_end && decoder->n_pending > 0) {
        g_string_append(out, REPLACEMENT);
        decoder->n_pending = 0;
    }
}

bool
ipb_utf8_skip_mark(const char **text, size_t *size)
{
    static const char MARK[] = "\xef\xbb\xbf";
    size_t mark_size = strlen(MARK);
    if (*size < mark_size || memcmp(*text, MARK, mark_size) != 0)
        return false;
    *text += mark_size;
    *size -= mark_size;
    return true;
}
