/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPrincipals: who may call an MCP server over HTTP: names with a token each. Either there is one
 * without a file, or a file has a line "NAME TOKEN" for each.
 *
 * Ownership: the owner frees it. Names are borrowed from it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#include "base/span.h"

#define IPB_PRINCIPALS_MAX 1000

typedef struct IpbPrincipals IpbPrincipals;

/* One, with the name "local". INVALID: the token is too short or not printable. */
IpbPrincipals *ipb_principals_new(const char *token, GError **error);
/* Reads a file that only its owner may read. NOT_FOUND, INVALID, LIMIT. */
IpbPrincipals *ipb_principals_load(const char *path, GError **error);
size_t ipb_principals_count(const IpbPrincipals *principals);
const char *ipb_principals_name(const IpbPrincipals *principals, size_t index);
/* The index of the one that has the token; false: none has it. The time that this takes does not
 * depend on how much of a token is right. */
bool ipb_principals_find(const IpbPrincipals *principals, IpbSpan token, size_t *ret_index);
void ipb_principals_free(IpbPrincipals *principals);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbPrincipals, ipb_principals_free)
