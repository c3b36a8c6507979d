/* SPDX-License-Identifier: Apache-2.0
 *
 * What an installer needs of the application's environment: the proxies of this machine's network, the package index, certificates. It may
 * hold passwords, so no kernel gets it; kernels get the names.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Of an installer in a sandbox, from @env (the application's) and @settings ("PIP_NAME=value" list: what pip is configured to, which counts
 * where @env has nothing): what it has to know, and no other secret. @proxy (or NULL): what pip's own setting becomes. Proxies of the
 * environment are the sandbox's to name. Caller frees. */
char **ipb_install_env_make(const char *const *env, const char *const *settings, const char *proxy);
/* The files and directories of the host that the variables name, such as certificates. @env: as made above. NULL-terminated; caller frees. */
char **ipb_install_env_paths(const char *const *env);
/* "https_proxy, PIP_INDEX_URL": which of these settings @env has; NULL: none. Caller frees. */
char *ipb_install_env_names(const char *const *env);
/* What may help where an installer could not reach its index, from what it said: a sentence, or NULL. Caller frees. */
char *ipb_install_env_advise(const char *const *env, const char *output);
