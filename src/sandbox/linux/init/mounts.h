/* SPDX-License-Identifier: Apache-2.0
 *
 * What mounts.c, targets.c and mount-kinds.c share: the state of building the new root.
 */
#pragma once

#include "sandbox/linux/init/init.h"

/* File systems that were made here: only in them are mount points created, never on the host. */
#define MAX_OWN_DEVICES 256

typedef struct {
    IpbInit *init;
    int old_root; /* the host's tree, in which sources are looked up; until it is detached */
    int store;    /* a file system for files with content and what hides others; -1 until needed */
    uint32_t n_files; /* in the store */
    dev_t own[MAX_OWN_DEVICES];
    size_t n_own;
    int covers[MAX_OWN_DEVICES]; /* those that become read-only at the end */
    size_t n_covers;
} IpbMounts;

/* --- targets.c --- */

/* An O_PATH fd of @path in the new root, created if its surroundings were made here; -1 with errno. */
int ipb_target_open(IpbMounts *mounts, const char *path, bool is_directory);
void ipb_target_add_own(IpbMounts *mounts, int fd);

/* --- mount-kinds.c --- */

/* Each makes mount number @index; false with @error. */
bool ipb_mount_make(IpbMounts *mounts, uint32_t index, IpbStepError *error);
/* A detached tmpfs; -1 with errno. @size_bytes 0: the kernel's default. */
int ipb_mount_make_tmpfs(uint64_t size_bytes, const char *mode);
/* A clone of @path of the host, with what is mounted below; -1 with errno. */
int ipb_mount_open_source(const IpbMounts *mounts, const char *path);
bool ipb_mount_set(int tree, uint64_t attributes);

/* --- dev.c --- */

bool ipb_dev_make(IpbMounts *mounts, uint32_t index, IpbStepError *error);
