/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRegistry: the MCP servers that the user registered. They are in one file (0600) in the state
 * directory: id, name, parameters as written (with ${NAME}), and the roots of the packages that
 * were generated from them. Only the application writes the file; a kernel names ids and nothing
 * else. The id is derived from the name and the canonical parameters, so a server has the same id
 * wherever it is registered. Several processes may write at once (flock).
 *
 *     {"version":1,"servers":[{"id":"…","name":"…","params":{…},"roots":["…"],"tools":"…"}]}
 *
 * Unknown members, from a later ipybox, are kept when the file is written. A file that cannot be
 * read is never written.
 */
#pragma once

#include "json/json.h"
#include "json/writer.h"

/* In the state directory. */
#define IPB_REGISTRY_FILE "servers.json"

typedef struct IpbRegistry IpbRegistry;

typedef struct {
    char *id; /* 32 hex digits */
    char *name;
    char *params_json; /* as written, on one line */
    char **roots;      /* absolute paths of the root directories that have its package */
    char *tools;       /* the digest of the tools that its package was made of; NULL: not known */
} IpbRegistration;

/* @state_dir: NULL for $XDG_STATE_HOME/ipybox or ~/.local/state/ipybox. Opens nothing yet. */
IpbRegistry *ipb_registry_new(const char *state_dir);
void ipb_registry_free(IpbRegistry *registry);
/* Adds a registration, or adds @root (absolute, may be NULL) to an equal one. A root has one
 * package of a name, so it is removed from other registrations with this name. Errors: INVALID (a
 * bad name or bad parameters), and those of reading the file: INVALID (names the file and what to
 * do), REFUSED (others may write it). */
IpbRegistration *ipb_registry_add(IpbRegistry *registry, const char *name, const IpbJson *params,
                                  const char *root, GError **error);
/* The same for a package that was made of the tools with this digest. */
IpbRegistration *ipb_registry_add_package(IpbRegistry *registry, const char *name,
                                          const IpbJson *params, const char *root,
                                          const char *tools, GError **error);
/* A digest of everything that a package is made of, whatever the order of the tools. @tools: the
 * array of tools/list. */
char *ipb_registry_digest_tools(const IpbJson *tools);
/* Finds a registration by its id. NOT_FOUND: there is none. */
IpbRegistration *ipb_registry_get(IpbRegistry *registry, const char *id, GError **error);
/* All registrations in order: IpbRegistration pointers. */
GPtrArray *ipb_registry_list(IpbRegistry *registry, GError **error);
/* Removes a registration by its id or name. Errors: NOT_FOUND, INVALID (several have this name; the
 * message lists their ids). */
bool ipb_registry_remove(IpbRegistry *registry, const char *id_or_name, GError **error);
/* INVALID: the name or the parameters cannot be registered. */
bool ipb_registry_check(const char *name, const IpbJson *params, GError **error);
char *ipb_registry_make_id(const char *name, const IpbJson *params);
IpbRegistration *ipb_registration_copy(const IpbRegistration *registration);
void ipb_registration_free(IpbRegistration *registration);
/* Writes the members into an object that was begun. */
void ipb_registration_write(const IpbRegistration *registration, IpbJsonWriter *writer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRegistry, ipb_registry_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRegistration, ipb_registration_free)
