/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON objects from authorization servers and from the token store, read with small limits.
 */
#pragma once

#include "json/json.h"

/* NULL with PROTOCOL or LIMIT: the text is not an object. @what names the document in the error. */
IpbJsonDoc *ipb_oauth_json_document_parse(const char *text, size_t size, const char *what,
                                          GError **error);
/* The member if it is a non-empty string of printable ASCII; else NULL. Caller frees. */
char *ipb_oauth_json_document_text(const IpbJson *object, const char *name);
/* The member if it is an array of such strings; items that are not are left out. NULL: it is not an
 * array. */
char **ipb_oauth_json_document_list(const IpbJson *object, const char *name);
