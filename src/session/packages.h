/* SPDX-License-Identifier: Apache-2.0
 *
 * Where packages for the kernel are installed, and the installer that does it.
 */
#pragma once

#include "base/child.h"

/* NULL if packages go into the interpreter's own environment, which may be written. Otherwise the directory for them
 * below the workspace: the environment belongs to somebody else (another user, or the distribution: EXTERNALLY-MANAGED), or all that
 * a sandboxed session may write is its workspace. */
char *ipb_packages_overlay(const char *python, const char *workspace, bool is_sandboxed);

typedef struct IpbInstall IpbInstall;
typedef void (*IpbInstallLineFunc)(const char *line, void *data);
/* @output: all of it, the middle left out if it is large. @error: SERVER if the installer failed, its message holds the output. */
typedef void (*IpbInstallDoneFunc)(const char *output, const GError *error, void *data);

typedef struct {
    const char *python;
    const char *overlay; /* or NULL */
    const char *package; /* a requirement as pip takes it: name, name>=1.0, git+https://… */
    const char *cwd;
    const char *const *env;
    unsigned timeout_ms;        /* 0: 15 minutes */
    IpbInstallLineFunc on_line; /* may be NULL */
    IpbInstallDoneFunc on_done; /* exactly once, from the loop, unless freed before */
    void *data;
} IpbInstallOptions;

/* Runs `uv pip install` where there is a uv, else `python -m pip install`. INVALID: not a requirement; NOT_FOUND. */
IpbInstall *ipb_install_new(IpbLoop *loop, const IpbInstallOptions *options, GError **error);
/* Ends the installer; on_done tells CANCELLED. */
void ipb_install_cancel(IpbInstall *install);
void ipb_install_free(IpbInstall *install);
