/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbInstaller: installs Python packages for the kernel of a session, one at a time. It runs pip or
 * uv, in a sandbox if the session has one.
 *
 * Ownership: the owner frees it, which ends a running installation.
 */
#pragma once

#include "session/sandboxing.h"

typedef struct IpbInstaller IpbInstaller;
/* A line of the output. */
typedef void (*IpbInstallLineFunc)(const char *line, void *data);
/* @output: everything that was printed; if it is large, the middle is left out. @error: SERVER if
 * the installation failed; its message contains the output. */
typedef void (*IpbInstallDoneFunc)(const char *output, const GError *error, void *data);

/* Borrowed; they must live as long as the installer. */
typedef struct {
    const char *python;
    const char *host_directory; /* see install-command.h */
    const char *workspace;
    const char *overlay; /* see install-command.h; or NULL */
    /* The installation runs in a sandbox: it can write the overlay and reach the configured index.
     * NULL: no sandbox */
    IpbSandboxing *sandboxing;
    /* in a sandbox: code of a package may run to build it, and URLs are accepted */
    bool allows_builds;
    const char *const *env;
} IpbInstallerOptions;

IpbInstaller *ipb_installer_new(IpbLoop *loop, const IpbInstallerOptions *options);
/* Installs @package: a requirement as pip takes it, such as name, name>=1.0 or git+https://….
 * @on_line (may be NULL) gets each line; @on_done is called once, from the loop, unless the
 * installer is freed before. Returns false with @error: INVALID (not a requirement), BUSY (another
 * installation runs, or the installer is closed), REFUSED (it needs allows_builds; or a symbolic
 * link is where the overlay should be), NOT_FOUND. */
bool ipb_installer_install(IpbInstaller *installer, const char *package, IpbInstallLineFunc on_line,
                           IpbInstallDoneFunc on_done, void *data, GError **error);
/* Where packages come from, for people. The caller frees it. */
char *ipb_installer_describe_index(const IpbInstaller *installer);
/* Ends the running installation, if any: on_done reports CANCELLED. */
void ipb_installer_cancel(IpbInstaller *installer);
/* Cancels the running installation and takes no other. Calls @done when none runs, which may be at
 * once. */
void ipb_installer_close(IpbInstaller *installer, void (*done)(void *data), void *data);
void ipb_installer_free(IpbInstaller *installer);
