/* SPDX-License-Identifier: Apache-2.0
 *
 * The mounts that show a sandbox what its plan allows, in the order in which they are made; a later
 * one covers an earlier one. Sources are looked up in the host's tree as it was before the first
 * mount. The first mount is "/" itself, read-only or (allowWrite "/") writable. A target that does
 * not exist is below an IPB_MOUNT_TMPFS, or below an IPB_MOUNT_HIDE_DIR with a size: it has to be
 * created there first, as a directory or a file like its source.
 *
 * Some read-only mounts are pins: a directory is bound on itself before the writable mount of a
 * directory above covers it. A pin is never seen, but the system's kernel refuses to rename or
 * remove a directory that is a mount point. So nothing inside can move `.git` aside and create
 * another one whose hooks are not protected, or move what is hidden to where the next sandbox does
 * not hide it.
 */
#pragma once

#include "sandbox/linux/init/protocol.h"
#include "sandbox/plan.h"

typedef struct {
    IpbMountKind kind;
    char *source; /* on the host; NULL for kinds without one */
    char *target;
    char *content; /* of IPB_MOUNT_FILE */
    /* Of IPB_MOUNT_READ_ONLY: it only denies writing; what could not be read without it stays so */
    bool is_denial;
    uint64_t size_bytes;
    char *reason;
} IpbMount;

/* A list of IpbMount, which the caller unrefs. @judges_names: each call is judged by its name, so
 * what git replaces after a check is not covered: nothing can be renamed onto a mount. LIMIT: too
 * many. */
GPtrArray *ipb_mount_list_new(const IpbSandboxPlan *plan, bool judges_names, GError **error);
