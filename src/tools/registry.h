/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRegistry: the MCP servers that the user registered, in one file (0600) in the state directory:
 * id, name, parameters as written (${NAME} unexpanded), and the package roots generated from it.
 * Only the application writes it; a kernel names ids and nothing else. The id is derived from name
 * and canonical parameters, so the same server has the same id wherever it is registered. Several
 * processes may write at once (flock).
 */
#pragma once

#include "json/json.h"
#include "json/writer.h"

typedef struct IpbRegistry IpbRegistry;

typedef struct {
    char *id; /* 32 hex digits */
    char *name;
    char *params_json; /* as given, one line */
    char **roots;      /* absolute paths of root directories that hold its package */
    char *tools;       /* the digest of those that its package was last made of; NULL: not known */
} IpbRegistration;

/* @state_dir: NULL: $XDG_STATE_HOME/ipybox or ~/.local/state/ipybox. Opens nothing yet. */
IpbRegistry *ipb_registry_new(const char *state_dir);
void ipb_registry_free(IpbRegistry *registry);
/* Adds, or adds @root (absolute, may be NULL) to an equal one. A root holds one package a name: the
 * root is taken from another registration of that name. INVALID for a bad name or bad params. */
IpbRegistration *ipb_registry_add(IpbRegistry *registry, const char *name, const IpbJson *params,
                                  const char *root, GError **error);
/* The same for a package that was made of tools with this digest. */
IpbRegistration *ipb_registry_add_package(IpbRegistry *registry, const char *name,
                                          const IpbJson *params, const char *root,
                                          const char *tools, GError **error);
/* A digest of all that a package is made of, whatever the order of the tools. @tools: as tools/list gives them. */
char *ipb_registry_digest_tools(const IpbJson *tools);
/* By id; NOT_FOUND. */
IpbRegistration *ipb_registry_get(IpbRegistry *registry, const char *id, GError **error);
/* All, in the order of registration: IpbRegistration pointers. */
GPtrArray *ipb_registry_list(IpbRegistry *registry, GError **error);
/* By id or name; NOT_FOUND, and INVALID if a name fits several (the message lists their ids). */
bool ipb_registry_remove(IpbRegistry *registry, const char *id_or_name, GError **error);
/* INVALID: what may not be registered: a bad name, bad parameters. */
bool ipb_registry_check(const char *name, const IpbJson *params, GError **error);
char *ipb_registry_make_id(const char *name, const IpbJson *params);
IpbRegistration *ipb_registration_copy(const IpbRegistration *registration);
void ipb_registration_free(IpbRegistration *registration);
/* Its members, into an object that was begun. */
void ipb_registration_write(const IpbRegistration *registration, IpbJsonWriter *writer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRegistry, ipb_registry_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRegistration, ipb_registration_free)
