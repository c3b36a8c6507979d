/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between the core and ipybox-sandbox-init. The blob is a plan, a command and filters
 * in one flat piece of memory, in a sealed memory file. Packets go over the control socket. Both
 * sides include this file, so it uses no GLib. docs/internals/sandbox.md has an overview.
 *
 * Numbers have the machine's byte order; tables are aligned to 8. A string is given by its offset
 * in the blob; 0 means no string. Both programs come from one build. IPB_BLOB_MAGIC changes with
 * the format, so that a mixed installation is noticed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPB_BLOB_MAGIC UINT32_C(0x36584249)
#define IPB_BLOB_MAX_SIZE (UINT32_C(8) << 20)
#define IPB_BLOB_MAX_MOUNTS 4096u
#define IPB_BLOB_MAX_LISTENERS 16u
#define IPB_BLOB_MAX_LIMITS 16u
#define IPB_BLOB_MAX_COUNTERS 16u
#define IPB_BLOB_MAX_STRINGS 65536u /* of argv, and of env */
#define IPB_BLOB_MAX_FILTER 4096u   /* BPF instructions, the kernel's BPF_MAXINSNS */
/* Branches of kernels that live in one sandbox at the same time. */
#define IPB_INIT_MAX_ADOPTED 1024u

/* The size that a branch of a kernel gives for the attributes of its Landlock ruleset: seccomp
 * knows it by that. The system accepts zeros after what it knows. */
#define IPB_BRANCH_RULESET_SIZE UINT64_C(1016)

/* The fds with which the program starts, besides 0 – 2 of the command. */
#define IPB_INIT_CONTROL_FD 3
#define IPB_INIT_BLOB_FD 4
#define IPB_INIT_CGROUP_FD                                                                         \
    5 /* A process that writes "0" to it enters the sandbox's cgroup. Or /dev/null. */

enum {
    /* The caller is root: ids inside map to outer_uid, and writable directories are mounted with an
     * id map. */
    IPB_BLOB_MAP_ROOT = 1 << 0,
    /* The command stays in the process group and session of the caller: Ctrl-C at the terminal
     * reaches it. */
    IPB_BLOB_KEEP_GROUP = 1 << 1,
    /* Every address is local (a listener is on any address). */
    IPB_BLOB_ANY_ADDRESS = 1 << 2,
    /* Landlock and seccomp only: no namespaces. */
    IPB_BLOB_WEAKER = 1 << 3,
    /* The filters names_filter and connect_filter ask the core. Their listener goes to the control
     * socket, or to the channel of a kernel that entered. */
    IPB_BLOB_CONNECT = 1 << 4, /* about connect() */
    IPB_BLOB_NAMES = 1 << 5,   /* about names; from Linux 5.19 on, else IPB_BLOB_CONNECT only */
};

typedef struct {
    uint32_t offset, count;
} IpbBlobTable;

typedef enum {
    IPB_MOUNT_READ_ONLY = 1,
    IPB_MOUNT_WRITABLE,
    IPB_MOUNT_TMPFS,
    IPB_MOUNT_HIDE_DIR,
    IPB_MOUNT_HIDE_FILE,
    IPB_MOUNT_FILE,
    IPB_MOUNT_PROC,
    IPB_MOUNT_DEV,
    IPB_MOUNT_DEVPTS,
    /* Not mounted itself: the directory with the layer of the row that follows. */
    IPB_MOUNT_LAYER,
    IPB_MOUNT_STAGED, /* an overlay: what is written goes to the layer, not to the source */
    IPB_MOUNT_LAST = IPB_MOUNT_STAGED,
} IpbMountKind;

typedef struct {
    uint32_t kind;
    uint32_t source, target;        /* strings; absolute, without symbolic links */
    uint32_t content, content_size; /* of a file */
    uint32_t is_denial;             /* of a read-only mount: it only denies writing */
    uint64_t size_bytes;            /* of a file system; 0: the kernel's default */
} IpbBlobMount;

typedef struct {
    uint32_t is_udp, is_any_address;
    uint32_t port, reserved;
} IpbBlobListener;

typedef struct {
    uint32_t resource, reserved; /* RLIMIT_… */
    uint64_t soft, hard;
} IpbBlobLimit;

typedef struct {
    uint32_t name; /* string: a file in /proc/sys/user */
    uint32_t value;
} IpbBlobCounter;

typedef struct {
    uint32_t magic, size, flags;
    uint32_t inner_uid, inner_gid, outer_uid, outer_gid;
    int32_t oom_score_adj;
    uint32_t hostname, cwd;
    IpbBlobTable mounts;         /* IpbBlobMount */
    IpbBlobTable listeners;      /* IpbBlobListener */
    IpbBlobTable limits;         /* IpbBlobLimit */
    IpbBlobTable counters;       /* IpbBlobCounter */
    IpbBlobTable argv, env;      /* uint32_t: strings; no argv: the sandbox waits to be entered */
    IpbBlobTable filter;         /* struct sock_filter: for all processes inside */
    IpbBlobTable names_filter;   /* for the command: asks the core about all that the flags say */
    IpbBlobTable connect_filter; /* likewise, without names */
    IpbBlobTable init_filter;    /* for pid 1: allows only what pid 1 does */
} IpbBlobHeader;

/* The step that failed. The core describes it (step-error.c). */
typedef enum {
    IPB_STEP_NONE,
    IPB_STEP_BLOB,
    IPB_STEP_PREPARE,
    IPB_STEP_CGROUP,
    IPB_STEP_ID_MAP_HELPER,
    IPB_STEP_SOURCE,
    IPB_STEP_ID_MAP_MOUNT,
    IPB_STEP_NAMESPACES,
    IPB_STEP_ID_MAPS,
    IPB_STEP_IDS,
    IPB_STEP_HOSTNAME,
    IPB_STEP_COUNTER,
    IPB_STEP_LOOPBACK,
    IPB_STEP_ROUTE,
    IPB_STEP_LISTENER,
    IPB_STEP_DIAG,
    IPB_STEP_PRIVATE,
    IPB_STEP_ROOT,
    IPB_STEP_PIVOT,
    IPB_STEP_TARGET,
    IPB_STEP_MOUNT,
    IPB_STEP_DEVICE,
    IPB_STEP_PROC,
    IPB_STEP_OVERLAY,
    IPB_STEP_DETACH,
    IPB_STEP_FORK,
    IPB_STEP_SESSION,
    IPB_STEP_OOM,
    IPB_STEP_LIMIT,
    IPB_STEP_CWD,
    IPB_STEP_CAPABILITIES,
    IPB_STEP_NO_NEW_PRIVILEGES,
    IPB_STEP_LANDLOCK,
    IPB_STEP_SECCOMP,
    IPB_STEP_LISTEN,
    IPB_STEP_EXEC,
    IPB_STEP_CONTROL,
    IPB_STEP_JOIN,
    IPB_STEP_LAST = IPB_STEP_JOIN,
} IpbStep;

typedef struct {
    uint32_t step;
    int32_t saved_errno;
    uint32_t index; /* of the mount, listener or limit */
} IpbStepError;

typedef enum {
    IPB_PACKET_INIT = 1, /* with a pidfd of pid 1 */
    IPB_PACKET_LISTENER, /* index; with the socket */
    IPB_PACKET_DIAG,     /* with a NETLINK_SOCK_DIAG socket of the sandbox */
    IPB_PACKET_NOTIFY,   /* with the fd of seccomp's notifications; value 1: names are judged */
    IPB_PACKET_UNNAMED,  /* this kernel cannot judge names, and no call is asked about */
    IPB_PACKET_READY,    /* the sandbox is complete, and the command runs */
    IPB_PACKET_EXITED,   /* value: the command's wait status; nothing follows */
    IPB_PACKET_FAILED,   /* error; nothing follows */
    IPB_PACKET_SIGNAL,   /* sent to the init; value: a signal for the command's process group */
    IPB_PACKET_ADOPT,    /* sent to the init; index: the pid of a child of it */
    IPB_PACKET_ADOPTED,  /* index: that pid; with its pidfd; or value: an errno */
    IPB_PACKET_REAPED,   /* index: the pid of an adopted child; value: its wait status */
} IpbPacketType;

typedef struct {
    uint32_t type;
    uint32_t index;
    int32_t value;
    IpbStepError error;
} IpbPacket;
