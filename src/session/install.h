/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbInstall: an installation of one package for the kernel, in a sandbox if the session has one.
 *
 * Ownership: the owner frees it, which ends the installer. One at a time for a session.
 */
#pragma once

#include "session/sandboxing.h"

typedef struct IpbInstall IpbInstall;
typedef void (*IpbInstallLineFunc)(const char *line, void *data);
/* @output: all of it, the middle left out if it is large. @error: SERVER if the installer failed, its message holds the output. */
typedef void (*IpbInstallDoneFunc)(const char *output, const GError *error, void *data);

typedef struct {
    const char *python;
    const char *host_directory; /* see packages.h */
    const char *workspace;
    const char *overlay; /* or NULL */
    /* The installer runs in a sandbox: it writes the overlay and reaches the configured index; or NULL */
    IpbSandboxing *sandboxing;
    /* In a sandbox: not wheels only, but also what runs code of the package; and URLs */
    bool allows_builds;
    const char *package; /* a requirement as pip takes it: name, name>=1.0, git+https://… */
    const char *const *env;
    unsigned timeout_ms;        /* 0: 15 minutes */
    IpbInstallLineFunc on_line; /* may be NULL */
    IpbInstallDoneFunc on_done; /* exactly once, from the loop, unless freed before */
    void *data;
} IpbInstallOptions;

/* Runs `uv pip install` where there is a uv, else `python -m pip install`; in a sandbox pip if there is one. INVALID: not a requirement;
 * REFUSED: not without builds, or what is in the overlay's place; NOT_FOUND. */
IpbInstall *ipb_install_new(IpbLoop *loop, const IpbInstallOptions *options, GError **error);
/* Ends the installer; on_done tells CANCELLED. */
void ipb_install_cancel(IpbInstall *install);
void ipb_install_free(IpbInstall *install);
