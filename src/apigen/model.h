/* SPDX-License-Identifier: Apache-2.0
 *
 * The model between schemas and Python text: a module with its classes, enums and types. schema.c
 * creates it, names.c names its parts, and emit.c writes it. Except for names, it does not depend
 * on Python's syntax.
 *
 * Ownership: a module owns everything in it: types, classes, enums (in its arrays) and strings (in
 * its chunk). Types are shared freely, and form cycles through classes only. JSON values are
 * borrowed from the tool's document, which must outlive the module. All texts are WTF-8 as the
 * server sent them: untrusted.
 */
#pragma once

#include "json/json.h"

typedef struct IpbType IpbType;
typedef struct IpbClass IpbClass;
typedef struct IpbEnum IpbEnum;

typedef enum {
    IPB_TYPE_ANY,
    IPB_TYPE_NONE,
    IPB_TYPE_BOOL,
    IPB_TYPE_INT,
    IPB_TYPE_NUMBER, /* int | float: 1 stays 1 on the wire */
    IPB_TYPE_STR,
    IPB_TYPE_LITERAL, /* some strings, 64-bit integers, booleans */
    IPB_TYPE_LIST,    /* of @item */
    IPB_TYPE_TUPLE,   /* one item of each of @members */
    IPB_TYPE_DICT,    /* from @key, or str, to @item */
    IPB_TYPE_UNION,   /* of @members; none is a union, None is last */
    IPB_TYPE_CLASS,
    IPB_TYPE_ENUM,
    IPB_TYPE_LATER, /* @item, set at the end: it has a class that refers to it */
} IpbTypeKind;

/* Restrictions of a value. NULL or negative: none. Numbers are text. */
typedef struct {
    const char *ge, *gt, *le, *lt, *multiple_of;
    const char *pattern;            /* a Python literal */
    int64_t min_length, max_length; /* of strings (in code points), lists and dicts */
} IpbBounds;

struct IpbType {
    IpbTypeKind kind;
    const IpbType *item;
    const IpbType *key; /* DICT: a str with bounds; NULL: any str */
    GPtrArray *members; /* UNION, TUPLE: IpbType; LITERAL: IpbJson */
    IpbClass *class;
    IpbEnum *enumeration;
    IpbBounds bounds;
    unsigned height; /* levels of types in it; 0: none, or a class that is incomplete */
};

typedef struct {
    IpbSpan wire_name;
    const char *name; /* set at the end by ipb_names_give_fields() */
    const IpbType *type;
    bool is_required;
    const IpbJson *default_value; /* NULL: none, or not expressible */
    IpbSpan description;
    const char *notes; /* one on each line; NULL: none */
} IpbField;

/* The name that a class or enum claims, and its place in the schema, which decides if several claim
 * the same name; see names.c. */
typedef struct {
    const char **name; /* of the class or enum; set at the end */
    const char *base;
    const IpbClass *class;  /* that claims it; NULL: an enum does */
    const IpbClass *parent; /* the class around it; NULL: none */
    unsigned rank;          /* number of classes around it; the lowest wins; 0: a definition */
    bool is_input;
} IpbClaim;

struct IpbClass {
    const char *name;
    IpbClaim *claim; /* NULL: its name is fixed */
    IpbSpan description;
    const char *notes;
    GPtrArray *fields;    /* IpbField */
    const IpbType *extra; /* type of members that are not named; NULL: any */
    bool is_input;        /* belongs to Params, not to Result */
    bool is_closed;       /* members that are not named are an error */
    bool is_open;         /* the schema allows members that are not named */
    bool is_result;       /* run may return one */
};

typedef struct {
    const char *name;
    const IpbJson *value; /* a JSON string */
} IpbEnumMember;

/* An enum of strings. Other enums are literals. */
struct IpbEnum {
    const char *name;
    IpbClaim *claim;
    IpbSpan description;
    const char *notes;
    GArray *members; /* IpbEnumMember */
};

typedef struct {
    const char *name; /* of the Python module */
    const char *server_name;
    bool is_application; /* no MCP server has the tool, but the application */
    IpbSpan tool_name, title, description;
    IpbClass *params;
    const IpbType *result; /* NULL: text. Otherwise a class type named Result, or any other type */
    const char *result_notes;
    /* the member of the structured content that is the value; NULL: all of it */
    const char *result_member;
    /* Classes and enums in the order in which they are written: a class that others use comes
     * first, except in cycles. */
    GPtrArray *classes, *enums;
    GPtrArray *claims; /* their IpbClaim, in the order in which they were read */
    GPtrArray *types;
    GHashTable *taken;    /* names at the module's level */
    GHashTable *counters; /* name → its last number; see names.c */
    GStringChunk *strings;
} IpbModule;

IpbModule *ipb_module_new(void);
void ipb_module_free(IpbModule *module);
/* The module owns everything that these functions return. */
IpbType *ipb_module_add_type(IpbModule *module, IpbTypeKind kind);
/* The caller adds the class to module->classes when it is complete. @name: NULL if it has a
 * claim. */
IpbClass *ipb_class_new(const char *name);
IpbField *ipb_class_add_field(IpbClass *class);
IpbEnum *ipb_module_add_enum(IpbModule *module);
/* A copy of @text that lives as long as the module. */
const char *ipb_module_keep(IpbModule *module, const char *text);
/* @type or None; @type itself if it includes None. */
const IpbType *ipb_module_make_optional(IpbModule *module, const IpbType *type);
/* The union of @types (IpbType). It is flat and has each type once, with integers merged into
 * numbers, and None last. It is Any if one of them is. */
const IpbType *ipb_module_make_union(IpbModule *module, GPtrArray *types);
bool ipb_type_has_none(const IpbType *type);
/* The member of an enum whose value is the string @value; NULL if there is none. */
const IpbEnumMember *ipb_enum_find(const IpbEnum *enumeration, const IpbJson *value);
/* Whether @value is one of the values of the literal @type. */
bool ipb_literal_has(const IpbType *type, const IpbJson *value);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbModule, ipb_module_free)
