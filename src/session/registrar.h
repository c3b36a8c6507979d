/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRegistrar: the registrations of MCP servers that a session makes. Each runs the steps of
 * session/registering.h; then cells of the session may call the server.
 *
 * In a sandboxed session a client of the application is less trusted than the application. A server
 * that the client registers runs in a sandbox that allows what the session's kernels are allowed,
 * whatever its parameters say, unless the options permit otherwise.
 *
 * Ownership: the session owns it, and frees it after ipb_registrar_close() if it wants an orderly
 * end.
 */
#pragma once

#include "apigen/apigen.h"
#include "mcp/legacy-servers.h"
#include "session/sandboxing.h"
#include "tools/registry.h"
#include "tools/tool-host.h"

typedef struct IpbRegistrar IpbRegistrar;

/* @modules: names of the generated modules, NULL-terminated; NULL with @error. */
typedef void (*IpbRegisterFunc)(const char *const *modules, const GError *error, void *data);

/* Borrowed; they must live as long as the registrar. */
typedef struct {
    IpbRegistry *registry;
    IpbToolHost *tool_host;
    IpbSandboxing *sandboxing; /* or NULL */
    IpbLegacyServers *legacy_servers;
    const char *workspace;
    const char *state_dir;
    const char *const *keep_out;
    const char *const *env;
    unsigned connect_timeout_ms;
    /* servers of a client need not run in a sandbox */
    bool allows_unsandboxed_servers;
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbRegistrarOptions;

typedef struct {
    const char *name;
    const IpbJson *params;
    /* relative to the workspace; NULL: "mcptools" */
    const char *root_dir;
    bool async_api;
    IpbApigenListing listing;
    /* a client of the application asks for it, not the application */
    bool is_of_client;
} IpbRegisterOptions;

IpbRegistrar *ipb_registrar_new(IpbLoop *loop, const IpbRegistrarOptions *options);
/* Connects to an MCP server, writes the package @root_dir/@name from its tools, registers it and
 * lets the session call it. Returns a number that cancels it; @func is then called once. Returns 0
 * with @error (INVALID, NOT_FOUND, BUSY) if nothing was started. */
uint64_t ipb_registrar_register(IpbRegistrar *registrar, const IpbRegisterOptions *options,
                                IpbRegisterFunc func, void *data, GError **error);
/* Its function gets CANCELLED. */
void ipb_registrar_cancel(IpbRegistrar *registrar, uint64_t number);
/* Cancels all registrations and takes no other. Calls @done when their servers are gone, which may
 * be at once. */
void ipb_registrar_close(IpbRegistrar *registrar, void (*done)(void *data), void *data);
void ipb_registrar_free(IpbRegistrar *registrar);
