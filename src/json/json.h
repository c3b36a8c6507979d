/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as text: a strict RFC 8259 scanner and a read-only tree that keep what was sent. Numbers stay
 * text (2**70, 0.1, 1e400, -0), member order and duplicate members are kept, strings may hold NUL
 * and lone surrogates (as WTF-8 in memory), and each value knows its exact source bytes, so a value
 * can be passed on unchanged. Limits on size, depth and number of values are the caller's.
 *
 * Ownership: a document owns a copy of its text and an arena with its tree; values are borrowed from
 * it and live as long. Everything is immutable, so threads may share a document.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/span.h"

typedef struct {
    size_t max_size;    /* bytes of text */
    unsigned max_depth; /* nesting; a scalar has depth 0 */
    size_t max_values;  /* values in the tree: bounds memory against "[[],[],…" */
} IpbJsonLimits;

/* For messages of peers: 256 MiB, depth 512, 8 million values. */
extern const IpbJsonLimits IPB_JSON_LIMITS_MESSAGE;
/* For small things (configuration, tool arguments): 16 MiB, depth 128, 1 million values. */
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

/* Errors (PROTOCOL, LIMIT) say what and at which byte offset (and line:column when there are lines). */
IpbJsonDoc *ipb_json_parse(const char *text, size_t size, const IpbJsonLimits *limits,
                           GError **error);
void ipb_json_doc_free(IpbJsonDoc *doc);
const IpbJson *ipb_json_root(const IpbJsonDoc *doc);
/* Does any object in the document hold one name twice? */
bool ipb_json_has_duplicates(const IpbJsonDoc *doc);

/* All of these take NULL for a value: then it has no type, no members, no text. */
bool ipb_json_is(const IpbJson *value, IpbJsonType type);
IpbJsonType ipb_json_type(const IpbJson *value); /* @value not NULL */
/* The exact source bytes of the value, whitespace inside included. */
IpbSpan ipb_json_raw(const IpbJson *value);

bool ipb_json_bool(const IpbJson *value, bool fallback);
/* A decoded string: WTF-8, NUL-terminated after *ret_size bytes (ret_size may be NULL). NULL if @value
 * is no string. */
const char *ipb_json_string(const IpbJson *value, size_t *ret_size);
/* The number's text, as sent ("1e400"), NUL-terminated; NULL if @value is no number. */
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

/* The member @name, the last of that name as Python has it; NULL if none or @object is no object. */
const IpbJson *ipb_json_get(const IpbJson *object, const char *name);
/* Shortcuts: NULL (or false) also for a member of another type; get_string also if it holds a NUL. */
const char *ipb_json_get_string(const IpbJson *object, const char *name);
bool ipb_json_get_int64(const IpbJson *object, const char *name, int64_t *ret_value);
bool ipb_json_get_bool(const IpbJson *object, const char *name, bool fallback);

/* The raw scanner, for big texts of which one member is wanted: validates nothing but what it skips.
 * Finds the last member @name of the object that is the whole of @text. */
bool ipb_json_scan_member(IpbSpan text, const char *name, IpbSpan *ret_value);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbJsonDoc, ipb_json_doc_free)
