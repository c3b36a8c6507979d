/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxedCommand: a command in a sandbox, with its way out. `ipybox sandbox`, sandboxed MCP
 * servers and sandboxed installations run one. It joins IpbSandbox (the sandbox itself) and
 * IpbEgress (the network), and reports what both deny.
 *
 * Ownership: the owner frees it, which kills everything inside. Callbacks come from the loop.
 * on_ready and on_end may free it; on_violation and on_warning may not.
 */
#pragma once

#include "egress/egress.h"
#include "sandbox/plan.h"

typedef struct IpbSandboxedCommand IpbSandboxedCommand;

typedef struct {
    const IpbSandboxPlan *plan;
    const char *const *argv; /* its first word is looked up in PATH of @env */
    /* The whole environment; what the plan sets and unsets is applied to it */
    const char *const *env;
    const char *cwd;
    int stdin_fd, stdout_fd, stderr_fd; /* borrowed; -1: /dev/null */
    bool is_group_kept;                 /* as in sandbox/sandbox.h */
    bool is_weaker_allowed;
    const IpbUpstream *upstream; /* as in egress.h; borrowed, lives longer */
    /* The command runs. May be NULL. */
    void (*on_ready)(IpbSandboxedCommand *command, void *data);
    /* Called once, when the command and everything inside are gone. @error: it could not be run. If
     * NULL, @wait_status says how it ended, as of waitpid. All denials were reported before. */
    void (*on_end)(IpbSandboxedCommand *command, int wait_status, const GError *error, void *data);
    /* Denials that the policy's ignoreViolations lists are not reported. May be NULL. */
    void (*on_violation)(const IpbViolation *violation, void *data);
    /* What this sandbox cannot protect on this machine. Called before on_ready. May be NULL. */
    void (*on_warning)(const char *text, void *data);
    void *data;
} IpbSandboxedCommandOptions;

/* Errors that are found at once; others come by on_end. */
IpbSandboxedCommand *
ipb_sandboxed_command_new(IpbLoop *loop, const IpbSandboxedCommandOptions *options, GError **error);
/* To the command's process group. Does nothing before on_ready and after the end. */
void ipb_sandboxed_command_signal(IpbSandboxedCommand *command, int signal_number);
/* Stops the command in steps: waits @grace_ms for it to end by itself, sends SIGTERM, waits
 * @grace_ms again, and kills everything inside. on_end reports the end; in the last case as an end
 * by SIGKILL. A second call does nothing. */
void ipb_sandboxed_command_stop(IpbSandboxedCommand *command, unsigned grace_ms);
/* Uses other network lists from now on. UNAVAILABLE: it runs without a network, since no domain was
 * allowed when it started. */
bool ipb_sandboxed_command_set_policy(IpbSandboxedCommand *command, IpbSandboxPolicy *policy,
                                      GError **error);
/* Is it in the weaker sandbox (sandbox/sandbox.h)? Known from on_ready on. */
bool ipb_sandboxed_command_is_weaker(const IpbSandboxedCommand *command);
/* As ipb_sandbox_describe_limit. */
char *ipb_sandboxed_command_describe_limit(const IpbSandboxedCommand *command, int wait_status);
void ipb_sandboxed_command_free(IpbSandboxedCommand *command);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandboxedCommand, ipb_sandboxed_command_free)
