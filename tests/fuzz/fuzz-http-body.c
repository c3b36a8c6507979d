/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunked body, whose end a proxy finds and whose content a server takes: both agree where it
 * ends and whether it is malformed, also if it arrives in pieces.
 */
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "http/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes what comes in pieces of @step bytes. Returns the bytes of the body, content and framing. */
static size_t
take_in_pieces(IpbHttpBody *body, const char *bytes, size_t size, size_t step, GString *content)
{
    size_t at = 0;
    for (size_t end = 0; end < size;) {
        end = MIN(end + step, size);
        while (at < end && body->state != IPB_HTTP_BODY_DONE && body->state != IPB_HTTP_BODY_BAD) {
            IpbSpan piece;
            size_t taken = ipb_http_body_take_content(body, bytes + at, end - at, &piece);
            g_assert(taken <= end - at && piece.size <= taken);
            g_assert(piece.size == 0 ||
                     (piece.start >= bytes + at && piece.start + piece.size <= bytes + end));
            g_string_append_len(content, piece.start, (gssize) piece.size);
            at += taken;
        }
    }
    return at;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *) data;
    IpbHttpHead head = {.is_chunked = true};
    IpbHttpBody whole, pieces, singles;
    g_autoptr(GString) content = g_string_new(NULL), other = g_string_new(NULL);
    ipb_http_body_init(&whole, &head);
    ipb_http_body_init(&pieces, &head);
    ipb_http_body_init(&singles, &head);
    size_t taken = ipb_http_body_take(&whole, bytes, size);
    g_assert(take_in_pieces(&pieces, bytes, size, 7, content) == taken);
    g_assert(take_in_pieces(&singles, bytes, size, 1, other) == taken);
    g_assert(pieces.state == whole.state && singles.state == whole.state);
    g_assert(g_string_equal(content, other) && content->len <= taken);
    return 0;
}
