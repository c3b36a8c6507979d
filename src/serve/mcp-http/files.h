/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpFiles: the files of principals' workspaces over HTTP, beside MCP: GET, HEAD, PUT and DELETE
 * of /files/PATH, lists of directories, and tar archives. docs/internals/mcp-http.md describes it.
 *
 * Each request has a program that works on the files with the rights of a cell
 * (serve/mcp-http/file-helper.h). Content is passed on in pieces: a slow client slows the program.
 * A few requests of each principal run at a time, and the others wait.
 *
 * Ownership: the owner frees it before the HTTP server.
 */
#pragma once

#include "http/server.h"
#include "serve/mcp/service.h"

/* The path of the workspace itself. */
#define IPB_MCP_FILES_PATH "/files/"

typedef struct IpbMcpFiles IpbMcpFiles;

/* @on_over: a request has ended; nothing of it is left. */
IpbMcpFiles *ipb_mcp_files_new(IpbRuntime *runtime, void (*on_over)(void *data), void *data);
/* Takes a request for a path below IPB_MCP_FILES_PATH. @service, @options: of its principal. If the
 * workspace is staged and commits need an approval, nothing is written. */
void ipb_mcp_files_handle(IpbMcpFiles *files, IpbMcpService *service,
                          const IpbSessionOptions *options, IpbHttpRequest *request);
/* Ends the requests of a service, NULL: all. They have ended when _serves() says so. */
void ipb_mcp_files_end_of(IpbMcpFiles *files, const IpbMcpService *service);
/* Has the service (NULL: any) requests that have not ended? */
bool ipb_mcp_files_serves(const IpbMcpFiles *files, const IpbMcpService *service);
void ipb_mcp_files_free(IpbMcpFiles *files);
