/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSchemaDocument: the JSON document of a tool's input or output schema. It resolves each $ref:
 * to a JSON pointer, an anchor or an $id in the same document. It never fetches another document.
 *
 * Ownership: a plain struct, owned by value. It borrows the JSON values.
 */
#pragma once

#include "json/json.h"

typedef struct {
    const IpbJson *root;  /* what "#" refers to */
    GHashTable *targets;  /* text of a $ref → its schema */
    GPtrArray *resources; /* Resource: the root, then outer ones first; NULL: not looked for yet */
    GHashTable *indexes;  /* an object → its members by name */
    size_t n_visited;     /* schema members that were looked at */
} IpbSchemaDocument;

void ipb_schema_document_init(IpbSchemaDocument *document, const IpbJson *root);
void ipb_schema_document_clear(IpbSchemaDocument *document);
/* Counts @n members as looked at. Returns false, with a note, if the maximum for one schema is
 * exceeded. A definition that is merged in many places counts each time. */
bool ipb_schema_document_visit(IpbSchemaDocument *document, size_t n, GString *notes);
/* The schema that @ref, the value of a $ref, names. NULL, with a note, if the document has none. */
const IpbJson *ipb_schema_document_resolve(IpbSchemaDocument *document, const IpbJson *ref,
                                           GString *notes);
/* "#/$defs/node" → "Node", a class name. NULL if the last part of @ref is not a name. Caller
 * frees. */
char *ipb_schema_document_name_of_ref(const IpbJson *ref);
