/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandbox: the namespaces of one sandbox and the small init (pid 1) that holds them. Made from a plan by the program
 * ipybox-sandbox-init (src/sandbox/init: static, no GLib), which builds everything, opens the listeners inside and passes
 * them out, then either runs a command or waits for a kernel to enter. When the IpbSandbox is freed, or this process dies, the
 * init ends and the kernel of the system kills everything inside.
 *
 * Ownership: the owner frees it. Callbacks come from the loop and may free it.
 */
#pragma once

#include <sys/types.h>

#include "base/loop.h"
#include "sandbox/plan.h"

typedef struct IpbSandbox IpbSandbox;

typedef struct {
    const IpbSandboxPlan *plan;
    const char *const
        *argv; /* the command; NULL: none, the sandbox waits for ipb_sandbox_pidfd to be entered */
    const char *const
        *env; /* the command's whole environment (plan->environment is added by this) */
    const char *cwd;
    int stdin_fd, stdout_fd, stderr_fd; /* of the command, borrowed; -1: /dev/null */
    bool
        is_group_kept; /* the command stays in our session and process group: Ctrl-C at our terminal reaches it, and
                         * _signal the command alone; else it leads its own */
    /* Landlock and seccomp only, where namespaces are forbidden (weaker.h) */
    bool is_weaker_allowed;
    /* The sandbox stands (and the command runs). @listeners: fds in the order of plan->listeners, the receiver's. */
    void (*on_ready)(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data);
    /* Once: it is gone. @error: it could not be made (UNAVAILABLE says what this machine forbids and how to allow it), or NULL: the
     * command ended with @wait_status (as of waitpid). */
    void (*on_end)(IpbSandbox *sandbox, int wait_status, const GError *error, void *data);
    /* A connect() to a socket of the host was denied; @path as it was written. May be NULL. */
    void (*on_denied_socket)(IpbSandbox *sandbox, const char *path, void *data);
    void *data;
} IpbSandboxOptions;

IpbSandbox *ipb_sandbox_new(IpbLoop *loop, const IpbSandboxOptions *options, GError **error);
/* Is it the weaker one? Known from on_ready on. */
bool ipb_sandbox_is_weaker(const IpbSandbox *sandbox);
/* To the command's process group; nothing before on_ready. */
void ipb_sandbox_signal(IpbSandbox *sandbox, int signal_number);
/* What a kernel needs that enters (without a command): pid 1, whose namespaces setns() joins; the plan in its sealed memory file, for
 * what each process locks down itself (ids, capabilities, limits, Landlock, seccomp); a socket over which it sends us the listener of its
 * seccomp notifications. The forkserver passes them to ipb_enter_fork() of the library ipybox-enter.so (src/sandbox/init/enter.c), which
 * is made of the same files as the init. Borrowed, -1 before on_ready. */
int ipb_sandbox_pidfd(const IpbSandbox *sandbox);
int ipb_sandbox_plan_fd(const IpbSandbox *sandbox);
int ipb_sandbox_channel_fd(const IpbSandbox *sandbox);
/* Why it is ending; NULL: it is not, or as it should. Borrowed. */
const GError *ipb_sandbox_failure(const IpbSandbox *sandbox);
/* A kernel that entered belongs to the sandbox's limits of memory and processes, too. Before it runs anything. */
bool ipb_sandbox_add_process(const IpbSandbox *sandbox, pid_t pid, GError **error);
/* Which limit was the reason for an end with this status (as of waitpid): words that name its key; NULL: none that is known. Caller
 * frees. */
char *ipb_sandbox_describe_limit(const IpbSandbox *sandbox, int wait_status);
/* The path of that library. NOT_FOUND: the installation is not whole. */
char *ipb_sandbox_find_entrance(GError **error);
/* SIGKILL to everything inside. */
void ipb_sandbox_free(IpbSandbox *sandbox);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandbox, ipb_sandbox_free)
