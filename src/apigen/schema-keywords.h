/* SPDX-License-Identifier: Apache-2.0
 *
 * The keywords of a schema. A schema is read as its *facets*: the schema itself, the schema that
 * its $ref names, and the members of its allOf. All of them hold for the same value. A keyword
 * counts in the first facet that has it. Keywords that the generated types do not express become
 * notes, which are shown in docstrings, one on each line.
 */
#pragma once

#include "json/json.h"

/* Keywords that the type of one schema expresses, though most types do not. */
typedef struct {
    bool names;    /* propertyNames */
    bool patterns; /* patternProperties */
    bool counts;   /* minProperties, maxProperties */
} IpbSchemaChecks;

/* The value of @keyword in the first of @facets (IpbJson) that has it; NULL if none has it. */
const IpbJson *ipb_schema_get(const GPtrArray *facets, const char *keyword);

/* Adds a note, unless the same note is there. */
void ipb_schema_note(GString *notes, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Adds "keyword: value". The value is its JSON text, shortened; of a string, the text itself. */
void ipb_schema_note_value(GString *notes, const char *keyword, const IpbJson *value);
/* Adds "Examples: …" and "Deprecated.". */
void ipb_schema_note_annotations(const GPtrArray *facets, GString *notes);
/* Adds a note for each annotation, and for each rule of the facets that no type expresses. @checks:
 * what the schema's own type expresses; may be NULL. */
void ipb_schema_note_rest(const GPtrArray *facets, const IpbSchemaChecks *checks, GString *notes);
