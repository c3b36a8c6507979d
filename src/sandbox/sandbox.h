/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandbox: one sandbox that runs. It is made from a plan, and either runs a command or waits for
 * a process that enters it. When the IpbSandbox is freed, or this process dies, everything inside
 * is killed.
 *
 * How a sandbox is made on this system is the backend's work (backend.h).
 *
 * Ownership: the owner frees it. Callbacks come from the loop and may free it.
 */
#pragma once

#include <sys/types.h>

#include "base/loop.h"
#include "sandbox/layer.h"
#include "sandbox/plan.h"

typedef struct IpbSandbox IpbSandbox;

/* A call that the sandbox refused. All texts are hostile, and valid during the callback only. */
typedef struct {
    enum {
        IPB_DENIED_SOCKET, /* a connect() to the socket @path of the host */
        IPB_DENIED_NAME,   /* @action on @path */
    } kind;
    const char *path; /* of a socket: as it was given. It may be cut. */
    IpbNameAction action;
    const IpbNameRule *rule; /* NULL: the plan's paths decided; @reason says why */
    char reason[128];        /* more than the rule says; or "" */
    int pid;                 /* of the process, as it is known inside; 0: unknown */
    char process[16];        /* its name */
} IpbSandboxDenial;

typedef struct {
    const IpbSandboxPlan *plan;
    const char *const *argv; /* the command; NULL: none, the sandbox waits to be entered */
    /* The command's environment; what the plan sets and unsets is applied to it */
    const char *const *env;
    const char *cwd;
    int stdin_fd, stdout_fd, stderr_fd; /* of the command, borrowed; -1: /dev/null */
    /* The command stays in our session and process group: Ctrl-C at our terminal reaches it, and
     * ipb_sandbox_signal() reaches the command alone. Otherwise it leads its own group. */
    bool is_group_kept;
    /* If this machine forbids a full sandbox to this user, make a weaker one. */
    bool is_weaker_allowed;
    /* The sandbox is complete, and the command runs. @listeners: fds in the order of
     * plan->listeners; the receiver owns them. */
    void (*on_ready)(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data);
    /* Called once, when nothing is left inside. @error: the sandbox could not be made (UNAVAILABLE
     * says what this machine forbids and how to allow it). If NULL, the command ended with
     * @wait_status (as of waitpid). */
    void (*on_end)(IpbSandbox *sandbox, int wait_status, const GError *error, void *data);
    /* A call was refused that code inside had a reason to make. If there are very many, some are
     * not reported. Must not free the sandbox. May be NULL. */
    void (*on_denied)(IpbSandbox *sandbox, const IpbSandboxDenial *denial, void *data);
    /* This system cannot judge names: only files that existed at the start are protected. @why: for
     * people. Called before on_ready, or when a kernel enters. May be NULL. */
    void (*on_unnamed)(IpbSandbox *sandbox, const char *why, void *data);
    /* The end of ipb_sandbox_adopt(): the process has the number @pid here, and the receiver owns
     * @pidfd. Or there is an @error, and @pidfd is -1. May free the sandbox. May be NULL. */
    void (*on_adopted)(IpbSandbox *sandbox, pid_t pid_inside, pid_t pid, int pidfd,
                       const GError *error, void *data);
    /* A process that was adopted has ended with @wait_status (as of waitpid). May free the
     * sandbox. May be NULL. */
    void (*on_reaped)(IpbSandbox *sandbox, pid_t pid_inside, int wait_status, void *data);
    void *data;
} IpbSandboxOptions;

/* Errors that are found at once; others come by on_end. */
IpbSandbox *ipb_sandbox_new(IpbLoop *loop, const IpbSandboxOptions *options, GError **error);
/* Kills everything inside, and does not wait until it is gone: the loop's main context reaps it. */
void ipb_sandbox_free(IpbSandbox *sandbox);
/* Kills everything inside; on_end follows. Returns false before on_ready and after on_end: then it
 * can only be freed. */
bool ipb_sandbox_kill(IpbSandbox *sandbox);
/* Is it the weaker one? Known from on_ready on. */
bool ipb_sandbox_is_weaker(const IpbSandbox *sandbox);
/* To the command's process group. Does nothing before on_ready. */
void ipb_sandbox_signal(IpbSandbox *sandbox, int signal_number);
/* Calls on_denied, which must not free the sandbox, for all calls that were refused until now. It
 * is also done before on_end. */
void ipb_sandbox_report_denials(IpbSandbox *sandbox);
/* Why it is ending. NULL: it is not, or it ends as it should. Borrowed. */
const GError *ipb_sandbox_failure(const IpbSandbox *sandbox);
/* If a limit of the plan is a known reason for an end with this status (as of waitpid): a phrase
 * that names its key. Otherwise NULL. Caller frees. */
char *ipb_sandbox_describe_limit(const IpbSandbox *sandbox, int wait_status);

/* --- entering --- */

#define IPB_SANDBOX_N_ENTRY_FDS 3

/* What a process passes to the entry library to enter a sandbox without a command. Borrowed fds; -1
 * before on_ready. */
typedef struct {
    int fds[IPB_SANDBOX_N_ENTRY_FDS];
} IpbSandboxEntry;

/* The path of the entry library. NOT_FOUND: the installation is incomplete. */
char *ipb_sandbox_find_entry_library(GError **error);
IpbSandboxEntry ipb_sandbox_entry(const IpbSandbox *sandbox);
/* Puts a process that entered under the sandbox's limits of memory and processes. Call it before
 * the process runs anything. */
bool ipb_sandbox_add_process(const IpbSandbox *sandbox, pid_t pid, GError **error);

/* Asks pid 1 for a process that a process inside has forked, and that pid 1 has become the parent
 * of. @pid_inside: its number inside, which may be wrong: then on_adopted gets NOT_FOUND. */
bool ipb_sandbox_adopt(IpbSandbox *sandbox, pid_t pid_inside, GError **error);

/* The workspace as code inside sees it: a directory (O_PATH) that the caller owns, and whose rights
 * its files need. -1 with @error. */
int ipb_sandbox_open_workspace(const IpbSandbox *sandbox, IpbLayerUser *ret_user, GError **error);

/* --- what this machine offers --- */

typedef struct {
    const char *name; /* a constant */
    bool is_available;
    char *text;       /* what was found */
    const char *hint; /* how to get it; a constant; NULL if it is available */
} IpbSandboxFeature;

typedef struct {
    char *full;          /* what a full sandbox is made of here: "namespaces, seccomp, Landlock" */
    const char *weaker;  /* likewise */
    GPtrArray *features; /* IpbSandboxFeature */
} IpbSandboxProbe;

/* Asks the system; changes nothing. Whether a sandbox can really be made is only known by making
 * one. */
IpbSandboxProbe *ipb_sandbox_probe_new(void);
void ipb_sandbox_probe_free(IpbSandboxProbe *probe);
/* What the weaker sandbox does not do, one sentence each; NULL-terminated. */
const char *const *ipb_sandbox_weaker_gaps(void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandbox, ipb_sandbox_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandboxProbe, ipb_sandbox_probe_free)
