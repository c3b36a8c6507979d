/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer; see the header. It has one growing text. The stack of open containers and two flags
 * decide what may be written next.
 */
#include "json/writer.h"

#include <string.h>

#include "json/scan.h"
#include "json/bytes.h"

#define MIN_CAPACITY 256

struct IpbJsonWriter {
    char *bytes;
    size_t size, capacity;
    /* '{' or '[' for each open container */
    GByteArray *open;
    /* A value was written before, in the same container or at the top */
    bool needs_comma;
    bool has_key;
};

IpbJsonWriter *
ipb_json_writer_new(void)
{
    IpbJsonWriter *writer = g_new0(IpbJsonWriter, 1);
    writer->open = g_byte_array_new();
    writer->capacity = MIN_CAPACITY;
    writer->bytes = g_malloc(writer->capacity);
    return writer;
}

void
ipb_json_writer_free(IpbJsonWriter *writer)
{
    if (writer == NULL)
        return;
    g_byte_array_unref(writer->open);
    g_free(writer->bytes);
    g_free(writer);
}

/* Makes room for @size more bytes. */
static char *
reserve(IpbJsonWriter *writer, size_t size)
{
    size_t wanted;
    if (!g_size_checked_add(&wanted, writer->size, size))
        g_error("a JSON text of more than %zu bytes", SIZE_MAX);
    if (wanted > writer->capacity) {
        size_t doubled = writer->capacity <= SIZE_MAX / 2 ? writer->capacity * 2 : SIZE_MAX;
        writer->capacity = MAX(wanted, doubled);
        writer->bytes = g_realloc(writer->bytes, writer->capacity);
    }
    return writer->bytes + writer->size;
}

static void
append(IpbJsonWriter *writer, const char *text, size_t size)
{
    if (size == 0)
        return;
    memcpy(reserve(writer, size), text, size);
    writer->size += size;
}

static void
append_byte(IpbJsonWriter *writer, char byte)
{
    *reserve(writer, 1) = byte;
    writer->size++;
}

static void
append_unicode_escape(IpbJsonWriter *writer, unsigned unit)
{
    static const char digits[] = "0123456789abcdef";
    char text[] = {'\\',
                   'u',
                   digits[unit >> 12 & 15],
                   digits[unit >> 8 & 15],
                   digits[unit >> 4 & 15],
                   digits[unit & 15]};
    append(writer, text, sizeof text);
}

char *
ipb_json_writer_finish(IpbJsonWriter *writer, size_t *ret_size)
{
    g_assert(writer->open->len == 0 && writer->needs_comma);
    if (ret_size != NULL)
        *ret_size = writer->size;
    append_byte(writer, '\0');
    char *text = g_steal_pointer(&writer->bytes);
    ipb_json_writer_free(writer);
    return text;
}

static bool
is_in_object(const IpbJsonWriter *writer)
{
    return writer->open->len > 0 && writer->open->data[writer->open->len - 1] == '{';
}

static void
begin_value(IpbJsonWriter *writer)
{
    if (is_in_object(writer)) {
        g_assert(writer->has_key);
        writer->has_key = false;
    } else if (writer->needs_comma) {
        g_assert(writer->open->len > 0); /* one value at the top */
        append_byte(writer, ',');
    }
    writer->needs_comma = true;
}

static void
begin_container(IpbJsonWriter *writer, char bracket)
{
    begin_value(writer);
    append_byte(writer, bracket);
    g_byte_array_append(writer->open, (const guint8 *) &bracket, 1);
    writer->needs_comma = false;
}

static void
end_container(IpbJsonWriter *writer, char bracket)
{
    g_assert(writer->open->len > 0 && !writer->has_key);
    g_byte_array_set_size(writer->open, writer->open->len - 1);
    append_byte(writer, bracket);
    writer->needs_comma = true;
}

void
ipb_json_begin_object(IpbJsonWriter *writer)
{
    begin_container(writer, '{');
}

void
ipb_json_end_object(IpbJsonWriter *writer)
{
    g_assert(is_in_object(writer));
    end_container(writer, '}');
}

void
ipb_json_begin_array(IpbJsonWriter *writer)
{
    begin_container(writer, '[');
}

void
ipb_json_end_array(IpbJsonWriter *writer)
{
    g_assert(!is_in_object(writer));
    end_container(writer, ']');
}

/* Number of bytes at the front of @text that need no escape: ASCII, and valid UTF-8 except U+2028
 * and U+2029. */
static size_t
plain_size(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        if (size - at >= IPB_BYTES_WORD) {
            uint64_t special = ipb_bytes_match_special(ipb_bytes_load(text + at));
            at += special != 0 ? ipb_bytes_first(special) : IPB_BYTES_WORD;
            if (special == 0)
                continue;
        }
        uint8_t byte = (uint8_t) text[at];
        if (byte >= 0x80) {
            int sequence = ipb_bytes_sequence(text + at, size - at);
            if (sequence < 0 || ipb_bytes_is_separator(text + at))
                break;
            at += (size_t) sequence;
        } else if (byte < 0x20 || byte == '"' || byte == '\\') {
            break;
        } else {
            at++;
        }
    }
    return at;
}

/* The letter that means @c after a backslash; 0: there is none. */
static char
escape_letter(char c)
{
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

static void
append_ascii_escape(IpbJsonWriter *writer, char c)
{
    char text[] = {'\\', escape_letter(c)};
    if (text[1] != 0)
        append(writer, text, sizeof text);
    else
        append_unicode_escape(writer, (uint8_t) c);
}

/* Escapes or replaces the bytes at which plain_size stopped; returns their number. */
static size_t
append_special(IpbJsonWriter *writer, const char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *) text;
    if (bytes[0] < 0x80) {
        append_ascii_escape(writer, text[0]);
        return 1;
    }
    /* A surrogate in WTF-8. */
    if (size >= 3 && bytes[0] == 0xed && (bytes[1] & 0xe0) == 0xa0 && (bytes[2] & 0xc0) == 0x80) {
        append_unicode_escape(writer, 0xd000 | (bytes[1] & 0x3fu) << 6 | (bytes[2] & 0x3fu));
        return 3;
    }
    int sequence = ipb_bytes_sequence(text, size);
    if (sequence < 0) {
        append(writer, "\xef\xbf\xbd", 3);
        return (size_t) -sequence;
    }
    append_unicode_escape(writer, 0x2000 | (bytes[2] & 0x3fu));
    return 3;
}

static void
append_string(IpbJsonWriter *writer, const char *text, size_t size)
{
    append_byte(writer, '"');
    while (size > 0) {
        size_t done = plain_size(text, size);
        append(writer, text, done);
        if (done < size)
            done += append_special(writer, text + done, size - done);
        text += done;
        size -= done;
    }
    append_byte(writer, '"');
}

void
ipb_json_key_n(IpbJsonWriter *writer, const char *name, size_t size)
{
    g_assert(is_in_object(writer) && !writer->has_key);
    if (writer->needs_comma)
        append_byte(writer, ',');
    append_string(writer, name, size);
    append_byte(writer, ':');
    writer->has_key = true;
}

void
ipb_json_key(IpbJsonWriter *writer, const char *name)
{
    ipb_json_key_n(writer, name, strlen(name));
}

void
ipb_json_write_string_n(IpbJsonWriter *writer, const char *text, size_t size)
{
    begin_value(writer);
    append_string(writer, text, size);
}

void
ipb_json_write_string(IpbJsonWriter *writer, const char *text)
{
    if (text == NULL)
        ipb_json_write_null(writer);
    else
        ipb_json_write_string_n(writer, text, strlen(text));
}

static void
write_token(IpbJsonWriter *writer, const char *token)
{
    begin_value(writer);
    append(writer, token, strlen(token));
}

void
ipb_json_write_int(IpbJsonWriter *writer, int64_t value)
{
    char text[32];
    g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, value);
    write_token(writer, text);
}

void
ipb_json_write_bool(IpbJsonWriter *writer, bool value)
{
    write_token(writer, value ? "true" : "false");
}

void
ipb_json_write_null(IpbJsonWriter *writer)
{
    write_token(writer, "null");
}

/* Copies the string token at the front of @text, and escapes U+2028 and U+2029 in it. Returns the
 * token's size. */
static size_t
append_string_token(IpbJsonWriter *writer, const char *text, size_t size)
{
    size_t start = 0, at = 1;
    while (at < size && text[at] != '"') {
        if (size - at >= IPB_BYTES_WORD) {
            uint64_t word = ipb_bytes_load(text + at);
            uint64_t mask = ipb_bytes_match(word, '"') | ipb_bytes_match(word, '\\') |
                            ipb_bytes_match(word, 0xe2);
            if (mask == 0) {
                at += IPB_BYTES_WORD;
                continue;
            }
            at += ipb_bytes_first(mask);
        }
        if (text[at] == '"')
            break;
        if (size - at >= 3 && ipb_bytes_is_separator(text + at)) {
            append(writer, text + start, at - start);
            append_unicode_escape(writer, 0x2000 | ((uint8_t) text[at + 2] & 0x3fu));
            at += 3;
            start = at;
        } else {
            at += text[at] == '\\' ? 2 : 1;
        }
    }
    size_t end = MIN(at + 1, size);
    append(writer, text + start, end - start);
    return end;
}

void
ipb_json_write_raw(IpbJsonWriter *writer, const char *text, size_t size)
{
    begin_value(writer);
    reserve(writer, size);
    for (size_t at = 0; at < size;) {
        if (text[at] == '"') {
            at += append_string_token(writer, text + at, size - at);
            continue;
        }
        if (!ipb_scan_is_space(text[at]))
            append_byte(writer, text[at]);
        at++;
    }
}

void
ipb_json_write_value(IpbJsonWriter *writer, const IpbJson *value)
{
    IpbSpan raw = ipb_json_raw(value);
    if (value == NULL)
        ipb_json_write_null(writer);
    else
        ipb_json_write_raw(writer, raw.start, raw.size);
}

void
ipb_json_member_string(IpbJsonWriter *writer, const char *name, const char *text)
{
    ipb_json_key(writer, name);
    ipb_json_write_string(writer, text);
}

void
ipb_json_member_int(IpbJsonWriter *writer, const char *name, int64_t value)
{
    ipb_json_key(writer, name);
    ipb_json_write_int(writer, value);
}

void
ipb_json_member_bool(IpbJsonWriter *writer, const char *name, bool value)
{
    ipb_json_key(writer, name);
    ipb_json_write_bool(writer, value);
}

void
ipb_json_member_value(IpbJsonWriter *writer, const char *name, const IpbJson *value)
{
    ipb_json_key(writer, name);
    ipb_json_write_value(writer, value);
}

void
ipb_json_member_object(IpbJsonWriter *writer, const char *name, const IpbJson *object)
{
    ipb_json_key(writer, name);
    if (ipb_json_is(object, IPB_JSON_OBJECT))
        ipb_json_write_value(writer, object);
    else
        ipb_json_write_raw(writer, "{}", 2);
}
