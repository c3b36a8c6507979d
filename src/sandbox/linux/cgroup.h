/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCgroup: the cgroup (version 2) of one sandbox. It limits memory and processes of the whole
 * sandbox together. It needs a group that was delegated to us: we may write its files, and it
 * contains no processes of others. Our own processes move to "ipybox.core" below it, since the
 * kernel allows processes in leaves only. Each sandbox gets a leaf beside that.
 *
 * Ownership: the owner frees it when everything inside has ended. Otherwise the group remains until
 * the delegated one is removed.
 */
#pragma once

#include "sandbox/limits.h"

#include <sys/types.h>

#include <glib.h>

typedef struct IpbCgroup IpbCgroup;

/* Returns the directory of the group that was delegated to us, or NULL. Changes nothing. Caller
 * frees. */
char *ipb_cgroup_find_delegated(void);
/* Returns NULL if no group was delegated, or the group cannot do what is needed. The limits of each
 * process (rlimits) apply in any case. */
IpbCgroup *ipb_cgroup_new(const IpbSandboxLimits *limits);
/* A process enters the group by writing "0" to this fd. Borrowed. */
int ipb_cgroup_join_fd(const IpbCgroup *cgroup);
/* Succeeds if the process has ended already. */
bool ipb_cgroup_add(const IpbCgroup *cgroup, pid_t pid, GError **error);
/* Was a process in it killed because the memory was used up? */
bool ipb_cgroup_has_run_out(const IpbCgroup *cgroup);
void ipb_cgroup_free(IpbCgroup *cgroup);

/* --- for tests: as if cgroups were mounted at @mount, and /proc/self/cgroup said @membership -- */

char *ipb_cgroup_find_delegated_at(const char *mount, const char *membership);
IpbCgroup *ipb_cgroup_new_at(const char *delegated, const IpbSandboxLimits *limits);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbCgroup, ipb_cgroup_free)
