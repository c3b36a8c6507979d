/* SPDX-License-Identifier: Apache-2.0
 *
 * WTF-8; see the header.
 */
#include "apigen/wtf8.h"

#include <stdint.h>
#include <string.h>

IpbSpan
ipb_wtf8_from_json(const IpbJson *value)
{
    IpbSpan text = {0};
    text.start = ipb_json_string(value, &text.size);
    return text;
}

IpbSpan
ipb_wtf8_from_name(const IpbJson *member)
{
    IpbSpan name = {0};
    name.start = ipb_json_name(member, &name.size);
    return name;
}

bool
ipb_wtf8_equal(IpbSpan a, IpbSpan b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.start, b.start, a.size) == 0);
}

IpbSpan
ipb_wtf8_from(const char *text)
{
    return (IpbSpan){text, text != NULL ? strlen(text) : 0};
}

/* Bytes of the sequence that begins with @lead; 0 if no sequence does. */
static size_t
sequence_size(uint8_t lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

gunichar
ipb_wtf8_next(IpbSpan text, size_t *at)
{
    static const uint8_t LEAD_BITS[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const uint8_t *bytes = (const uint8_t *) text.start + *at;
    size_t size = sequence_size(bytes[0]);
    if (size == 0 || size > text.size - *at) {
        (*at)++;
        return IPB_WTF8_REPLACEMENT;
    }
    gunichar c = bytes[0] & LEAD_BITS[size];
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            (*at)++;
            return IPB_WTF8_REPLACEMENT;
        }
        c = c << 6 | (bytes[i] & 0x3f);
    }
    *at += size;
    return c > 0x10ffff ? IPB_WTF8_REPLACEMENT : c;
}

static bool
is_surrogate(gunichar c)
{
    return c >= 0xd800 && c <= 0xdfff;
}

bool
ipb_wtf8_has_surrogate(IpbSpan text)
{
    for (size_t at = 0; at < text.size;)
        if (is_surrogate(ipb_wtf8_next(text, &at)))
            return true;
    return false;
}

bool
ipb_wtf8_is_visible(gunichar c)
{
    if (c < 0x7f)
        return c >= 0x20;
    if (c < 0xa0 || is_surrogate(c) || c == 0x2028 || c == 0x2029)
        return false;
    if ((c & 0xfffe) == 0xfffe || (c >= 0xe0000 && c <= 0xe0fff))
        return false;
    if (c == 0x200c || c == 0x200d) /* joiners, which some scripts and emoji need */
        return true;
    return g_unichar_type(c) != G_UNICODE_FORMAT;
}
