/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments: the application's (for ${NAME} and MCP servers) and the kernel's, which inherits next to nothing of it.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* @env (NULL: this process's) and, for names that it lacks, the .env file of @workspace. @on_warning (may be NULL) is told
 * what is wrong with the file. */
char **ipb_environment_application(const char *const *env, const char *workspace,
                                   void (*on_warning)(const char *text, void *data), void *data);

/* What of @env (as made above) MCP servers may get: all, or with @names what every server gets and those. */
char **ipb_environment_servers(const char *const *env, const char *const *names);

typedef struct {
    const char *python;
    const char *workspace;
    bool is_sandboxed;
    const char *overlay;            /* of packages, or NULL */
    const char *const *application; /* as made above */
    const char *const *kernel_env;  /* the application's wishes, or NULL; they win */
    unsigned tool_port;
    const char *tool_token; /* "": none is needed */
} IpbKernelEnvironment;

/* The kernel's whole environment. */
char **ipb_environment_kernel(const IpbKernelEnvironment *options);
