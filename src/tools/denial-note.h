/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a tool of a sandboxed MCP server failed, as far as its words tell: the model that reads "permission denied" should not try with
 * other permissions.
 */
#pragma once

/* @params_json: the server's registered parameters; @text: what the tool says of its failure. "operation not permitted: …" if that is
 * what a sandbox's denial makes programs say and the server is in one, else NULL. Static. */
const char *ipb_denial_note(const char *params_json, const char *text);
