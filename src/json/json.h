/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: a strict RFC 8259 parser and a read-only tree that keep what was sent. Numbers stay text
 * (2**70, 0.1, 1e400, -0), member order and duplicate members are kept, strings may have NULs and
 * lone surrogates (as WTF-8 in memory), and each value knows its exact source bytes, so it can be
 * passed on unchanged. The caller sets limits on size, depth and number of values.
 *
 * Ownership: a document owns a copy of its text and an arena with its tree; values are borrowed
 * from it and live as long. Everything is immutable, so threads may share a document.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/span.h"

typedef struct {
    /* Bytes of text */
    size_t max_size;
    /* Nesting; a scalar has depth 0 */
    unsigned max_depth;
    /* Values in the tree: bounds the memory for texts like "[[],[],…" */
    size_t max_values;
} IpbJsonLimits;

/* For messages of peers: 256 MiB, depth 512, 8 million values. */
extern const IpbJsonLimits IPB_JSON_LIMITS_MESSAGE;
/* For configuration, tool arguments and the like: 16 MiB, depth 128, 1 million values. */
extern const IpbJsonLimits IPB_JSON_LIMITS_SMALL;

typedef enum {
    IPB_JSON_NULL,
    IPB_JSON_BOOL,
    IPB_JSON_NUMBER,
    IPB_JSON_STRING,
    IPB_JSON_ARRAY,
    IPB_JSON_OBJECT,
} IpbJsonType;

typedef struct IpbJsonDoc IpbJsonDoc;
typedef struct IpbJson IpbJson;

/* Errors (PROTOCOL, LIMIT) name the problem and its place: the byte, the line and the column. */
IpbJsonDoc *ipb_json_parse(const char *text, size_t size, const IpbJsonLimits *limits,
                           GError **error);
void ipb_json_doc_free(IpbJsonDoc *doc);
const IpbJson *ipb_json_root(const IpbJsonDoc *doc);
/* Does any object in the document have two members of one name? */
bool ipb_json_has_duplicates(const IpbJsonDoc *doc);

/* In all of these, the value may be NULL: then it has no type, no members and no text. */
bool ipb_json_is(const IpbJson *value, IpbJsonType type);
/* @value must not be NULL. */
IpbJsonType ipb_json_type(const IpbJson *value);
/* The exact source bytes of the value, whitespace inside included. */
IpbSpan ipb_json_raw(const IpbJson *value);

bool ipb_json_bool(const IpbJson *value, bool fallback);
/* A decoded string: WTF-8, NUL-terminated after *ret_size bytes (ret_size may be NULL). NULL if
 * @value is not a string. */
const char *ipb_json_string(const IpbJson *value, size_t *ret_size);
/* The number's text as it was sent ("1e400"), NUL-terminated; NULL if @value is not a number. */
const char *ipb_json_number(const IpbJson *value);
/* False unless @value is a number that is an integer in range, 1.0 and 1e3 included. */
bool ipb_json_int64(const IpbJson *value, int64_t *ret_value);
/* False unless @value is a number; ±HUGE_VAL beyond the range. */
bool ipb_json_double(const IpbJson *value, double *ret_value);

/* Arrays and objects: number of items, and the items in order. */
size_t ipb_json_length(const IpbJson *value);
const IpbJson *ipb_json_first(const IpbJson *container);
const IpbJson *ipb_json_next(const IpbJson *item);
/* The member's name if the item is in an object, else NULL. */
const char *ipb_json_name(const IpbJson *item, size_t *ret_size);
#define IPB_JSON_FOREACH(item, container)                                                          \
    for (const IpbJson *item = ipb_json_first(container); item != NULL; item = ipb_json_next(item))

/* The last member @name, as in Python; NULL if there is none or @object is not an object. */
const IpbJson *ipb_json_get(const IpbJson *object, const char *name);
/* The member @name of this type; NULL (or false) for another type. get_string: NULL also if the
 * string has a NUL. */
const char *ipb_json_get_string(const IpbJson *object, const char *name);
bool ipb_json_get_int64(const IpbJson *object, const char *name, int64_t *ret_value);
bool ipb_json_get_bool(const IpbJson *object, const char *name, bool fallback);

/* Finds the last member @name of the object @text without making a tree, for large texts of which
 * one member is needed. Validates only what it must to skip values. */
bool ipb_json_scan_member(IpbSpan text, const char *name, IpbSpan *ret_value);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbJsonDoc, ipb_json_doc_free)
