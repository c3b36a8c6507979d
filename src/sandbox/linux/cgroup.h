/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCgroup: the cgroup (version 2) of one sandbox, in which memory and processes are limited for all that is inside together. There is one
 * only where a group was delegated to us: its files are ours to write, and no processes of others are in it. Then our own processes
 * move to "ipybox.core" below it, since the system's kernel wants processes in leaves only, and each sandbox gets a leaf beside that.
 *
 * Ownership: the owner frees it when what was inside has ended, or the group stays behind (and is swept away with the delegated one).
 */
#pragma once

#include "sandbox/limits.h"

#include <sys/types.h>

#include <glib.h>

typedef struct IpbCgroup IpbCgroup;

/* The directory of the group that was delegated to us, NULL if none was. Changes nothing. Caller frees. */
char *ipb_cgroup_find_delegated(void);
/* NULL: none was delegated, or what it cannot do is needed. The limits of processes (rlimits) hold then, and with a group, too. */
IpbCgroup *ipb_cgroup_new(const IpbSandboxLimits *limits);
/* Where "0" is written by a process that wants to be in it; borrowed. */
int ipb_cgroup_join_fd(const IpbCgroup *cgroup);
/* One that has ended already is no error. */
bool ipb_cgroup_add(const IpbCgroup *cgroup, pid_t pid, GError **error);
/* Was something in it killed because its memory was used up? */
bool ipb_cgroup_has_run_out(const IpbCgroup *cgroup);
void ipb_cgroup_free(IpbCgroup *cgroup);

/* --- for tests: as if cgroups were mounted at @mount, and /proc/self/cgroup said @membership --- */

char *ipb_cgroup_find_delegated_at(const char *mount, const char *membership);
IpbCgroup *ipb_cgroup_new_at(const char *delegated, const IpbSandboxLimits *limits);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbCgroup, ipb_cgroup_free)
