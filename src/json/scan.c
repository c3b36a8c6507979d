/* SPDX-License-Identifier: Apache-2.0
 *
 * Scanning tokens; see the header.
 */
#include "json/scan.h"

#include <stdarg.h>
#include <string.h>

#include "json/bytes.h"

G_STATIC_ASSERT(IPB_SCAN_PADDING > IPB_BYTES_WORD);

bool
ipb_scan_fail(const IpbScanner *scanner, const char *at, IpyboxError code, GError **error,
              const char *format, ...)
{
    size_t line = 1, column = 1;
    for (const char *p = scanner->text; p < at; p++) {
        if (*p == '\n') {
            line++;
            column = 1;
        } else if (((uint8_t) *p & 0xc0) != 0x80) {
            column++; /* characters, not bytes */
        }
    }
    va_list args;
    va_start(args, format);
    g_autofree char *what = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, IPYBOX_ERROR, code, "invalid JSON at byte %zu (line %zu, column %zu): %s",
                (size_t) (at - scanner->text), line, column, what);
    return false;
}

bool
ipb_scan_fail_expected(const IpbScanner *scanner, GError **error, const char *what)
{
    const char *at = scanner->at;
    if (at == scanner->end)
        return ipb_scan_fail(scanner, at, IPYBOX_ERROR_PROTOCOL, error,
                             "expected %s but the text ends", what);
    if (g_ascii_isprint(*at))
        return ipb_scan_fail(scanner, at, IPYBOX_ERROR_PROTOCOL, error,
                             "expected %s but found '%c'", what, *at);
    return ipb_scan_fail(scanner, at, IPYBOX_ERROR_PROTOCOL, error,
                         "expected %s but found byte 0x%02x", what, (uint8_t) *at);
}

static char *
put_code_point(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char) c;
    } else if (c < 0x800) {
        *out++ = (char) (0xc0 | c >> 6);
        *out++ = (char) (0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char) (0xe0 | c >> 12);
        *out++ = (char) (0x80 | (c >> 6 & 0x3f));
        *out++ = (char) (0x80 | (c & 0x3f));
    } else {
        *out++ = (char) (0xf0 | c >> 18);
        *out++ = (char) (0x80 | (c >> 12 & 0x3f));
        *out++ = (char) (0x80 | (c >> 6 & 0x3f));
        *out++ = (char) (0x80 | (c & 0x3f));
    }
    return out;
}

/* The four digits of \uXXXX. It stops at the NUL after the text, as everything here. */
static bool
read_hex(const char *at, uint32_t *ret_unit)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = g_ascii_xdigit_value(at[i]);
        if (digit < 0)
            return false;
        unit = unit << 4 | (uint32_t) digit;
    }
    *ret_unit = unit;
    return true;
}

/* @scanner->at is at "\u". Two escapes that are a surrogate pair become one character. */
static bool
decode_unicode_escape(IpbScanner *scanner, GError **error)
{
    uint32_t unit, low;
    if (!read_hex(scanner->at + 2, &unit))
        return ipb_scan_fail(scanner, scanner->at, IPYBOX_ERROR_PROTOCOL, error,
                             "\\u needs four hexadecimal digits");
    scanner->at += 6;
    if ((unit & 0xfc00) == 0xd800 && scanner->at[0] == '\\' && scanner->at[1] == 'u' &&
        read_hex(scanner->at + 2, &low) && (low & 0xfc00) == 0xdc00) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        scanner->at += 6;
    }
    scanner->out = put_code_point(scanner->out, unit);
    return true;
}

/* The character that a backslash and @letter mean; 0: none. */
static char
unescape(char letter)
{
    switch (letter) {
    case '"':
    case '\\':
    case '/':
        return letter;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return 0;
    }
}

static bool
decode_escape(IpbScanner *scanner, GError **error)
{
    char letter = scanner->at[1], byte = unescape(letter);
    if (byte != 0) {
        *scanner->out++ = byte;
        scanner->at += 2;
        return true;
    }
    if (letter == 'u')
        return decode_unicode_escape(scanner, error);
    if (scanner->at + 1 == scanner->end)
        return ipb_scan_fail(scanner, scanner->end, IPYBOX_ERROR_PROTOCOL, error,
                             "the text ends within a string");
    if (g_ascii_isprint(letter))
        return ipb_scan_fail(scanner, scanner->at, IPYBOX_ERROR_PROTOCOL, error,
                             "'\\%c' is not a JSON escape", letter);
    return ipb_scan_fail(scanner, scanner->at, IPYBOX_ERROR_PROTOCOL, error,
                         "backslash and byte 0x%02x are not a JSON escape", (uint8_t) letter);
}

/* Non-ASCII characters up to the next ASCII one. */
static bool
copy_sequences(IpbScanner *scanner, GError **error)
{
    do {
        int size = ipb_bytes_sequence(scanner->at, IPB_SCAN_PADDING);
        if (size < 0)
            return ipb_scan_fail(scanner, scanner->at, IPYBOX_ERROR_PROTOCOL, error,
                                 "the text is not valid UTF-8 (byte 0x%02x)",
                                 (uint8_t) *scanner->at);
        memcpy(scanner->out, scanner->at, 4); /* four is faster than @size, and there is room */
        scanner->at += size;
        scanner->out += size;
    } while ((uint8_t) *scanner->at >= 0x80);
    return true;
}

/* At a byte of a string that is neither plain ASCII nor the closing quote. */
static bool
scan_special(IpbScanner *scanner, GError **error)
{
    if (*scanner->at == '\\')
        return decode_escape(scanner, error);
    if ((uint8_t) *scanner->at >= 0x80)
        return copy_sequences(scanner, error);
    if (scanner->at == scanner->end)
        return ipb_scan_fail(scanner, scanner->at, IPYBOX_ERROR_PROTOCOL, error,
                             "the text ends within a string");
    return ipb_scan_fail(scanner, scanner->at, IPYBOX_ERROR_PROTOCOL, error,
                         "byte 0x%02x in a string must be written as \\u%04x",
                         (uint8_t) *scanner->at, (uint8_t) *scanner->at);
}

bool
ipb_scan_string(IpbScanner *scanner, const char **ret_string, uint32_t *ret_size, GError **error)
{
    char *start = scanner->out;
    scanner->at++;
    for (;;) {
        uint64_t special = ipb_bytes_match_special(ipb_bytes_load(scanner->at));
        memcpy(scanner->out, scanner->at, IPB_BYTES_WORD);
        size_t plain = special != 0 ? ipb_bytes_first(special) : IPB_BYTES_WORD;
        scanner->at += plain;
        scanner->out += plain;
        if (special == 0)
            continue;
        if (*scanner->at == '"')
            break;
        if (!scan_special(scanner, error))
            return false;
    }
    scanner->at++;
    *ret_string = start;
    *ret_size = (uint32_t) (scanner->out - start);
    *scanner->out++ = '\0';
    return true;
}

static const char *
skip_digits(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

/* At least one digit. */
static bool
scan_digits(IpbScanner *scanner, const char *where, GError **error)
{
    const char *end = skip_digits(scanner->at);
    if (end == scanner->at)
        return ipb_scan_fail_expected(scanner, error, where);
    scanner->at = end;
    return true;
}

bool
ipb_scan_number(IpbScanner *scanner, const char **ret_number, uint32_t *ret_size, GError **error)
{
    const char *start = scanner->at;
    if (*scanner->at == '-')
        scanner->at++;
    if (scanner->at[0] == '0' && g_ascii_isdigit(scanner->at[1]))
        return ipb_scan_fail(scanner, start, IPYBOX_ERROR_PROTOCOL, error,
                             "a number cannot begin with 0 and another digit");
    if (!scan_digits(scanner, "a digit", error))
        return false;
    if (*scanner->at == '.') {
        scanner->at++;
        if (!scan_digits(scanner, "a digit after the decimal point", error))
            return false;
    }
    if (*scanner->at == 'e' || *scanner->at == 'E') {
        scanner->at++;
        if (*scanner->at == '+' || *scanner->at == '-')
            scanner->at++;
        if (!scan_digits(scanner, "a digit in the exponent", error))
            return false;
    }
    size_t size = (size_t) (scanner->at - start);
    memcpy(scanner->out, start, size);
    *ret_number = scanner->out;
    *ret_size = (uint32_t) size;
    scanner->out += size;
    *scanner->out++ = '\0';
    return true;
}

bool
ipb_scan_literal(IpbScanner *scanner, const char *literal, GError **error)
{
    size_t size = strlen(literal);
    if (strncmp(scanner->at, literal, size) != 0)
        return ipb_scan_fail_expected(scanner, error, "a value");
    scanner->at += size;
    return true;
}
