/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds markers in output, and makes text of the rest; see the header. Speed matters here: output
 * without a NUL costs one memchr and one validating copy.
 */
#include "kernel/marker.h"

#include <string.h>

#define NUL_SYMBOL "\xe2\x90\x80" /* U+2400 */

/* Compares the @size bytes at a NUL with a marker. */
static IpbMarkerResult
match(const uint8_t *key, const uint8_t *bytes, size_t size, uint32_t *ret_number)
{
    size_t n_key = MIN(size - 1, IPB_MARKER_KEY_SIZE);
    if (memcmp(bytes + 1, key, n_key) != 0)
        return IPB_MARKER_NONE;
    if (size < IPB_MARKER_SIZE)
        return IPB_MARKER_CUT;
    if (bytes[IPB_MARKER_SIZE - 1] != '\n')
        return IPB_MARKER_NONE;
    uint32_t number;
    memcpy(&number, bytes + 1 + IPB_MARKER_KEY_SIZE, sizeof number);
    *ret_number = GUINT32_FROM_LE(number);
    return IPB_MARKER_FOUND;
}

IpbMarkerResult
ipb_marker_find(const uint8_t *key, uint32_t after, const uint8_t *bytes, size_t size,
                size_t *ret_text_size, uint32_t *ret_number)
{
    const uint8_t *p = bytes, *end = bytes + size;
    while (p < end && (p = memchr(p, '\0', (size_t) (end - p))) != NULL) {
        IpbMarkerResult result = match(key, p, (size_t) (end - p), ret_number);
        if (result == IPB_MARKER_CUT || (result == IPB_MARKER_FOUND && *ret_number > after)) {
            *ret_text_size = (size_t) (p - bytes);
            return result;
        }
        p++;
    }
    *ret_text_size = size;
    return IPB_MARKER_NONE;
}

void
ipb_marker_decode_end(IpbUtf8Decoder *decoder, GString *out)
{
    if (decoder->n_pending > 0)
        ipb_utf8_decode(decoder, "", 0, true, out);
}

void
ipb_marker_decode_text(IpbUtf8Decoder *decoder, const uint8_t *bytes, size_t size, GString *out)
{
    if (size == 0)
        return; /* @bytes may be NULL */
    const uint8_t *end = bytes + size;
    while (bytes < end) {
        const uint8_t *nul = memchr(bytes, '\0', (size_t) (end - bytes));
        const uint8_t *text_end = nul != NULL ? nul : end;
        if (text_end > bytes)
            ipb_utf8_decode(decoder, bytes, (size_t) (text_end - bytes), /* is_end= */ false, out);
        for (bytes = text_end; bytes < end && *bytes == '\0'; bytes++) {
            ipb_marker_decode_end(decoder, out);
            g_string_append_len(out, NUL_SYMBOL, strlen(NUL_SYMBOL));
        }
    }
}
