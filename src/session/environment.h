/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes environments: the application's, for ${NAME} and MCP servers; and the kernel's, which
 * inherits only a few variables of it.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* @env (NULL: this process's environment) and, for names that it lacks, the .env file of
 * @workspace. @on_warning (may be NULL) gets what is wrong with the file. With @is_sandboxed, the
 * file is ignored with a warning if it is a symbolic link: cells could have made it. Otherwise a
 * link is the user's, and is followed, as in ipybox 0.9. */
char **ipb_environment_application(const char *const *env, const char *workspace, bool is_sandboxed,
                                   void (*on_warning)(const char *text, void *data), void *data);

/* The variables of @env (as made above) that MCP servers may get: all of them; or, with @names,
 * those that every server gets and the named ones. */
char **ipb_environment_servers(const char *const *env, const char *const *names);

typedef struct {
    const char *python;
    const char *workspace;
    bool is_sandboxed;
    bool has_rich_client;           /* it shows colour */
    bool can_install;               /* in a sandbox: `!pip install` can call our tool */
    const char *overlay;            /* of packages, or NULL */
    const char *const *application; /* as made above */
    const char *const *kernel_env;  /* of the application, or NULL; they take precedence */
    unsigned tool_port;
    const char *tool_token; /* "": none is needed */
} IpbKernelEnvironment;

/* The kernel's whole environment. */
char **ipb_environment_kernel(const IpbKernelEnvironment *options);
