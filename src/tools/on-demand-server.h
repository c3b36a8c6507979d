/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOnDemandServer: one MCP server of a session: connected when it is first needed, again when it has
 * ended, stopped in order. Those who need it at the same time share one connection.
 */
#pragma once

#include "mcp/client.h"
#include "tools/registry.h"

typedef struct IpbOnDemandServer IpbOnDemandServer;

typedef struct {
    const char *cwd;
    const char *state_dir;       /* see mcp/client.h */
    const char *const *keep_out; /* likewise */
    const char *const *env;      /* for ${NAME}, and the base environment of stdio servers */
    unsigned connect_timeout_ms;
    unsigned call_timeout_ms;
    IpbLegacyServers *legacy_servers; /* see mcp/client.h */
    void (*on_log)(const char *server_name, const char *level, const char *text, void *data);
    /* The last of the connections that were being stopped is gone. */
    void (*on_stopped)(void *data);
    void *data;
} IpbOnDemandServerOptions;

/* @client is borrowed: it is connected now, and to be used at once. Else @error. */
typedef void (*IpbOnDemandServerFunc)(IpbMcpClient *client, const GError *error, void *data);

/* @options must outlive the server; @registration is copied. */
IpbOnDemandServer *ipb_on_demand_server_new(IpbLoop *loop, const IpbOnDemandServerOptions *options,
                                            const IpbRegistration *registration);
void ipb_on_demand_server_set_registration(IpbOnDemandServer *server,
                                           const IpbRegistration *registration);
const IpbRegistration *ipb_on_demand_server_registration(const IpbOnDemandServer *server);
/* @func once: at once if the server is connected, else from the loop. */
void ipb_on_demand_server_use(IpbOnDemandServer *server, IpbOnDemandServerFunc func, void *data);
/* Whoever waits with this @data does not any more. */
void ipb_on_demand_server_forget(IpbOnDemandServer *server, const void *data);
/* The client if it is connected, to cancel a call of it; else NULL. */
IpbMcpClient *ipb_on_demand_server_client(IpbOnDemandServer *server);
/* Ends the connection in order, if there is one; its calls get CANCELLED, who waits for it is
 * forgotten. The next use connects anew, and need not wait for that. */
void ipb_on_demand_server_stop(IpbOnDemandServer *server);
/* Is no connection left that is being stopped? */
bool ipb_on_demand_server_is_stopped(const IpbOnDemandServer *server);
/* The same, and there is no other, and nobody waits for one. */
bool ipb_on_demand_server_is_idle(const IpbOnDemandServer *server);
/* Kills what is left. No function is called any more. */
void ipb_on_demand_server_free(IpbOnDemandServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOnDemandServer, ipb_on_demand_server_free)
