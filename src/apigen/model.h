/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands between a schema and its Python text: a module with its classes, enums and types.
 * schema.c makes it, names are given by names.c, emit.c writes it. It knows nothing of Python's syntax
 * but the names.
 *
 * Ownership: a module owns everything in it: types, classes, enums (its arrays) and strings (a chunk).
 * Types are shared freely and form cycles through classes only. JSON values are borrowed from the
 * tool's document, which must outlive the module. All texts are WTF-8 as they came: untrusted.
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
    IPB_TYPE_LITERAL, /* one of some strings, 64-bit integers, booleans */
    IPB_TYPE_LIST,    /* of @item */
    IPB_TYPE_TUPLE,   /* of @members, as many */
    IPB_TYPE_DICT,    /* of @key, or str, to @item */
    IPB_TYPE_UNION,   /* of @members, no unions among them, None last */
    IPB_TYPE_CLASS,
    IPB_TYPE_ENUM,
    IPB_TYPE_LATER, /* @item, which is known only at the end: it holds a class that holds this */
} IpbTypeKind;

/* What a value must keep to beside its type; NULL or negative: nothing. Numbers as text. */
typedef struct {
    const char *ge, *gt, *le, *lt, *multiple_of;
    const char *pattern;            /* a Python literal */
    int64_t min_length, max_length; /* of strings (code points), lists and dicts */
} IpbBounds;

struct IpbType {
    IpbTypeKind kind;
    const IpbType *item;
    const IpbType *key; /* DICT: a str with bounds; NULL: any str */
    GPtrArray *members; /* UNION, TUPLE: IpbType; LITERAL: IpbJson */
    IpbClass *class;
    IpbEnum *enumeration;
    IpbBounds bounds;
    unsigned height; /* of what is nested in it; 0: nothing, or a class that is not complete yet */
};

typedef struct {
    IpbSpan wire_name;
    const char *name; /* given at the end, by ipb_names_give_fields */
    const IpbType *type;
    bool is_required;
    const IpbJson *default_value; /* NULL: none, or one that cannot be written */
    IpbSpan description;
    const char *notes; /* ours, one a line; NULL: none */
} IpbField;

/* What a class or an enum wants to be called, and where it stands, which counts if others want the same; see names.c. */
typedef struct {
    const char **name; /* of the class or enum: is given at the end */
    const char *base;
    const IpbClass *class;  /* that it is for; NULL: it is for an enum */
    const IpbClass *parent; /* the class around it; NULL: none of its own */
    unsigned rank;          /* classes around it, the least counts; 0: a definition */
    bool is_input;
} IpbClaim;

struct IpbClass {
    const char *name;
    IpbClaim *claim; /* NULL: its name was given */
    IpbSpan description;
    const char *notes;
    GPtrArray *fields;    /* IpbField */
    const IpbType *extra; /* of members that are not named; NULL: any */
    bool is_input;        /* belongs to Params, not to Result */
    bool is_closed;       /* other members are an error */
    bool is_open;         /* the schema says that there may be others */
    bool is_result;       /* what run returns may be one */
};

typedef struct {
    const char *name;
    const IpbJson *value; /* a string */
} IpbEnumMember;

/* Of strings only; other enums are literals. */
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
    IpbSpan tool_name, title, description;
    IpbClass *params;
    const IpbType *result; /* NULL: text; a class type named Result, or any other */
    const char *result_notes;
    const char *result_member; /* of the structured content: the value; NULL: all of it */
    /* Classes and enums in the order in which they are written: what is used comes first, but for cycles. */
    GPtrArray *classes, *enums;
    GPtrArray *claims; /* IpbClaim of these, in the order in which they were met */
    GPtrArray *types;
    GHashTable *taken;    /* names of the module's level, of classes and enums */
    GHashTable *counters; /* name → its last number; see names.c */
    GStringChunk *strings;
} IpbModule;

IpbModule *ipb_module_new(void);
void ipb_module_free(IpbModule *module);
/* All of these belong to the module. */
IpbType *ipb_module_add_type(IpbModule *module, IpbTypeKind kind);
/* Not yet in module->classes: its place is where it is complete. @name: NULL if it gets a claim. */
IpbClass *ipb_class_new(const char *name);
IpbField *ipb_class_add_field(IpbClass *class);
IpbEnum *ipb_module_add_enum(IpbModule *module);
/* A copy of @text that lives as long as the module. */
const char *ipb_module_keep(IpbModule *module, const char *text);
/* @type or None; @type itself if None is in it. */
const IpbType *ipb_module_make_optional(IpbModule *module, const IpbType *type);
/* The union of @types (IpbType): flat, each once, integers in numbers, None last, Any if Any is in it. */
const IpbType *ipb_module_make_union(IpbModule *module, GPtrArray *types);
bool ipb_type_has_none(const IpbType *type);
/* The member of an enum with the string @value; NULL if there is none. */
const IpbEnumMember *ipb_enum_find(const IpbEnum *enumeration, const IpbJson *value);
/* Is @value among those of the literal @type? */
bool ipb_literal_has(const IpbType *type, const IpbJson *value);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbModule, ipb_module_free)
