/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcPackageGenerator: generates packages of MCP servers without a session, with the method
 * "sources.generate". The client is the application, so all its sessions may call what it has
 * generated, wherever the package is.
 *
 * Ownership: the server owns this object, which owns the jobs. A job is freed when its MCP server
 * has ended, which is after its reply.
 */
#pragma once

#include "mcp/client.h"
#include "serve/rpc/client.h"
#include "tools/registry.h"

typedef struct IpbRpcPackageGenerator IpbRpcPackageGenerator;

extern const IpbRpcMethod IPB_RPC_PACKAGE_METHODS[];
extern const size_t IPB_RPC_N_PACKAGE_METHODS;

typedef struct {
    IpbLoop *loop;
    IpbRpcClient *client;             /* borrowed */
    IpbLegacyServers *legacy_servers; /* see mcp/client.h; borrowed */
    /* A package was generated: sessions may call its server. */
    void (*on_generated)(const IpbRegistration *registration, void *data);
    void *data;
} IpbRpcPackageGeneratorOptions;

IpbRpcPackageGenerator *ipb_rpc_package_generator_new(const IpbRpcPackageGeneratorOptions *options);
/* Cancels what is under way; @done when nothing is left, at once if nothing is. */
void ipb_rpc_package_generator_close(IpbRpcPackageGenerator *generator, void (*done)(void *data),
                                     void *data);
/* Kills what is left. */
void ipb_rpc_package_generator_free(IpbRpcPackageGenerator *generator);
