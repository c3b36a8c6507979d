/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxing: the sandbox side of a sandboxed session. It holds the policy, makes a plan for
 * each kernel that starts, and serves what the kernel can reach: the tool channel and the egress.
 *
 * Ownership: the session owns it, and frees it after the kernel.
 */
#pragma once

#include "kernel/kernel.h"
#include "session/staged-workspace.h"
#include "tools/registry.h"
#include "tools/tool-channel.h"

/* The tool channel's port inside a sandbox. Each sandbox has its own network, so the port of ipybox
 * 0.9 is always free. */
#define IPB_SANDBOX_TOOL_PORT 8900

typedef struct IpbSandboxing IpbSandboxing;

typedef struct {
    const char *config;                 /* path; NULL: the default */
    const char *const *allowed_domains; /* beyond the configuration's; or NULL */
    const char *limits; /* instead of the configuration's: a JSON object as its "limits"; or NULL */
    const char *workspace;
    /* packages will be generated below mcptools of the workspace, which is made before the kernel
     * starts */
    bool makes_packages;
    const char *python;
    const char *host_directory;
    IpbRegistry *registry;        /* borrowed; NULL: no packages are known */
    const char *state_dir;        /* of the registry */
    const char *const *keep_out;  /* see installation-paths.h */
    IpbToolChannel *tool_channel; /* borrowed */
    IpbStagedWorkspace *staged;   /* borrowed; NULL: cells write to the workspace itself */
    /* Gets warnings about what cannot be as the policy requires; may be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    /* Code inside was denied something: "operation not permitted: …", with the rule and how to
     * allow it. The text is one printable line. */
    void (*on_violation)(const char *text, void *data);
    void *data;
} IpbSandboxingOptions;

/* Errors: NOT_FOUND (the file), INVALID (its content), SYSTEM. */
IpbSandboxing *ipb_sandboxing_new(IpbLoop *loop, const IpbSandboxingOptions *options,
                                  GError **error);
/* Reports the denials that wait to be reported. */
void ipb_sandboxing_report_denials(IpbSandboxing *sandboxing);
/* Explains a Python error by the sandbox: "operation not permitted: …" with the rule and how to
 * allow it; NULL if the sandbox is not the reason. Caller frees. */
char *ipb_sandboxing_explain_error(const IpbSandboxing *sandboxing, const char *ename,
                                   const char *evalue);
/* The plan for an installation: like that of a kernel, but it can write @directory only, which is
 * created first, and reach @hosts only. @readable: further paths that must be readable,
 * NULL-terminated. REFUSED: a symbolic link leads to the directory. */
IpbSandboxPlan *ipb_sandboxing_make_install_plan(const IpbSandboxing *sandboxing,
                                                 const char *directory, const char *const *readable,
                                                 const char *const *hosts, GError **error);
/* The plan for a program with the rights of a cell, but without the tool channel. Not of a staged
 * session. */
IpbSandboxPlan *ipb_sandboxing_make_command_plan(IpbSandboxing *sandboxing, GError **error);
/* For IpbKernelOptions; valid as long as the object. */
IpbKernelSandboxFuncs ipb_sandboxing_of_kernel(IpbSandboxing *sandboxing);
/* The plan that says what may be committed: that of the last sandbox. Caller unrefs. */
IpbSandboxPlan *ipb_sandboxing_commit_plan(IpbSandboxing *sandboxing, GError **error);
const IpbSandboxPolicy *ipb_sandboxing_policy(const IpbSandboxing *sandboxing);
/* The directory in which cells may write and that contains @path (absolute and canonical): the
 * workspace, else the highest one; the workspace if there is none. The caller frees it. */
char *ipb_sandboxing_find_base(const IpbSandboxing *sandboxing, const char *path);
void ipb_sandboxing_free(IpbSandboxing *sandboxing);
