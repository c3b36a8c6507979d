/* SPDX-License-Identifier: Apache-2.0
 *
 * A note for a tool of a sandboxed MCP server whose failure looks like a denial of the sandbox. A
 * model that reads only "permission denied" may try again with other permissions.
 */
#pragma once

/* @params_json: the server's registered parameters. @text: what the tool says about its failure.
 * Returns "operation not permitted: …" if the server runs in a sandbox and the text has the words
 * that programs use for EACCES and EROFS; else NULL. Static. */
const char *ipb_denial_note(const char *params_json, const char *text);
