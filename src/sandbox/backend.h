/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxBackend: how one operating system makes sandboxes.
 *
 * Everything in src/sandbox is portable and says what a sandbox allows. Each operating system has a
 * folder below with its backend; src/sandbox/linux is the only one so far. The build includes the
 * folder of the system for which it builds.
 *
 * To add a backend for another system:
 *
 * 1. Create src/sandbox/<system>, and in it define `const IpbSandboxBackend IPB_SANDBOX_BACKEND`.
 * 2. Carry out the plan (plan.h): which paths are shown and which can be written, its listeners,
 *    its Unix sockets, its environment, its limits. If the system cannot do something, prepare()
 *    fails with UNAVAILABLE. Nothing of the plan is left out silently.
 * 3. Add the folder to src/sandbox/meson.build, for that system. Only files in the folder include
 *    its headers; scripts/check-layers checks that.
 *
 * Rules about names (which files may be created or changed under which name) belong into the plan,
 * as data. A backend enforces them where it mediates system calls. On Linux that is
 * linux/supervisor.c.
 */
#pragma once

#include "sandbox/sandbox.h"

/* How a plan is carried out at one path. */
typedef struct {
    const char *kind; /* "read-only", "hidden", … */
    const char *path; /* these belong to the plan or to @owner */
    const char *content;
    const char *reason;
    bool has_size;
    uint64_t size_bytes;
} IpbSandboxPathDetail;

/* What only a backend knows about how it carries out a plan; for explain.h. */
typedef struct {
    GArray *paths; /* IpbSandboxPathDetail, in order: a later one covers an earlier one */
    /* The group of processes for which memory and processes are limited together; NULL: each
     * process has the limits for itself */
    char *limit_group;
    GPtrArray *owner;
} IpbSandboxDetails;

typedef struct {
    /* What this machine offers. Fills all members of @probe. */
    void (*probe)(IpbSandboxProbe *probe);
    /* Sets up all that can be set up without starting a process. The options live until start()
     * returns. UNAVAILABLE, INVALID, LIMIT, SYSTEM. */
    IpbSandbox *(*prepare)(IpbLoop *loop, const IpbSandboxOptions *options, GError **error);
    /* Starts what was prepared. */
    bool (*start)(IpbSandbox *sandbox, GError **error);
    /* Kills everything inside, and frees the sandbox, in whatever state it is. */
    void (*stop)(IpbSandbox *sandbox);
    /* LIMIT. */
    bool (*explain)(const IpbSandboxPlan *plan, IpbSandboxDetails *ret_details, GError **error);

    /* As the functions of sandbox.h. */
    bool (*is_weaker)(const IpbSandbox *sandbox);
    bool (*kill)(IpbSandbox *sandbox);
    void (*signal)(IpbSandbox *sandbox, int signal_number);
    const GError *(*failure)(const IpbSandbox *sandbox);
    char *(*describe_limit)(const IpbSandbox *sandbox, int wait_status);
    char *(*find_entry_library)(GError **error);
    IpbSandboxEntry (*entry)(const IpbSandbox *sandbox);
    bool (*add_process)(const IpbSandbox *sandbox, pid_t pid, GError **error);
    bool (*adopt)(IpbSandbox *sandbox, pid_t pid_inside, GError **error);
    int (*open_workspace)(const IpbSandbox *sandbox, IpbLayerUser *ret_user, GError **error);
    void (*report_denials)(IpbSandbox *sandbox);
    const char *const *weaker_gaps;
} IpbSandboxBackend;

/* The one of this system. */
extern const IpbSandboxBackend IPB_SANDBOX_BACKEND;
