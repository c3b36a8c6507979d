/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbInstallCommand: where Python packages are installed for a kernel, and by which command.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef struct {
    /* path of uv; NULL: pip */
    const char *uv;
    const char *python;
    /* where installer.py is, by which pip runs for a sandboxed session */
    const char *host_directory;
    /* see ipb_install_command_overlay() */
    const char *overlay;
    const char *package;
    bool is_sandboxed;
    /* in a sandbox */
    bool allows_builds;
} IpbInstallCommand;

/* The command's arguments, NULL-terminated; the caller frees them. */
char **ipb_install_command_argv(const IpbInstallCommand *command);
/* The command that prints how pip is configured. A sandboxed session runs it outside of a
 * sandbox. */
char **ipb_install_command_config_argv(const char *python, const char *host_directory);
/* The directory below the workspace where packages go. NULL: they go into the interpreter's own
 * environment, if that can be written. It cannot if it belongs to another user or to the
 * distribution (EXTERNALLY-MANAGED), or if the session is sandboxed, because then only the
 * workspace is writable. */
char *ipb_install_command_overlay(const char *python, const char *workspace, bool is_sandboxed);
/* Whether @package is one requirement. INVALID: what is wrong. */
bool ipb_install_command_check_package(const char *package, GError **error);
/* The path of uv, which the caller frees; NULL: use pip. In a sandbox pip is preferred if @python
 * has it, because it needs no cache. */
char *ipb_install_command_find_uv(const char *python, bool is_sandboxed);
