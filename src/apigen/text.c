/* SPDX-License-Identifier: Apache-2.0
 *
 * Untrusted text as Python source; see the header. What is not plainly visible (controls,
 * bidirectional overrides, tags and other characters that hide text, lone surrogates) is escaped.
 */
#include "apigen/text.h"

#include <math.h>
#include <string.h>

/* Python refuses integers of more than 4,300 digits; nobody means one of that size. */
#define MAX_NUMBER_SIZE 300

IpbText
ipb_text_from(const char *text)
{
    return (IpbText){text, text != NULL ? strlen(text) : 0};
}

/* Bytes of the sequence that begins with @lead; 0 if none does. */
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
ipb_text_next(IpbText text, size_t *at)
{
    static const uint8_t LEAD_BITS[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const uint8_t *bytes = (const uint8_t *) text.text + *at;
    size_t size = sequence_size(bytes[0]);
    if (size == 0 || size > text.size - *at) {
        (*at)++;
        return IPB_TEXT_REPLACEMENT;
    }
    gunichar c = bytes[0] & LEAD_BITS[size];
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            (*at)++;
            return IPB_TEXT_REPLACEMENT;
        }
        c = c << 6 | (bytes[i] & 0x3f);
    }
    *at += size;
    return c > 0x10ffff ? IPB_TEXT_REPLACEMENT : c;
}

static bool
is_surrogate(gunichar c)
{
    return c >= 0xd800 && c <= 0xdfff;
}

bool
ipb_text_has_surrogate(IpbText text)
{
    for (size_t at = 0; at < text.size;)
        if (is_surrogate(ipb_text_next(text, &at)))
            return true;
    return false;
}

bool
ipb_text_is_visible(gunichar c)
{
    if (c < 0x7f)
        return c >= 0x20;
    if (c < 0xa0 || is_surrogate(c) || c == 0x2028 || c == 0x2029)
        return false;
    if ((c & 0xfffe) == 0xfffe || (c >= 0xe0000 && c <= 0xe0fff))
        return false;
    if (c == 0x200c || c == 0x200d) /* joiners: some scripts and emoji need them */
        return true;
    return g_unichar_type(c) != G_UNICODE_FORMAT;
}

void
ipb_text_append_literal(GString *out, IpbText text)
{
    g_string_append_c(out, '"');
    for (size_t at = 0; at < text.size;) {
        gunichar c = ipb_text_next(text, &at);
        if (c == '"' || c == '\\')
            g_string_append_printf(out, "\\%c", (char) c);
        else if (c == '\n')
            g_string_append(out, "\\n");
        else if (c == '\t')
            g_string_append(out, "\\t");
        else if (ipb_text_is_visible(c))
            g_string_append_unichar(out, c);
        else if (c < 0x100)
            g_string_append_printf(out, "\\x%02x", c);
        else
            g_string_append_printf(out, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
    g_string_append_c(out, '"');
}

bool
ipb_text_append_number(GString *out, const char *number)
{
    if (strlen(number) > MAX_NUMBER_SIZE)
        return false;
    if (strpbrk(number, ".eE") != NULL && !isfinite(g_ascii_strtod(number, NULL)))
        return false;
    g_string_append(out, number);
    return true;
}

bool
ipb_text_append_value(GString *out, const IpbJson *value)
{
    switch (ipb_json_type(value)) {
    case IPB_JSON_NULL:
        g_string_append(out, "None");
        return true;
    case IPB_JSON_BOOL:
        g_string_append(out, ipb_json_bool(value, false) ? "True" : "False");
        return true;
    case IPB_JSON_NUMBER:
        return ipb_text_append_number(out, ipb_json_number(value));
    case IPB_JSON_STRING:
        ipb_text_append_literal(out, ipb_text_of(value));
        return true;
    case IPB_JSON_ARRAY:
    case IPB_JSON_OBJECT:
        return false;
    }
    return false;
}
