/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOnDemandServer: one MCP server of a session. It is connected when it is first used, and again
 * after it has ended. Callers that need it at the same time share one connection.
 */
#pragma once

#include "mcp/client.h"
#include "tools/registry.h"

typedef struct IpbOnDemandServer IpbOnDemandServer;

typedef struct {
    const char *cwd;
    const char *state_dir;       /* see mcp/client.h */
    const char *const *keep_out; /* likewise */
    const char *const *env;      /* for ${NAME}, and what stdio servers inherit */
    unsigned connect_timeout_ms;
    unsigned call_timeout_ms;
    IpbLegacyServers *legacy_servers; /* see mcp/client.h */
    void (*on_log)(const char *server_name, const char *level, const char *text, void *data);
    /* The last connection that was being stopped has ended. */
    void (*on_stopped)(void *data);
    void *data;
} IpbOnDemandServerOptions;

/* @client is connected and borrowed: use it before returning. If it is NULL, @error is set. */
typedef void (*IpbOnDemandServerFunc)(IpbMcpClient *client, const GError *error, void *data);

/* @options must stay valid until the server is freed; @registration is copied. */
IpbOnDemandServer *ipb_on_demand_server_new(IpbLoop *loop, const IpbOnDemandServerOptions *options,
                                            const IpbRegistration *registration);
void ipb_on_demand_server_set_registration(IpbOnDemandServer *server,
                                           const IpbRegistration *registration);
const IpbRegistration *ipb_on_demand_server_registration(const IpbOnDemandServer *server);
/* Calls @func once: immediately if the server is connected, else from the loop. */
void ipb_on_demand_server_use(IpbOnDemandServer *server, IpbOnDemandServerFunc func, void *data);
/* Cancels the wait that was started with this @data. */
void ipb_on_demand_server_forget(IpbOnDemandServer *server, const void *data);
/* The client, to cancel one of its calls; NULL: it is not connected. */
IpbMcpClient *ipb_on_demand_server_client(IpbOnDemandServer *server);
/* Shuts the connection down, if there is one. Its calls get CANCELLED, and waits are cancelled. The
 * next use connects again; it need not wait for the end. */
void ipb_on_demand_server_stop(IpbOnDemandServer *server);
/* Whether no connection is being stopped. */
bool ipb_on_demand_server_is_stopped(const IpbOnDemandServer *server);
/* The same, and no connection is open or awaited. */
bool ipb_on_demand_server_is_idle(const IpbOnDemandServer *server);
/* Kills what is left. No function is called any more. */
void ipb_on_demand_server_free(IpbOnDemandServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOnDemandServer, ipb_on_demand_server_free)
