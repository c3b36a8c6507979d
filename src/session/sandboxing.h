/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxing: what a sandboxed session has that another has not: the policy, a plan for each kernel that starts, and the ends of what
 * its kernel may reach: tool channel and egress.
 *
 * Ownership: the session's, which outlives its kernel.
 */
#pragma once

#include "kernel/kernel.h"
#include "tools/tool-channel.h"

/* Where the tool channel listens inside: each sandbox has a network of its own, so the original's port is always free. */
#define IPB_SANDBOX_TOOL_PORT 8900

typedef struct IpbSandboxing IpbSandboxing;

typedef struct {
    const char *config; /* path; NULL, or nothing is there: the default, said in the log */
    const char *limits; /* instead of the configuration's: a JSON object as its "limits"; or NULL */
    const char *workspace;
    /* Below mcptools of the workspace, which is made before the kernel is there */
    bool makes_packages;
    const char *python;
    const char *host_directory;
    const char *state_dir;        /* of the registry */
    const char *const *keep_out;  /* see installation-paths.h */
    IpbToolChannel *tool_channel; /* borrowed */
    /* What is not as the policy would have it; may be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    /* Code inside was denied something: "operation not permitted: …", with the rule and how to allow it. One line, printable. */
    void (*on_violation)(const char *text, void *data);
    void *data;
} IpbSandboxingOptions;

/* INVALID: what is in the file; SYSTEM. */
IpbSandboxing *ipb_sandboxing_new(IpbLoop *loop, const IpbSandboxingOptions *options,
                                  GError **error);
/* Moves away what code inside made and must not be there, and tells it; tells denials that wait to be told, too. */
void ipb_sandboxing_sweep(IpbSandboxing *sandboxing);
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
/* For the kernel of this session; valid as long as the object. */
IpbKernelSandboxFuncs ipb_sandboxing_of_kernel(IpbSandboxing *sandboxing);
const IpbSandboxPolicy *ipb_sandboxing_policy(const IpbSandboxing *sandboxing);
void ipb_sandboxing_free(IpbSandboxing *sandboxing);
