/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the schema reader. From the bottom up: schema-notes.c and schema-claim.c; schema-ref.c and
 * schema-scalar.c; schema-facets.c and schema-enum.c. schema.c, schema-class.c, schema-items.c and schema-union.c
 * stand on these and call each other, as schemas hold schemas.
 *
 * A schema is read as its *facets*: the schema itself, what its $ref names, and the members of its allOf, all of which
 * hold for the same value. A keyword counts in the first facet that has it; of later ones a note remains.
 * What has been read is remembered by its facets, so that a definition becomes one class however
 * often it is used, and recursion ends.
 */
#pragma once

#include "apigen/model.h"

/* A schema with an $id: what "#" and relative references mean in it. */
typedef struct {
    const IpbJson *node;
    char *uri; /* absolute, unless the $id is none */
} IpbSchemaResource;

typedef struct {
    IpbModule *module;
    const IpbJson *root;  /* what "#" refers to */
    bool is_input;        /* Params, not Result */
    GHashTable *readings; /* facets (GBytes of pointers) → IpbReading */
    GPtrArray *loose;     /* IpbReading that are not remembered */
    GHashTable *refs;     /* the text of a $ref → its schema */
    /* IpbSchemaResource: the root, then outer ones first; NULL: not looked for. */
    GPtrArray *resources;
    GHashTable *indexes; /* an object → its members by name */
    GHashTable *enums;   /* name and values → IpbEnum */
    GHashTable *inlined; /* name and text → class type: a schema written twice is one class */
    unsigned depth, class_depth;
    size_t work, text; /* spent; see MAX_WORK and MAX_TEXT */
} IpbSchemaReader;

/* What classes and enums that are made for a schema are called. */
typedef struct {
    const char *name;       /* CamelCase */
    const IpbClass *parent; /* class that it is for; NULL: none */
    bool is_definition; /* reached by $ref: its description belongs to itself, not to the place */
} IpbHint;

typedef struct {
    const IpbType *type; /* NULL while it is being read and is no class yet */
    GString *notes;
    IpbText description;
    unsigned class_depth; /* classes around it */
    GPtrArray *later;     /* types that wait for its own; NULL: none */
    bool checks_names, checks_patterns,
        checks_counts; /* propertyNames, patternProperties, min- and maxProperties */
} IpbReading;

/* The facets of @nodes (IpbJson, taken as one allOf). */
GPtrArray *ipb_schema_collect(IpbSchemaReader *reader, GPtrArray *nodes, GString *notes);
/* The keyword's value in the first facet that has it. */
const IpbJson *ipb_schema_get(const GPtrArray *facets, const char *keyword);
/* Follows @node through $refs that stand alone, and through allOf, anyOf and oneOf of one. Changes the hint to the definition's name. NULL: it leads nowhere. */
const IpbJson *ipb_schema_follow(IpbSchemaReader *reader, const IpbJson *node, IpbHint *hint,
                                 GString *notes);
/* The schema that a $ref inside the document names; NULL, with a note, for any other. */
const IpbJson *ipb_schema_resolve(IpbSchemaReader *reader, const IpbJson *ref, GString *notes);
/* "#/$defs/Node" → "Node"; NULL if the last token is no name of a definition. */
const char *ipb_schema_name_of_ref(IpbSchemaReader *reader, const IpbJson *ref);
/* False, with a note, when the limits of one tool are reached. */
bool ipb_schema_spend_work(IpbSchemaReader *reader, size_t work, GString *notes);
bool ipb_schema_spend_text(IpbSchemaReader *reader, size_t size);

/* The type of @nodes (IpbJson, taken as one allOf). The reading belongs to the reader. */
const IpbReading *ipb_schema_read(IpbSchemaReader *reader, GPtrArray *nodes, IpbHint hint);
const IpbReading *ipb_schema_read_node(IpbSchemaReader *reader, const IpbJson *node, IpbHint hint);
const IpbType *ipb_schema_simple(IpbSchemaReader *reader, IpbTypeKind kind);

/* Arrays, and objects without named members. */
const IpbType *ipb_schema_read_list(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint,
                                    GString *notes);
const IpbType *ipb_schema_read_dict(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint,
                                    IpbReading *reading);
const IpbType *ipb_schema_read_string(IpbSchemaReader *reader, const GPtrArray *facets,
                                      GString *notes);
/* @kind: IPB_TYPE_INT or IPB_TYPE_NUMBER. */
const IpbType *ipb_schema_read_number(IpbSchemaReader *reader, const GPtrArray *facets,
                                      IpbTypeKind kind, GString *notes);
/* The tightest length of the facets; -1 if there is none that restricts something. */
int64_t ipb_schema_read_length(const GPtrArray *facets, const char *keyword, GString *notes);
/* A pattern as a Python literal; NULL for one that pydantic would read in another way. */
const char *ipb_schema_make_pattern(IpbSchemaReader *reader, IpbText text);
/* Claims the name of a class or enum for what the hint says; for another place where it is, too. */
IpbClaim *ipb_schema_claim(IpbSchemaReader *reader, const char **name, IpbHint hint);
void ipb_schema_claim_again(IpbClaim *claim, IpbHint hint);
/* Do the facets name members? */
bool ipb_schema_has_members(const GPtrArray *facets);
/* The class for an object; @reading gets its type before the members are read. */
const IpbType *ipb_schema_read_class(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint,
                                     IpbReading *reading);
/* Fills @class, which has its name, and puts it into the module. */
void ipb_schema_fill_class(IpbSchemaReader *reader, const GPtrArray *facets, IpbClass *class,
                           GString *notes);
/* enum: an array of values; const: that value in an array of C. */
const IpbType *ipb_schema_read_enum(IpbSchemaReader *reader, GPtrArray *values, IpbHint hint,
                                    IpbText description, GString *notes);

/* The alternatives of which the value is one; NULL if there are none, or they only add conditions. */
const IpbJson *ipb_schema_get_alternatives(const GPtrArray *facets);
const IpbType *ipb_schema_read_alternatives(IpbSchemaReader *reader, const GPtrArray *facets,
                                            const IpbJson *alternatives, IpbHint hint,
                                            IpbReading *reading);

/* Notes: one line each. */
void ipb_schema_note(GString *notes, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* "keyword: value", the value's JSON, cut. */
void ipb_schema_note_value(GString *notes, const char *keyword, const IpbJson *value);
/* What of the facets nothing here expresses. @reading: what its type checks beyond the usual; may be NULL. */
void ipb_schema_note_rest(const GPtrArray *facets, const IpbReading *reading, GString *notes);
/* "Examples: …", "Deprecated." */
void ipb_schema_note_annotations(const GPtrArray *facets, GString *notes);
