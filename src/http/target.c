/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a target; see the header.
 */
#include "http/target.h"

#include <string.h>

IpbSpan
ipb_http_target_path(IpbSpan target)
{
    const char *mark = memchr(target.start, '?', target.size);
    return (IpbSpan){target.start, mark != NULL ? (size_t) (mark - target.start) : target.size};
}

static bool
is_printable(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char) text[i] < ' ' || text[i] == 0x7f)
            return false;
    return g_utf8_validate(text, (gssize) size, NULL);
}

char *
ipb_http_target_decode(IpbSpan text, bool is_query)
{
    g_autofree char *decoded = g_malloc(text.size + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.start[i];
        if (c == '%') {
            if (text.size - i < 3 || !g_ascii_isxdigit(text.start[i + 1]) ||
                !g_ascii_isxdigit(text.start[i + 2]))
                return NULL;
            c = (char) (g_ascii_xdigit_value(text.start[i + 1]) * 16 +
                        g_ascii_xdigit_value(text.start[i + 2]));
            i += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        decoded[n++] = c;
    }
    decoded[n] = '\0';
    return is_printable(decoded, n) ? g_steal_pointer(&decoded) : NULL;
}

char *
ipb_http_target_query(IpbSpan target, const char *name)
{
    size_t path_size = ipb_http_target_path(target).size;
    while (path_size < target.size) {
        IpbSpan rest = {target.start + path_size + 1, target.size - path_size - 1};
        const char *end = memchr(rest.start, '&', rest.size);
        IpbSpan pair = {rest.start, end != NULL ? (size_t) (end - rest.start) : rest.size};
        const char *equals = memchr(pair.start, '=', pair.size);
        size_t name_size = equals != NULL ? (size_t) (equals - pair.start) : pair.size;
        g_autofree char *decoded = ipb_http_target_decode((IpbSpan){pair.start, name_size}, true);
        if (decoded != NULL && strcmp(decoded, name) == 0) {
            size_t skipped = equals != NULL ? name_size + 1 : name_size;
            return ipb_http_target_decode((IpbSpan){pair.start + skipped, pair.size - skipped},
                                          true);
        }
        path_size += 1 + pair.size;
    }
    return NULL;
}
