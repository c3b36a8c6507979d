/* SPDX-License-Identifier: Apache-2.0
 *
 * EPERM means that the call is not allowed. After ENOSYS, programs try another call, as on a kernel
 * that does not have this one.
 */
#include "sandbox/linux/seccomp-table.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <linux/fs.h>
#include <linux/sched.h>

#define ALL_32 UINT64_C(0xffffffff)
#define N_ELEMENTS(array) (sizeof(array) / sizeof *(array))

const IpbDeniedCall IPB_DENIED_CALLS[] = {
    /* other processes' memory and descriptors */
    {"ptrace", 0, EPERM, "reads and writes other processes; large surface"},
    {"process_vm_readv", 0, EPERM, "reads other processes"},
    {"process_vm_writev", 0, EPERM, "writes other processes"},
    {"pidfd_getfd", 438, EPERM, "takes descriptors out of other processes"},
    {"kcmp", 0, EPERM, "compares kernel pointers of other processes"},
    /* ways to run code in the kernel, or to watch it */
    {"bpf", 0, EPERM, "loads programs into the kernel"},
    {"perf_event_open", 0, EPERM, "large surface, side channels"},
    {"userfaultfd", 0, EPERM, "stops the kernel in the middle of a copy: a tool of exploits"},
    {"io_uring_setup", 425, ENOSYS, "system calls that no filter sees; large surface"},
    {"io_uring_enter", 426, ENOSYS, "as io_uring_setup"},
    {"io_uring_register", 427, ENOSYS, "as io_uring_setup"},
    /* Linux has one number of requests for the whole machine (fs.aio-max-nr). */
    {"io_setup", 0, ENOSYS, "could use up the machine's AIO; databases then use threads"},
    {"io_submit", 0, ENOSYS, "as io_setup"},
    {"io_getevents", 0, ENOSYS, "as io_setup"},
    {"io_pgetevents", 0, ENOSYS, "as io_setup"},
    {"io_cancel", 0, ENOSYS, "as io_setup"},
    {"io_destroy", 0, ENOSYS, "as io_setup"},
    {"init_module", 0, EPERM, "kernel modules"},
    {"finit_module", 0, EPERM, "kernel modules"},
    {"delete_module", 0, EPERM, "kernel modules"},
    {"create_module", 0, EPERM, "kernel modules"},
    {"kexec_load", 0, EPERM, "another kernel"},
    {"kexec_file_load", 0, EPERM, "another kernel"},
    {"modify_ldt", 0, EPERM, "16-bit segments: old surface, no use"},
    {"vm86", 0, EPERM, "as modify_ldt"},
    {"vm86old", 0, EPERM, "as modify_ldt"},
    {"iopl", 0, EPERM, "hardware ports"},
    {"ioperm", 0, EPERM, "hardware ports"},
    /* keys: not all namespaces separate them */
    {"keyctl", 0, EPERM, "the kernel's keys"},
    {"add_key", 0, EPERM, "the kernel's keys"},
    {"request_key", 0, EPERM, "the kernel's keys; runs a helper on the host"},
    /* mounts and roots */
    {"mount", 0, EPERM, "the first wall is made of mounts"},
    {"umount", 0, EPERM, "as mount"},
    {"umount2", 0, EPERM, "as mount"},
    {"pivot_root", 0, EPERM, "as mount"},
    {"chroot", 0, EPERM, "as mount"},
    {"open_tree", 428, EPERM, "as mount"},
    {"move_mount", 429, EPERM, "as mount"},
    {"fsopen", 430, EPERM, "as mount; parsers of file systems"},
    {"fsconfig", 431, EPERM, "as fsopen"},
    {"fsmount", 432, EPERM, "as fsopen"},
    {"fspick", 433, EPERM, "as fsopen"},
    {"mount_setattr", 442, EPERM, "as mount"},
    {"open_tree_attr", 467, EPERM, "as mount"},
    {"open_by_handle_at", 0, EPERM, "opens files without a path, past the rules for paths"},
    {"quotactl", 0, EPERM, "for administrators"},
    {"quotactl_fd", 443, EPERM, "for administrators"},
    {"swapon", 0, EPERM, "for administrators"},
    {"swapoff", 0, EPERM, "for administrators"},
    {"nfsservctl", 0, ENOSYS, "obsolete"},
    {"uselib", 0, ENOSYS, "obsolete"},
    {"ustat", 0, ENOSYS, "obsolete"},
    {"sysfs", 0, ENOSYS, "obsolete"},
    {"_sysctl", 0, ENOSYS, "obsolete"},
    {"lookup_dcookie", 0, ENOSYS, "obsolete"},
    /* namespaces */
    {"setns", 0, EPERM, "other namespaces"},
    {"clone3", 435, ENOSYS,
     "its flags are in memory, which filters cannot read; C libraries then use clone"},
    /* the machine */
    {"acct", 0, EPERM, "for administrators"},
    {"syslog", 0, EPERM, "the kernel's log"},
    {"reboot", 0, EPERM, "for administrators"},
    {"sethostname", 0, EPERM, "for administrators"},
    {"setdomainname", 0, EPERM, "for administrators"},
    {"settimeofday", 0, EPERM, "for administrators"},
    {"clock_settime", 0, EPERM, "for administrators"},
    {"clock_settime64", 0, EPERM, "for administrators"},
    {"stime", 0, EPERM, "for administrators"},
    {"vhangup", 0, EPERM, "hangs up the user's terminal"},
    {"fanotify_init", 0, EPERM, "watches whole file systems"},
    /* Its mode is in memory, where no filter can check the setuid bit. */
    {"openat2", 437, ENOSYS, "could make setuid files; programs fall back to openat"},
};
const size_t IPB_N_DENIED_CALLS = N_ELEMENTS(IPB_DENIED_CALLS);

#define NAMESPACE_FLAG(call, flag, reason)                                                         \
    {                                                                                              \
        call, 0, 0, flag, flag, EPERM, reason                                                      \
    }
#define NAMESPACE_FLAGS(flag, reason)                                                              \
    NAMESPACE_FLAG("clone", flag, reason), NAMESPACE_FLAG("unshare", flag, reason)
/* A setuid file that is created inside belongs to the user outside, or to root if root's files are
 * mapped. A user who runs it there gets those rights. */
#define MODE_BITS(call, number, argument, reason)                                                  \
    {call, number, argument, S_ISUID, S_ISUID, EPERM, reason},                                     \
    {                                                                                              \
        call, number, argument, S_ISGID, S_ISGID, EPERM, reason                                    \
    }

/* The mode counts only when a file is created; otherwise the argument may have any value. */
#define OPEN_MODE_BIT(call, flags, mode, flag, bit)                                                \
    {                                                                                              \
        call, 0, mode, bit, bit, EPERM, "setuid and setgid files", flags, flag, flag               \
    }
#define OPEN_MODE_BITS(call, flags, mode)                                                          \
    OPEN_MODE_BIT(call, flags, mode, O_CREAT, S_ISUID),                                            \
        OPEN_MODE_BIT(call, flags, mode, O_CREAT, S_ISGID),                                        \
        OPEN_MODE_BIT(call, flags, mode, O_TMPFILE, S_ISUID),                                      \
        OPEN_MODE_BIT(call, flags, mode, O_TMPFILE, S_ISGID)

const IpbDeniedArgument IPB_DENIED_ARGUMENTS[] = {
    NAMESPACE_FLAGS(CLONE_NEWUSER, "gives all capabilities over new namespaces: kernel surface"),
    NAMESPACE_FLAGS(CLONE_NEWNS, "namespaces"),
    NAMESPACE_FLAGS(CLONE_NEWPID, "namespaces"),
    NAMESPACE_FLAGS(CLONE_NEWNET, "namespaces"),
    NAMESPACE_FLAGS(CLONE_NEWIPC, "namespaces"),
    NAMESPACE_FLAGS(CLONE_NEWUTS, "namespaces"),
    NAMESPACE_FLAGS(CLONE_NEWCGROUP, "namespaces"),
    NAMESPACE_FLAG("unshare", CLONE_NEWTIME, "namespaces; in clone this bit is part of the signal"),
    {"ioctl", 0, 1, ALL_32, TIOCSTI, EPERM, "types into the user's terminal"},
    {"ioctl", 0, 1, ALL_32, TIOCLINUX, EPERM, "pastes into the user's console"},
    {"ioctl", 0, 1, ALL_32, TIOCSETD, EPERM, "line disciplines: loads modules, old surface"},
    MODE_BITS("chmod", 0, 1, "setuid and setgid files"),
    MODE_BITS("fchmod", 0, 1, "setuid and setgid files"),
    MODE_BITS("fchmodat", 0, 2, "setuid and setgid files"),
    MODE_BITS("fchmodat2", 452, 2, "setuid and setgid files"),
    MODE_BITS("creat", 0, 1, "setuid and setgid files"),
    MODE_BITS("mknod", 0, 1, "setuid and setgid files"),
    MODE_BITS("mknodat", 0, 2, "setuid and setgid files"),
    OPEN_MODE_BITS("open", 1, 2),
    OPEN_MODE_BITS("openat", 2, 3),
};
const size_t IPB_N_DENIED_ARGUMENTS = N_ELEMENTS(IPB_DENIED_ARGUMENTS);

const IpbAllowedFamily IPB_ALLOWED_FAMILIES[] = {
    {AF_UNIX, "within the sandbox; connect() is asked about"},
    {AF_INET, "its network namespace has a loopback device only"},
    {AF_INET6, "as AF_INET"},
    {AF_NETLINK, "C libraries list interfaces with it; NETLINK_ROUTE only"},
};
const size_t IPB_N_ALLOWED_FAMILIES = N_ELEMENTS(IPB_ALLOWED_FAMILIES);

const IpbJudgedCall IPB_JUDGED_CALLS[] = {
    {"creat", 0},        {"mkdir", 0},        {"mkdirat", 0},   {"mknod", 0},
    {"mknodat", 0},      {"rename", 0},       {"renameat", 0},  {"renameat2", 0},
    {"link", 0},         {"linkat", 0},       {"symlink", 0},   {"symlinkat", 0},
    {"unlink", 0},       {"unlinkat", 0},     {"rmdir", 0},     {"truncate", 0},
    {"chmod", 0},        {"fchmod", 0},       {"fchmodat", 0},  {"fchmodat2", 452},
    {"chown", 0},        {"lchown", 0},       {"fchown", 0},    {"fchownat", 0},
    {"setxattr", 0},     {"lsetxattr", 0},    {"fsetxattr", 0}, {"removexattr", 0},
    {"lremovexattr", 0}, {"fremovexattr", 0}, {"bind", 0},      {"umask", 0},
};
const size_t IPB_N_JUDGED_CALLS = N_ELEMENTS(IPB_JUDGED_CALLS);

const IpbDeniedCall IPB_UNJUDGED_CALLS[] = {
    {"setxattrat", 463, ENOSYS, "newer form of setxattr"},
    {"removexattrat", 466, ENOSYS, "newer form of removexattr"},
    {"file_setattr", 469, ENOSYS, "as FS_IOC_FSSETXATTR"},
};
const size_t IPB_N_UNJUDGED_CALLS = N_ELEMENTS(IPB_UNJUDGED_CALLS);

const IpbDeniedIoctl IPB_UNJUDGED_IOCTLS[] = {
    {FS_IOC_SETFLAGS, "makes a directory compare names without case; append-only files"},
    {FS_IOC32_SETFLAGS, "as FS_IOC_SETFLAGS"},
    {FS_IOC_FSSETXATTR, "as FS_IOC_SETFLAGS"},
    /* By number: the C library's headers may lack them. */
    {0x40806685, "FS_IOC_ENABLE_VERITY: makes a file that was opened for reading unwritable"},
    {0x40047211, "FAT_IOCTL_SET_ATTRIBUTES: as FS_IOC_SETFLAGS"},
    {0x40186f04, "OCFS2_IOC_REFLINK: makes a file, by a path in memory"},
};
const size_t IPB_N_UNJUDGED_IOCTLS = N_ELEMENTS(IPB_UNJUDGED_IOCTLS);

const char *const IPB_INIT_CALLS[] = {
    "poll", "ppoll",   "read",  "recvfrom",     "sendmsg",         "wait4",
    "kill", "recvmsg", "recv",  "rt_sigreturn", "restart_syscall", "exit_group",
    "exit", "waitid",  "close", "pidfd_open",
};
const size_t IPB_N_INIT_CALLS = N_ELEMENTS(IPB_INIT_CALLS);
