/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the tree, for the parser that builds it and the functions that read it.
 *
 * All values of a document are in one array, in the order of the text. A container's first item
 * follows it, and an item's next one is @skip values further.
 */
#pragma once

#include "json/json.h"

/* Positions and counts in a value are 32 bits wide, and fewer for @skip. */
#define IPB_JSON_MAX_SIZE ((size_t) UINT32_MAX)
#define IPB_JSON_MAX_VALUES ((size_t) 1 << 28)

struct IpbJson {
    /* In the document's text */
    const char *raw;
    /* Of an object's member, decoded; else NULL */
    const char *name;
    /* Of a string or number, decoded; else NULL */
    const char *text;
    /* It distinguishes true and false. */
    uint32_t raw_size;
    uint32_t name_size;
    /* Bytes of @text, or items of a container */
    uint32_t length;
    /* Number of values in this one, including itself; the parent's index while it is open */
    uint32_t skip : 28;
    uint32_t type : 3;
    /* The last of its container */
    uint32_t is_last : 1;
};

struct IpbJsonDoc {
    /* The copy that was parsed */
    char *text;
    /* Strings, names and numbers, each followed by a NUL */
    char *decoded;
    IpbJson *values;
    size_t n_values;
};
