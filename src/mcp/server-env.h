/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of a stdio server, and what to say when its command is not found.
 */
#pragma once

/* The variables of the table in server-env.c taken from @base_env, then those of @own ("NAME=value"
 * lists, either may be NULL), which win. Free with g_strfreev. */
char **ipb_server_env_make(const char *const *base_env, char *const *own);
/* How to get a well-known command ("npx comes with Node.js …"), or what is wrong with its text;
 * NULL: nothing to say. Caller frees. */
char *ipb_server_env_hint(const char *command);
