/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxPlan: a policy applied to this machine: what is mounted where, which sockets listen, which limits hold, each with its
 * reason. Pure data, computed before anything is entered; `ipybox sandbox --explain` prints it, launch.h carries it out.
 *
 * The order of mounts is the order in which they are made; a later one covers an earlier one. All paths are absolute and
 * without symbolic links, seen from the host; sources are looked up in the host's tree as it was before the first mount. The
 * first mount is "/" itself, read-only or (allowWrite "/") writable. A target that is not there lies below an IPB_MOUNT_TMPFS or
 * below an IPB_MOUNT_HIDE_DIR with a size: it has to be made there first, as a directory or a file like its source.
 *
 * Some read-only mounts are pins: a directory bound on itself before the writable mount of a directory above it covers it. It is
 * never seen, but the kernel refuses to rename or remove a directory that is a mount point, so nobody can move `.git` aside
 * and make another one whose hooks are not protected, or move what is hidden to where the next sandbox does not hide it.
 */
#pragma once

#include "sandbox/policy.h"

#define IPB_PLAN_HTTP_PROXY_PORT 3128
/* Where a sandbox with a network has its HTTP proxy, for what is inside. */
#define IPB_PLAN_HTTP_PROXY_URL "http://localhost:" G_STRINGIFY(IPB_PLAN_HTTP_PROXY_PORT)

typedef enum {
    IPB_MOUNT_READ_ONLY, /* source bound at target, read-only, nosuid, nodev, recursively */
    IPB_MOUNT_WRITABLE,  /* source bound at target, nosuid, nodev, recursively */
    IPB_MOUNT_TMPFS,     /* an empty, writable file system of @size_bytes */
    IPB_MOUNT_HIDE_DIR, /* an empty, read-only directory over the target: denyRead of a directory. With @size_bytes later mounts have
                         * targets below it: a file system of its own, in which they are made, read-only after the last mount */
    IPB_MOUNT_HIDE_FILE, /* an unreadable, empty file over the target: denyRead of a file */
    IPB_MOUNT_FILE,      /* a read-only file with @content, such as /etc/resolv.conf */
    IPB_MOUNT_PROC,
    IPB_MOUNT_DEV, /* a minimal /dev with null, zero, full, random, urandom, tty, fd, stdin, stdout, stderr, shm */
    IPB_MOUNT_DEVPTS, /* with a /dev/ptmx of its own; not with allowPty false */
} IpbMountKind;

typedef struct {
    IpbMountKind kind;
    char *source; /* on the host; NULL for kinds without one */
    char *target;
    char *content;
    /* Of IPB_MOUNT_READ_ONLY: it only keeps from writing; what could not be read without it stays so */
    bool is_denial;
    uint64_t size_bytes;
    char *reason; /* for --explain: the key of the policy, or why it is there anyway */
} IpbPlanMount;

typedef enum {
    IPB_LISTENER_TOOLS,      /* the session's tool channel */
    IPB_LISTENER_HTTP_PROXY, /* HTTP CONNECT and absolute-form requests */
    IPB_LISTENER_SOCKS,      /* SOCKS5 */
    IPB_LISTENER_DNS_UDP,    /* 53, on every address */
    IPB_LISTENER_DNS_TCP,
    IPB_LISTENER_TLS,  /* 443, on every address: transparent */
    IPB_LISTENER_HTTP, /* 80, likewise */
} IpbListenerKind;

typedef struct {
    IpbListenerKind kind;
    unsigned port;
    bool is_any_address; /* else 127.0.0.1 only */
} IpbPlanListener;

typedef struct {
    const IpbSandboxPolicy *policy;
    const char *workspace; /* absolute; relative paths of the policy start here */
    const char *home;      /* for "~" */
    /* Host paths that must stay readable: the interpreter, our own files; NULL-terminated or NULL */
    const char *const *keep;
    const char *const
        *keep_out; /* host paths that are never writable: the policy's file, our state; likewise */
    /* Host paths that are never readable: our registry with what servers need; likewise */
    const char *const *hide;
    bool has_tools; /* a listener for the tool channel */
    unsigned tool_port;
    /* Listeners and proxies even if no domain is allowed: some may be later */
    bool is_network_kept;
    IpbSandboxLimits limits; /* where the policy says nothing */
} IpbPlanOptions;

typedef struct {
    int references;
    IpbSandboxPolicy *policy;
    char *workspace;
    GPtrArray *mounts;  /* IpbPlanMount */
    GArray *listeners;  /* IpbPlanListener; empty: no network at all */
    char **environment; /* "NAME=value" to be set inside: proxies, TMPDIR, …; NULL-terminated */
    /* Names of variables that must not come in from outside: other proxies, sockets; likewise */
    char **unset;
    /* Paths that must not come into being: denied for writing, but not there now (quarantined at the end) */
    GPtrArray *absent;
    GPtrArray *
        links; /* char *: symbolic links to something that is denied for writing: what they lead to is protected, they themselves
                       * can be replaced (to be compared at the end) */
    GPtrArray *unix_sockets; /* char *: host paths whose sockets may be connected to */
    GPtrArray
        *warnings; /* char *, for people: a path that is not there, a glob without a match, … */
    IpbSandboxLimits limits;
} IpbSandboxPlan;

/* INVALID (a path that cannot be, too many matches of a glob), SYSTEM. */
IpbSandboxPlan *ipb_sandbox_plan_new(const IpbPlanOptions *options, GError **error);
IpbSandboxPlan *ipb_sandbox_plan_ref(IpbSandboxPlan *plan);
void ipb_sandbox_plan_unref(IpbSandboxPlan *plan);
/* The mount that decides what is at @path, absolute and normal; NULL never: "/" is the first. Borrowed. */
const IpbPlanMount *ipb_sandbox_plan_find_mount(const IpbSandboxPlan *plan, const char *path);
/* The effective plan as aligned text for people, or as JSON. */
char *ipb_sandbox_plan_explain(const IpbSandboxPlan *plan, bool as_json);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandboxPlan, ipb_sandbox_plan_unref)
