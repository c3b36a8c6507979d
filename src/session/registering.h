/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRegistering: the steps that register one MCP server, so that cells can call it: connect, list
 * its tools, generate the package, write it, add it to the registry, disconnect. If a step fails,
 * the previous package stays as it was.
 */
#pragma once

#include "apigen/apigen.h"
#include "mcp/client.h"
#include "tools/registry.h"

typedef struct IpbRegistering IpbRegistering;

typedef struct {
    IpbRegistry *registry; /* borrowed, as is the rest */
    const char *name;
    const IpbJson *params;
    const char *root_dir; /* absolute */
    /* The directory in which cells may write: no link below it is followed. Absolute. */
    const char *base;
    bool async_api;
    IpbApigenListing listing;    /* what on_done reports of each module */
    const char *cwd;             /* of a stdio server */
    const char *state_dir;       /* see mcp/client.h */
    const char *const *keep_out; /* likewise */
    const char *const *env;
    unsigned connect_timeout_ms;
    IpbLegacyServers *legacy_servers; /* see mcp/client.h */
    void (*on_log)(const char *server_name, const char *level, const char *text, void *data);
    /* Once, from the loop: the modules and the registration (borrowed), or an error. */
    void (*on_done)(const char *const *modules, const IpbRegistration *registration,
                    const GError *error, void *data);
    /* Once, after on_done: the server is gone, and the object may be freed. */
    void (*on_closed)(IpbRegistering *registering, void *data);
    void *data;
} IpbRegisteringOptions;

/* NULL with @error: a bad name, bad parameters, a missing variable. */
IpbRegistering *ipb_registering_new(IpbLoop *loop, const IpbRegisteringOptions *options,
                                    GError **error);
/* on_done reports CANCELLED, unless it was called before; then on_closed. */
void ipb_registering_cancel(IpbRegistering *registering);
/* Kills what is left; no callback comes. */
void ipb_registering_free(IpbRegistering *registering);
