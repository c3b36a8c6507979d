/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls that C libraries before glibc 2.36 do not wrap, by their own names. <sys/mount.h> is
 * not included together with <linux/mount.h>, because the two conflict in some versions.
 */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif

static inline int
sys_open_tree(int dirfd, const char *path, unsigned flags)
{
    return (int) syscall(SYS_open_tree, dirfd, path, flags);
}

static inline int
sys_move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
    return (int) syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int
sys_mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *attr)
{
    return (int) syscall(SYS_mount_setattr, dirfd, path, flags, attr, sizeof *attr);
}

static inline int
sys_fsopen(const char *type)
{
    return (int) syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
}

static inline int
sys_fsconfig(int fd, unsigned command, const char *key, const char *value)
{
    return (int) syscall(SYS_fsconfig, fd, command, key, value, 0);
}

static inline int
sys_fsmount(int fd, unsigned attr)
{
    return (int) syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC, attr);
}

static inline int
sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int) syscall(SYS_pivot_root, new_root, put_old);
}

static inline int
sys_umount2(const char *path, int flags)
{
    return (int) syscall(SYS_umount2, path, flags);
}

static inline int
sys_mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data)
{
    return (int) syscall(SYS_mount, source, target, type, flags, data);
}

static inline int
sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = flags, .resolve = resolve};
    return (int) syscall(SYS_openat2, dirfd, path, &how, sizeof how);
}

static inline pid_t
sys_clone3(struct clone_args *args)
{
    return (pid_t) syscall(SYS_clone3, args, sizeof *args);
}

static inline int
sys_close_range(unsigned first, unsigned last)
{
    return (int) syscall(SYS_close_range, first, last, 0);
}

static inline int
sys_landlock_create_ruleset(const void *attr, size_t size, uint32_t flags)
{
    return (int) syscall(SYS_landlock_create_ruleset, attr, size, flags);
}

static inline int
sys_landlock_add_path(int ruleset, const struct landlock_path_beneath_attr *attr)
{
    return (int) syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, attr, 0);
}

static inline int
sys_landlock_restrict_self(int ruleset)
{
    return (int) syscall(SYS_landlock_restrict_self, ruleset, 0);
}
