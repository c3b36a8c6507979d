/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of ipybox-sandbox-init share. The program is single-threaded, uses no GLib and no
 * malloc, and never prints. A failure is an IpbStepError, which goes to the core. The program is
 * small because 1,000 sandboxes run 1,000 of it.
 *
 * The order (main.c): outer.c works on the host's side and clones pid 1. Inside, network.c and
 * mounts.c build the sandbox. command.c forks the command, which gives up its rights (lockdown.c,
 * landlock.c) and executes. Then reap.c is pid 1's loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/linux/init/protocol.h"

typedef struct {
    const uint8_t *bytes; /* the blob, mapped read-only */
    const IpbBlobHeader *header;
    int control;                         /* socket to the core */
    int child_ended;                     /* signalfd for SIGCHLD */
    int counters;                        /* /proc/sys/user; -1: not used */
    pid_t adopted[IPB_INIT_MAX_ADOPTED]; /* 0: free */
    int trees[IPB_BLOB_MAX_MOUNTS];      /* detached mounts that the host's root opened; -1: none */
} IpbInit;

/* Fills @error with errno and returns false, so that it can end a function. */
bool ipb_step_fail(IpbStepError *error, IpbStep step, uint32_t index);

/* --- the blob (blob-check.c) --- */

/* Maps @fd and checks everything in it. Afterwards each offset, count and string is valid. */
bool ipb_blob_map(int fd, const uint8_t **ret_bytes, IpbStepError *error);

static inline const char *
ipb_blob_string(const uint8_t *bytes, uint32_t offset)
{
    return offset != 0 ? (const char *) bytes + offset : NULL;
}

static inline const void *
ipb_blob_at(const uint8_t *bytes, IpbBlobTable table)
{
    return bytes + table.offset;
}

/* --- packets (report.c) --- */

/* Sends @fd along unless it is -1. */
bool ipb_report(int control, const IpbPacket *packet, int fd);
void ipb_report_failure(int control, const IpbStepError *error);

/* --- the host's side (outer.c, idmap.c) --- */

/* Opens what only the host's root can open, makes the namespaces and reports to the core. Returns
 * in pid 1 only; the outer process exits. */
bool ipb_outer_enter(IpbInit *init, IpbStepError *error);
/* Fills init->trees with id-mapped mounts. */
bool ipb_idmap_open_trees(IpbInit *init, IpbStepError *error);
/* Writes /proc/<pid>/{uid_map,gid_map}, one id each. */
bool ipb_idmap_write(pid_t pid, uint32_t inner_uid, uint32_t outer_uid, uint32_t inner_gid,
                     uint32_t outer_gid);

/* --- inside --- */

bool ipb_network_set_up(const IpbInit *init, IpbStepError *error);
bool ipb_mounts_build(IpbInit *init, IpbStepError *error);
/* _open needs the host's mounts. _limit then limits what Linux counts for each user: namespaces,
 * too, so it comes after the last one is made, and before rights are given up. */
bool ipb_counters_open(IpbInit *init, IpbStepError *error);
bool ipb_counters_limit(IpbInit *init, IpbStepError *error);
/* Changes to the blob's inner ids. All capabilities of the user namespace remain. */
bool ipb_lockdown_become(const uint8_t *blob, IpbStepError *error);

/* --- rights (lockdown.c and what it calls); also for a kernel that enters --- */

bool ipb_landlock_restrict(const uint8_t *blob, IpbStepError *error);
/* Raises the soft limit of open files as far as this process may. Linux refuses to send
 * descriptors if more of this user are in flight than the sender may open. So a sandbox, which may
 * open fewer, cannot keep this process from sending. */
void ipb_lockdown_allow_many_fds(void);
/* Does all of it, for a process that runs the user's code. Notifications go to @channel. */
bool ipb_lockdown_command(const uint8_t *blob, int channel, IpbStepError *error);
/* For pid 1. */
bool ipb_lockdown_init(const uint8_t *blob, IpbStepError *error);

/* --- the command and its end --- */

/* Forks, and waits until the command is executed. */
bool ipb_command_start(const IpbInit *init, pid_t *ret_pid, IpbStepError *error);
/* Looks @argv[0] up as execvpe() does. Returns on failure only, with errno. */
void ipb_exec_search(char *const *argv, char *const *env);
/* Reaps until the command @pid (0: there is none) has ended or the core is gone. Never returns. */
void ipb_reap_forever(IpbInit *init, pid_t pid) __attribute__((noreturn));
