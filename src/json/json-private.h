/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the tree, for the parser that builds it and the functions that read it.
 *
 * All values of a document are one array, in the order of the text: a container's first item stands
 * right behind it, and an item's next one @skip values further on.
 */
#pragma once

#include "json/json.h"

/* Positions and counts in a value are 32 bits wide, and fewer for @skip. */
#define IPB_JSON_MAX_SIZE ((size_t) UINT32_MAX)
#define IPB_JSON_MAX_VALUES ((size_t) 1 << 28)

struct IpbJson {
    const char *raw;   /* in the document's text */
    const char *name;  /* of an object's member, decoded; else NULL */
    const char *text;  /* string or number, decoded; else NULL */
    uint32_t raw_size; /* of true and false too: this is how they are told apart */
    uint32_t name_size;
    uint32_t length; /* bytes of @text, or items of a container */
    uint32_t
        skip : 28; /* values in this one, itself included; the parent's index while it is open */
    uint32_t type : 3;
    uint32_t is_last : 1; /* in its container */
};

struct IpbJsonDoc {
    char *text;    /* the copy that was parsed */
    char *decoded; /* strings, names and numbers, each with a NUL behind it */
    IpbJson *values;
    size_t n_values;
};
