/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpResources: the files of a session's workspace as MCP resources, for clients without a disk
 * that they share with ipybox: resources/list and resources/read. A URI is
 * workspace:///relative/path. What is offered: regular files that code in the session's sandbox may
 * read (without a sandbox: in the default one) and whose names are not protected. Names that
 * begin with a dot, mcptools and __pycache__ are left out. No symbolic link is followed.
 *
 * Ownership: the server owns it. The session is borrowed.
 */
#pragma once

#include "serve/mcp/request.h"
#include "session/session.h"

typedef struct IpbMcpResources IpbMcpResources;

IpbMcpResources *ipb_mcp_resources_new(IpbSession *session);
/* Answer a request. */
void ipb_mcp_resources_list(IpbMcpResources *resources, IpbMcpRequest *request);
void ipb_mcp_resources_read(IpbMcpResources *resources, IpbMcpRequest *request);
void ipb_mcp_resources_free(IpbMcpResources *resources);
