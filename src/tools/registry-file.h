/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry's file, read and written as a whole:
 *
 *     {"version":1,"servers":[{"id":"…","name":"…","params":{…},"roots":["…"]}]}
 *
 * Members that we do not know, from a later ipybox, are kept when it is written; a file that cannot
 * be read is never written.
 */
#pragma once

#include "tools/registry.h"

#define IPB_REGISTRY_MAX_SERVERS 1000
#define IPB_REGISTRY_MAX_ROOTS 1000

/* A registration and the object that it was read from, for the members that are not ours. */
typedef struct {
    IpbRegistration *registration;
    const IpbJson *source; /* or NULL */
} IpbRegistryEntry;

typedef struct {
    IpbJsonDoc *document; /* NULL: there was no file */
    GPtrArray *entries;   /* IpbRegistryEntry, owned */
} IpbRegistryFile;

/* A missing file is an empty one. Errors: INVALID names the file and what to do, REFUSED if others
 * may write it. */
bool ipb_registry_file_load(const char *directory, const char *path, IpbRegistryFile *ret_file,
                            GError **error);
bool ipb_registry_file_save(const IpbRegistryFile *file, const char *path, GError **error);
void ipb_registry_file_clear(IpbRegistryFile *file);
IpbRegistryEntry *ipb_registry_file_get(const IpbRegistryFile *file, guint i);
/* Adds one without roots at the end. */
IpbRegistryEntry *ipb_registry_file_add(IpbRegistryFile *file, const char *name,
                                        const IpbJson *params);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbRegistryFile, ipb_registry_file_clear)
