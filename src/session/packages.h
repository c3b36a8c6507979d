/* SPDX-License-Identifier: Apache-2.0
 *
 * Where packages for the kernel are installed, and by which command.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* NULL if packages go into the interpreter's own environment, which may be written. Otherwise the directory for them
 * below the workspace: the environment belongs to somebody else (another user, or the distribution: EXTERNALLY-MANAGED), or all that
 * a sandboxed session may write is its workspace. */
char *ipb_packages_overlay(const char *python, const char *workspace, bool is_sandboxed);

/* Is @package one requirement? INVALID: what is wrong. */
bool ipb_packages_check(const char *package, GError **error);
/* The path of uv, caller frees; NULL: pip is to be used. In a sandbox that is preferred if @python has it: it needs no cache. */
char *ipb_packages_find_uv(const char *python, bool is_sandboxed);

typedef struct {
    const char *uv; /* NULL: pip */
    const char *python;
    /* Where installer.py is, by which pip runs for a sandboxed session. */
    const char *host_directory;
    const char *overlay; /* or NULL */
    const char *package;
    bool is_sandboxed;
    bool allows_builds; /* in a sandbox */
} IpbPackageCommand;

char **ipb_packages_command(const IpbPackageCommand *options);
/* Of a sandboxed session, which runs outside of a sandbox: what pip is configured to. */
char **ipb_packages_question(const char *python, const char *host_directory);
