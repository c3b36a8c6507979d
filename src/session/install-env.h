/* SPDX-License-Identifier: Apache-2.0
 *
 * What an installer needs of the application's environment: the proxies of this machine's network,
 * the package index, certificates. The values may contain passwords, so kernels get only the names.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* The environment of an installer in a sandbox, with the settings that it needs and no other
 * secret. @env: the application's environment. @settings: "PIP_NAME=value" list of pip's
 * configuration, for what @env does not set. @proxy (or NULL) replaces pip's own proxy setting.
 * Proxies of the environment are not included: the sandbox adds its own. Caller frees. */
char **ipb_install_env_make(const char *const *env, const char *const *settings, const char *proxy);
/* The files and directories of the host that variables of @env (as made above) name, such as
 * certificates. NULL-terminated; caller frees. */
char **ipb_install_env_paths(const char *const *env);
/* "https_proxy, PIP_INDEX_URL": which of these settings @env has; NULL: none. Caller frees. */
char *ipb_install_env_names(const char *const *env);
/* Advice for the user, if @output of an installer shows that it could not reach its index: a
 * sentence, or NULL. Caller frees. */
char *ipb_install_env_advise(const char *const *env, const char *output);
