/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of a stdio server, and a hint for a command that is not found.
 */
#pragma once

/* Takes the variables that server-env.c lists from @base_env and adds those of @own, which take
 * precedence. Both are "NAME=value" lists and may be NULL. Free with g_strfreev. */
char **ipb_server_env_make(const char *const *base_env, char *const *own);
/* Says how to install a well-known command ("npx comes with Node.js …"), or what is wrong with its
 * text. NULL: nothing to say. Caller frees. */
char *ipb_server_env_hint(const char *command);
