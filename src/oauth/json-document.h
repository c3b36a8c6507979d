/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON objects from authorization servers, read with small limits.
 */
#pragma once

#include "json/json.h"

/* NULL with PROTOCOL or LIMIT: no object; @what names the document. */
IpbJsonDoc *ipb_oauth_json_document_parse(const char *text, size_t size, const char *what,
                                          GError **error);
/* The member, if it is a string of printable ASCII that is not empty; NULL otherwise. Caller frees. */
char *ipb_oauth_json_document_text(const IpbJson *object, const char *name);
/* An array of such strings; those that are none are left out. NULL: no array. */
char **ipb_oauth_json_document_list(const IpbJson *object, const char *name);
