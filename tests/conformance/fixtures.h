/* SPDX-License-Identifier: Apache-2.0
 *
 * Fixtures: the tools, resources and prompts that the server scenarios of the conformance suite
 * expect. They are data, in fixtures.json:
 *
 *     capabilities, results    of the server; of methods without parameters that matter
 *     texts                    long texts by name
 *     tools, prompts, resources, resourceTemplates
 *                              "is": the entry of the list; "steps": what a call does, in order;
 *                              then its "result", or the "error" that ends it
 *
 * A step has one member:
 *
 *     needs      capabilities of the client; without them, the call fails
 *     task       the call becomes a task
 *     log        a text for notifications/message
 *     progress   of 100
 *     wait       milliseconds, or the name of an argument in seconds
 *     ask        {key: {method, params}}: questions that the client offers to answer; they go
 *                together
 *
 * {{NAME}} in steps and results is an argument, the variable of a URI template, the answer to the
 * question NAME, or one of the texts.
 */
#pragma once

#include "base/loop.h"
#include "serve/mcp/connection.h"

typedef struct Fixtures Fixtures;

Fixtures *fixtures_load(IpbLoop *loop, const char *path, GError **error);
/* Lives as long as the fixtures. */
const IpbMcpExtension *fixtures_extension(const Fixtures *fixtures);
/* After the server; ends calls that still run. May be NULL. */
void fixtures_free(Fixtures *fixtures);
