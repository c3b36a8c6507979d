/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses text into the tree in one pass, without recursion and without a stack: while a container
 * is open, its @skip is the index of its parent. Memory: twice the text, and the values.
 */
#include <string.h>

#include "base/utf8.h"
#include "json/json-private.h"
#include "json/scan.h"

/* Never an index, because the maximum number of values is lower. */
#define NO_PARENT (IPB_JSON_MAX_VALUES - 1)
/* At first, the array of values has room for one value per so many bytes of text. */
#define BYTES_PER_VALUE 32

const IpbJsonLimits IPB_JSON_LIMITS_MESSAGE = {
    .max_size = (size_t) 256 << 20,
    .max_depth = 512,
    .max_values = (size_t) 8 << 20,
};
const IpbJsonLimits IPB_JSON_LIMITS_SMALL = {
    .max_size = (size_t) 16 << 20,
    .max_depth = 128,
    .max_values = (size_t) 1 << 20,
};

typedef struct {
    IpbScanner scanner;
    IpbJson *values;
    size_t n_values, capacity, max_values;
    unsigned depth, max_depth;
    /* Index of the innermost open container, or NO_PARENT */
    uint32_t open;
    /* Index of the value that was completed last */
    uint32_t previous;
    /* Of the next value, if it is an object's member */
    const char *name;
    uint32_t name_size;
} Parser;

typedef enum { WANT_VALUE, WANT_NAME, AFTER_VALUE, FINISHED, FAILED } State;

static bool
grow_values(Parser *parser, GError **error)
{
    if (parser->n_values >= parser->max_values)
        return ipb_scan_fail(&parser->scanner, parser->scanner.at, IPYBOX_ERROR_LIMIT, error,
                             "there are more than %zu values", parser->max_values);
    parser->capacity = MIN(parser->capacity * 2, parser->max_values);
    parser->values = g_renew(IpbJson, parser->values, parser->capacity);
    return true;
}

/* Adds a value that begins here; its text, size and length are not known yet. */
static IpbJson *
add_value(Parser *parser, IpbJsonType type, GError **error)
{
    if (parser->n_values == parser->capacity && !grow_values(parser, error))
        return NULL;
    if (parser->open != NO_PARENT)
        parser->values[parser->open].length++;
    IpbJson *value = &parser->values[parser->n_values++];
    *value = (IpbJson){
        .raw = parser->scanner.at,
        .name = parser->name,
        .name_size = parser->name_size,
        .skip = 1,
        .type = type,
    };
    parser->name = NULL;
    parser->name_size = 0;
    return value;
}

static State
end_scalar(Parser *parser, IpbJson *value)
{
    value->raw_size = (uint32_t) (parser->scanner.at - value->raw);
    parser->previous = (uint32_t) (value - parser->values);
    return AFTER_VALUE;
}

static State
read_string(Parser *parser, GError **error)
{
    IpbJson *value = add_value(parser, IPB_JSON_STRING, error);
    if (value == NULL || !ipb_scan_string(&parser->scanner, &value->text, &value->length, error))
        return FAILED;
    return end_scalar(parser, value);
}

static State
read_number(Parser *parser, GError **error)
{
    IpbJson *value = add_value(parser, IPB_JSON_NUMBER, error);
    if (value == NULL || !ipb_scan_number(&parser->scanner, &value->text, &value->length, error))
        return FAILED;
    return end_scalar(parser, value);
}

static State
read_literal(Parser *parser, IpbJsonType type, const char *literal, GError **error)
{
    IpbJson *value = add_value(parser, type, error);
    if (value == NULL || !ipb_scan_literal(&parser->scanner, literal, error))
        return FAILED;
    return end_scalar(parser, value);
}

static State
close_container(Parser *parser)
{
    IpbJson *container = &parser->values[parser->open];
    uint32_t index = parser->open;
    if (container->length > 0)
        parser->values[parser->previous].is_last = true;
    parser->scanner.at++;
    parser->open = container->skip;
    parser->depth--;
    container->skip = (uint32_t) (parser->n_values - index) & (IPB_JSON_MAX_VALUES - 1);
    container->raw_size = (uint32_t) (parser->scanner.at - container->raw);
    parser->previous = index;
    return AFTER_VALUE;
}

static State
open_container(Parser *parser, IpbJsonType type, GError **error)
{
    if (parser->depth == parser->max_depth) {
        ipb_scan_fail(&parser->scanner, parser->scanner.at, IPYBOX_ERROR_LIMIT, error,
                      "arrays and objects are nested more than %u deep", parser->max_depth);
        return FAILED;
    }
    IpbJson *value = add_value(parser, type, error);
    if (value == NULL)
        return FAILED;
    value->skip = parser->open & (IPB_JSON_MAX_VALUES - 1);
    parser->open = (uint32_t) (value - parser->values);
    parser->depth++;
    parser->scanner.at++;
    ipb_scan_space(&parser->scanner);
    if (*parser->scanner.at == (type == IPB_JSON_OBJECT ? '}' : ']'))
        return close_container(parser);
    return type == IPB_JSON_OBJECT ? WANT_NAME : WANT_VALUE;
}

static State
read_value(Parser *parser, GError **error)
{
    switch (*parser->scanner.at) {
    case '"':
        return read_string(parser, error);
    case '{':
        return open_container(parser, IPB_JSON_OBJECT, error);
    case '[':
        return open_container(parser, IPB_JSON_ARRAY, error);
    case 't':
        return read_literal(parser, IPB_JSON_BOOL, "true", error);
    case 'f':
        return read_literal(parser, IPB_JSON_BOOL, "false", error);
    case 'n':
        return read_literal(parser, IPB_JSON_NULL, "null", error);
    case '-':
    case '0' ... '9':
        return read_number(parser, error);
    default:
        ipb_scan_fail_expected(&parser->scanner, error, "a value");
        return FAILED;
    }
}

static State
read_name(Parser *parser, GError **error)
{
    IpbScanner *scanner = &parser->scanner;
    if (*scanner->at != '"') {
        bool is_first = parser->values[parser->open].length == 0;
        ipb_scan_fail_expected(scanner, error,
                               is_first ? "a name in double quotes or '}'"
                                        : "a name in double quotes");
        return FAILED;
    }
    if (!ipb_scan_string(scanner, &parser->name, &parser->name_size, error))
        return FAILED;
    ipb_scan_space(scanner);
    if (*scanner->at != ':') {
        ipb_scan_fail_expected(scanner, error, "':'");
        return FAILED;
    }
    scanner->at++;
    return WANT_VALUE;
}

static State
go_on_after_value(Parser *parser, GError **error)
{
    IpbScanner *scanner = &parser->scanner;
    if (parser->open == NO_PARENT) {
        if (scanner->at == scanner->end)
            return FINISHED;
        ipb_scan_fail_expected(scanner, error, "the end of the text");
        return FAILED;
    }
    bool in_object = parser->values[parser->open].type == IPB_JSON_OBJECT;
    if (*scanner->at == ',') {
        scanner->at++;
        return in_object ? WANT_NAME : WANT_VALUE;
    }
    if (*scanner->at == (in_object ? '}' : ']'))
        return close_container(parser);
    ipb_scan_fail_expected(scanner, error, in_object ? "',' or '}'" : "',' or ']'");
    return FAILED;
}

static bool
parse_text(Parser *parser, GError **error)
{
    State state = WANT_VALUE;
    for (;;) {
        ipb_scan_space(&parser->scanner);
        switch (state) {
        case WANT_VALUE:
            state = read_value(parser, error);
            break;
        case WANT_NAME:
            state = read_name(parser, error);
            break;
        case AFTER_VALUE:
            state = go_on_after_value(parser, error);
            break;
        case FINISHED:
            parser->values[0].is_last = true;
            return true;
        case FAILED:
            return false;
        }
    }
}

static bool
check_start(const char *text, size_t size, size_t max_size, GError **error)
{
    if (size > max_size) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the JSON text is too long: %zu bytes, the maximum is %zu", size, max_size);
        return false;
    }
    if (ipb_utf8_skip_mark(&text, &size)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "invalid JSON at byte 0: the text begins with a byte order mark (EF BB BF); "
                    "save it as UTF-8 without one");
        return false;
    }
    return true;
}

IpbJsonDoc *
ipb_json_parse(const char *text, size_t size, const IpbJsonLimits *limits, GError **error)
{
    if (!check_start(text, size, MIN(limits->max_size, IPB_JSON_MAX_SIZE), error))
        return NULL;
    g_autoptr(IpbJsonDoc) doc = g_new0(IpbJsonDoc, 1);
    doc->text = g_malloc(size + IPB_SCAN_PADDING);
    doc->decoded = g_malloc(size + IPB_SCAN_PADDING);
    if (size > 0)
        memcpy(doc->text, text, size);
    memset(doc->text + size, '\0', IPB_SCAN_PADDING);

    Parser parser = {
        .scanner = {doc->text, doc->text + size, doc->text, doc->decoded},
        .max_values = MIN(limits->max_values, NO_PARENT),
        .max_depth = limits->max_depth,
        .open = NO_PARENT,
    };
    parser.capacity = MIN(size / BYTES_PER_VALUE + 8, parser.max_values);
    parser.values = g_new(IpbJson, parser.capacity);
    bool parsed = parse_text(&parser, error);
    doc->values = parser.values;
    doc->n_values = parser.n_values;
    if (!parsed)
        return NULL;
    doc->values = g_renew(IpbJson, doc->values, doc->n_values);
    return g_steal_pointer(&doc);
}

void
ipb_json_doc_free(IpbJsonDoc *doc)
{
    if (doc == NULL)
        return;
    g_free(doc->text);
    g_free(doc->decoded);
    g_free(doc->values);
    g_free(doc);
}
