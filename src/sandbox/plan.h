/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxPlan: a policy applied to this machine. It says what code inside may read, write and
 * reach, which limits hold, and why. `ipybox sandbox --explain` prints it (explain.h), a backend
 * carries it out (sandbox.h).
 *
 * A plan is pure data in terms of paths, names and ports. It does not say how a system enforces it.
 * Paths were looked up when the plan was made; they are absolute and without symbolic links. What
 * is created, moved or replaced later is judged by ipb_sandbox_plan_access().
 *
 * Ownership: reference-counted, from any thread; it does not change once it is made.
 */
#pragma once

#include "sandbox/glob.h"
#include "sandbox/name-rules.h"
#include "sandbox/path-rules.h"
#include "sandbox/policy.h"

#define IPB_PLAN_HTTP_PROXY_PORT 3128
/* Where a sandbox with a network has its HTTP proxy, for programs inside. */
#define IPB_PLAN_HTTP_PROXY_URL "http://localhost:" G_STRINGIFY(IPB_PLAN_HTTP_PROXY_PORT)

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
    /* Lists of host paths, NULL-terminated or NULL. @keep stays readable: the interpreter and our
     * own files. @keep_out is never writable: the policy's file, our state. @hide is never
     * readable: our registry, which has what servers need. */
    const char *const *keep;
    const char *const *keep_out;
    const char *const *hide;
    /* Likewise: places of generated packages, and environments that kernels of ipybox run. Never
     * writable, even if they do not exist yet. */
    const char *const *packages;
    const char *const *environments;
    bool has_tools; /* a listener for the tool channel */
    unsigned tool_port;
    /* Listeners and proxies even if no domain is allowed: some may be allowed later */
    bool is_network_kept;
    /* The workspace is staged: what code inside writes there goes to a layer (layer.h) in this
     * directory, which is hidden. NULL: it is not. */
    const char *layer;
    IpbSandboxLimits limits; /* where the policy says nothing */
} IpbPlanOptions;

/* A glob of the policy. What it matched when the plan was made has rules in the plan's paths. */
typedef struct {
    enum {
        IPB_GLOB_DENY_READ,
        IPB_GLOB_ALLOW_READ,
        IPB_GLOB_DENY_WRITE,
        IPB_GLOB_ALLOW_WRITE, /* has no effect later */
    } kind;
    char *base; /* a real path: where the pattern starts */
    IpbGlob *glob;
    bool hides_all_below; /* it ended in two stars: what is below a match */
    char *name;           /* the key and its text, for people */
} IpbPlanGlob;

typedef struct {
    int references;
    IpbSandboxPolicy *policy;
    char *workspace;
    char *layer;         /* as in the options, or NULL */
    char *home;          /* a real path */
    IpbPathRules *paths; /* what may be read and written */
    IpbNameRules *names; /* what may have which name in writable directories */
    GPtrArray *globs;    /* IpbPlanGlob: for files that are created later */
    /* All files that exist and whose names are protected have rules in @paths. Otherwise the search
     * gave up, and only a backend that judges names protects them all. */
    bool is_search_complete;
    /* Sockets that listen inside, which ipybox serves; empty: no network at all */
    GArray *listeners;       /* IpbPlanListener */
    GPtrArray *unix_sockets; /* char *: host paths whose sockets may be connected to */
    char **environment;      /* "NAME=value" to be set inside: proxies, TMPDIR, … */
    char **unset;            /* names of variables that must not come in: other proxies, sockets */
    GPtrArray *warnings;     /* char *, for people; belongs to @paths */
    IpbSandboxLimits limits;
} IpbSandboxPlan;

/* INVALID (a path that cannot be, too many matches of a glob), LIMIT, SYSTEM. */
IpbSandboxPlan *ipb_sandbox_plan_new(const IpbPlanOptions *options, GError **error);
IpbSandboxPlan *ipb_sandbox_plan_ref(IpbSandboxPlan *plan);
void ipb_sandbox_plan_unref(IpbSandboxPlan *plan);
/* The rule that made what holds at @path (absolute and normal) differ from what holds above it.
 * Never NULL. Borrowed. */
const IpbPathRule *ipb_sandbox_plan_find_rule(const IpbSandboxPlan *plan, const char *path);
/* What holds at a path that may have been created, moved or replaced since the plan was made. */
typedef struct {
    bool is_readable;
    bool is_writable;   /* apart from the rules for names */
    bool is_own;        /* in a place of the sandbox's own: the rules for names do not apply */
    bool is_system;     /* of these, one of the system's kernel: nothing is created or removed */
    size_t root_size;   /* if it is writable and not own: as in IpbNameQuestion */
    const char *reason; /* why it is not readable, or not writable; borrowed; may be NULL */
} IpbPlanAccess;

/* @path: absolute, without symbolic links in its directories. May be called in any thread. */
IpbPlanAccess ipb_sandbox_plan_access(const IpbSandboxPlan *plan, const char *path);
/* Is something below @path denied? Then code inside must not move it. In any thread. */
bool ipb_sandbox_plan_has_denial_below(const IpbSandboxPlan *plan, const char *path);
/* Could something in the directory @from be denied by a glob, and not be denied any more if the
 * directory were renamed to @to? In any thread. */
bool ipb_sandbox_plan_loses_denial(const IpbSandboxPlan *plan, const char *from, const char *to);
/* Does the policy deny reading anywhere that exists or may be created? Then a backend has to judge
 * each open. */
bool ipb_sandbox_plan_denies_reading(const IpbSandboxPlan *plan);
/* Could code inside have created or changed what is at @path? */
bool ipb_sandbox_plan_is_writable_below(const IpbSandboxPlan *plan, const char *path);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandboxPlan, ipb_sandbox_plan_unref)
