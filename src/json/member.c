/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds one member of an object in text without padding and without a tree. It follows strings and
 * counts brackets, and checks nothing else. For valid text the result is that of ipb_json_get.
 */
#include <string.h>

#include "json/json.h"
#include "json/scan.h"
#include "json/bytes.h"

/* Each of these takes a position and returns the one after what it skipped, or NULL. */

static const char *
skip_space(const char *at, const char *end)
{
    while (at < end && ipb_scan_is_space(*at))
        at++;
    return at;
}

static const char *
skip_byte(const char *at, const char *end, char byte)
{
    return at < end && *at == byte ? at + 1 : NULL;
}

static const char *
skip_string(const char *at, const char *end)
{
    if ((at = skip_byte(at, end, '"')) == NULL)
        return NULL;
    while (at < end) {
        if (end - at >= IPB_BYTES_WORD) {
            uint64_t word = ipb_bytes_load(at);
            uint64_t mask = ipb_bytes_match(word, '"') | ipb_bytes_match(word, '\\');
            at += mask != 0 ? ipb_bytes_first(mask) : IPB_BYTES_WORD;
            if (mask == 0)
                continue;
        }
        if (*at == '"')
            return at + 1;
        if (*at == '\\' && ++at == end)
            break;
        at++;
    }
    return NULL;
}

static const char *
skip_container(const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            if ((at = skip_string(at, end)) == NULL)
                return NULL;
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return NULL;
}

static const char *
skip_value(const char *at, const char *end)
{
    if (at < end && *at == '"')
        return skip_string(at, end);
    if (at < end && (*at == '{' || *at == '['))
        return skip_container(at, end);
    const char *start = at;
    while (at < end && *at != ',' && *at != '}' && *at != ']' && !ipb_scan_is_space(*at))
        at++;
    return at > start ? at : NULL;
}

/* Is the string token @token the name @name? */
static bool
is_name(IpbSpan token, const char *name)
{
    size_t size = strlen(name);
    if (memchr(token.start, '\\', token.size) == NULL)
        return token.size == size + 2 && memcmp(token.start + 1, name, size) == 0;
    if (token.size > UINT32_MAX)
        return false;
    g_autofree char *text = g_malloc0(token.size + IPB_SCAN_PADDING);
    g_autofree char *decoded = g_malloc(token.size + IPB_SCAN_PADDING);
    memcpy(text, token.start, token.size);
    IpbScanner scanner = {text, text + token.size, text, decoded};
    const char *string;
    uint32_t string_size;
    return ipb_scan_string(&scanner, &string, &string_size, NULL) && string_size == size &&
           memcmp(string, name, size) == 0;
}

bool
ipb_json_scan_member(IpbSpan text, const char *name, IpbSpan *ret_value)
{
    const char *end = text.start + text.size;
    const char *at = skip_byte(skip_space(text.start, end), end, '{');
    IpbSpan found = {NULL, 0};
    while (at != NULL) {
        const char *key = skip_space(at, end);
        if ((at = skip_string(key, end)) == NULL)
            break;
        IpbSpan token = {key, (size_t) (at - key)};
        if ((at = skip_byte(skip_space(at, end), end, ':')) == NULL)
            break;
        const char *value = skip_space(at, end);
        if ((at = skip_value(value, end)) == NULL)
            break;
        if (is_name(token, name))
            found = (IpbSpan){value, (size_t) (at - value)};
        at = skip_space(at, end);
        if (at < end && *at == '}') {
            if (skip_space(at + 1, end) != end || found.start == NULL)
                return false;
            *ret_value = found;
            return true;
        }
        at = skip_byte(at, end, ',');
    }
    return false;
}
