/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSchemaReader: the state of reading one schema into the model, shared by the files of the
 * reader. schema-scalar.c reads schemas that hold no others. schema.c and schema-class.c call each
 * other, because schemas hold schemas.
 *
 * The result of each reading is remembered by the schema's facets (schema-keywords.h). So a
 * definition becomes one class, however often it is used, and recursion ends.
 */
#pragma once

#include "apigen/model.h"
#include "apigen/names.h"
#include "apigen/schema-document.h"
#include "apigen/schema-keywords.h"

/* Bytes of names, values and descriptions that one schema puts into its module. */
#define IPB_SCHEMA_MAX_TEXT (4 << 20)

typedef struct {
    IpbModule *module;
    IpbSchemaDocument document;
    bool is_input;        /* for Params, not for Result */
    GHashTable *readings; /* facets (GBytes of pointers) → IpbSchemaReading */
    GPtrArray *unshared;  /* IpbSchemaReading that are not remembered */
    GHashTable *enums;    /* name and values → IpbEnum */
    GHashTable *inlined;  /* name and text → class type: a schema written twice is one class */
    unsigned depth;       /* schemas around the one that is being read */
    unsigned class_depth; /* classes around it */
    size_t text_size;     /* bytes of text so far */
} IpbSchemaReader;

/* What is known of a schema. */
typedef struct {
    const IpbType *type; /* NULL while it is being read and is not known to be a class */
    GString *notes;
    IpbSpan description;
    unsigned class_depth; /* classes around it */
    GPtrArray *later;     /* types that wait for this one; NULL: none */
    IpbSchemaChecks checks;
} IpbSchemaReading;

/* Counts @size bytes of text for the module. Returns false if the maximum is exceeded. */
static inline bool
ipb_schema_reader_spend_text(IpbSchemaReader *reader, size_t size)
{
    if (size > IPB_SCHEMA_MAX_TEXT - reader->text_size)
        return false;
    reader->text_size += size;
    return true;
}

/* --- schema.c --------------------------------------------------------------------------------- */

/* The facets of @nodes (IpbJson), which are taken as one allOf. */
GPtrArray *ipb_schema_collect(IpbSchemaReader *reader, GPtrArray *nodes, GString *notes);
/* The type of @nodes, which are taken as one allOf. The reading belongs to the reader. */
const IpbSchemaReading *ipb_schema_read(IpbSchemaReader *reader, GPtrArray *nodes,
                                        IpbNameHint hint);
const IpbSchemaReading *ipb_schema_read_node(IpbSchemaReader *reader, const IpbJson *node,
                                             IpbNameHint hint);

/* --- schema-class.c --------------------------------------------------------------------------- */

/* Whether the facets name members of an object. */
bool ipb_schema_has_members(const GPtrArray *facets);
/* The class for an object. @reading gets its type before the members are read, so that they can
 * refer to it. */
const IpbType *ipb_schema_read_class(IpbSchemaReader *reader, const GPtrArray *facets,
                                     IpbNameHint hint, IpbSchemaReading *reading);
/* Fills @class, whose name is known, and adds it to the module. */
void ipb_schema_fill_class(IpbSchemaReader *reader, const GPtrArray *facets, IpbClass *class,
                           GString *notes);

/* --- schema-scalar.c -------------------------------------------------------------------------- */

const IpbType *ipb_schema_read_string(IpbSchemaReader *reader, const GPtrArray *facets,
                                      GString *notes);
/* @kind: IPB_TYPE_INT or IPB_TYPE_NUMBER. */
const IpbType *ipb_schema_read_number(IpbSchemaReader *reader, const GPtrArray *facets,
                                      IpbTypeKind kind, GString *notes);
/* The tightest length of the facets; -1 if none restricts anything. */
int64_t ipb_schema_read_length(const GPtrArray *facets, const char *keyword, GString *notes);
/* A pattern as a Python literal; NULL if pydantic would read it in another way. */
const char *ipb_schema_make_pattern(IpbSchemaReader *reader, IpbSpan text);
/* @values (IpbJson): those of an enum, or the one of a const. */
const IpbType *ipb_schema_read_enum(IpbSchemaReader *reader, GPtrArray *values, IpbNameHint hint,
                                    IpbSpan description, GString *notes);
