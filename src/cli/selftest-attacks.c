/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks; see the header. They run in the workspace, which has ".env" (hidden by the
 * configuration), ".git" and "mine".
 */
#include "cli/selftest-attacks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/keyctl.h>
#include <linux/netlink.h>

#include <glib.h>

#define ATTACK_TIMEOUT_S 5
#define MAX_CAPABILITY 40

/* 0, or errno if a system call returned an error. */
static int
errno_of(long result)
{
    return result < 0 ? errno : 0;
}

static int
open_for(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    int result = errno_of(fd);
    if (fd >= 0)
        close(fd);
    return result;
}

static char *
outside(const IpbAttackTargets *targets, const char *name)
{
    return g_build_filename(targets->outside, name, NULL);
}

/* --- files ------------------------------------------------------------------------------------ */

static int
write_outside(const IpbAttackTargets *targets)
{
    g_autofree char *path = outside(targets, "file");
    return open_for(path, O_WRONLY);
}

static int
create_outside(const IpbAttackTargets *targets)
{
    g_autofree char *path = outside(targets, "new");
    return open_for(path, O_WRONLY | O_CREAT);
}

static int
write_by_link(const IpbAttackTargets *targets)
{
    g_autofree char *path = outside(targets, "file");
    unlink("link");
    return symlink(path, "link") < 0 ? errno : open_for("link", O_WRONLY);
}

static int
write_by_descriptor(const IpbAttackTargets *targets)
{
    g_autofree char *path = outside(targets, "file");
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno;
    g_autofree char *name = g_strdup_printf("/proc/self/fd/%d", fd);
    return open_for(name, O_WRONLY);
}

static int
link_from_outside(const IpbAttackTargets *targets)
{
    g_autofree char *path = outside(targets, "file");
    unlink("taken");
    return errno_of(link(path, "taken"));
}

static int
read_hidden(const IpbAttackTargets *targets)
{
    return open_for(".env", O_RDONLY);
}

/* A watch reports when and how often the file is read and written. */
static int
watch_hidden(const IpbAttackTargets *targets)
{
    int fd = inotify_init1(IN_CLOEXEC);
    int result = errno_of(inotify_add_watch(fd, ".env", IN_ALL_EVENTS));
    close(fd);
    return result;
}

static int
exchange_hidden(const IpbAttackTargets *targets)
{
    int result = errno_of(renameat2(AT_FDCWD, ".env", AT_FDCWD, "mine", RENAME_EXCHANGE));
    if (result == 0)
        renameat2(AT_FDCWD, ".env", AT_FDCWD, "mine", RENAME_EXCHANGE);
    return result;
}

static int
write_hook(const IpbAttackTargets *targets)
{
    return open_for(".git/hooks/pre-commit", O_WRONLY | O_CREAT);
}

static int
move_repository(const IpbAttackTargets *targets)
{
    int result = errno_of(rename(".git", ".git-aside"));
    if (result == 0)
        rename(".git-aside", ".git");
    return result;
}

static int
make_setuid(const IpbAttackTargets *targets)
{
    return errno_of(chmod("mine", 04755));
}

static int
make_device(const IpbAttackTargets *targets)
{
    unlink("device");
    return errno_of(mknod("device", S_IFCHR | 0600, makedev(1, 3)));
}

/* --- processes -------------------------------------------------------------------------------- */

static int
signal_host(const IpbAttackTargets *targets)
{
    return errno_of(kill(targets->pid, 0));
}

static int
see_host(const IpbAttackTargets *targets)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/cmdline", targets->pid);
    return open_for(path, O_RDONLY);
}

static int
trace(const IpbAttackTargets *targets)
{
    return errno_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int
read_memory(const IpbAttackTargets *targets)
{
    char from = 'x', to;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    return errno_of(process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
}

static int
have_capability(const IpbAttackTargets *targets)
{
    for (int capability = 0; capability <= MAX_CAPABILITY; capability++)
        if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
            return 0;
    return EPERM;
}

static int
gain_privileges(const IpbAttackTargets *targets)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 ? 0 : EPERM;
}

/* --- system calls ----------------------------------------------------------------------------- */

static int
make_namespace(const IpbAttackTargets *targets)
{
    return errno_of(unshare(CLONE_NEWUSER));
}

static int
use_keys(const IpbAttackTargets *targets)
{
    return errno_of(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1, 0, 0));
}

static int
use_io_uring(const IpbAttackTargets *targets)
{
    char parameters[256] = {0};
    return errno_of(syscall(SYS_io_uring_setup, 1, parameters));
}

#ifdef SYS_modify_ldt
static int
use_segments(const IpbAttackTargets *targets)
{
    char table[16];
    return errno_of(syscall(SYS_modify_ldt, 0, table, sizeof table));
}
#endif

#ifdef __x86_64__
/* getpid() of 32-bit programs. A filter for 64-bit programs would take its number for another
 * call. */
static int
call_as_32_bit(const IpbAttackTargets *targets)
{
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return result < 0 ? (int) -result : 0;
}
#endif

static int
change_personality(const IpbAttackTargets *targets)
{
    return errno_of(syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */));
}

static int
filter_beside(const IpbAttackTargets *targets)
{
    uint64_t how[3] = {O_RDONLY, 0, 0};
    return errno_of(syscall(437 /* openat2 */, AT_FDCWD, "mine", how, sizeof how));
}

/* --- network ---------------------------------------------------------------------------------- */

static int
connect_to(int family, int type, const void *address, socklen_t size)
{
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : errno_of(connect(fd, address, size));
}

static int
connect_to_host(const IpbAttackTargets *targets)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t) targets->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect_to(AF_INET, SOCK_STREAM, &address, sizeof address);
}

/* Connecting a datagram socket sends nothing; it only looks for a route. */
static int
find_way_out(const IpbAttackTargets *targets)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
    inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
    return connect_to(AF_INET, SOCK_DGRAM, &address, sizeof address);
}

static int
connect_by_path(const IpbAttackTargets *targets)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    g_autofree char *path = outside(targets, "socket");
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    strcpy(address.sun_path, path);
    return connect_to(AF_UNIX, SOCK_STREAM, &address, sizeof address);
}

static int
connect_in_workspace(const IpbAttackTargets *targets)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    return connect_to(AF_UNIX, SOCK_STREAM, &address, sizeof address);
}

static int
connect_abstract(const IpbAttackTargets *targets)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = MIN(strlen(targets->abstract), sizeof address.sun_path - 1);
    memcpy(address.sun_path + 1, targets->abstract, size);
    return connect_to(AF_UNIX, SOCK_STREAM, &address,
                      (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + size));
}

static int
open_socket(int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    int result = errno_of(fd);
    if (fd >= 0)
        close(fd);
    return result;
}

static int
see_packets(const IpbAttackTargets *targets)
{
    return open_socket(AF_PACKET, SOCK_RAW, 0);
}

static int
leave_virtual_machine(const IpbAttackTargets *targets)
{
    return open_socket(AF_VSOCK, SOCK_STREAM, 0);
}

static int
listen_to_kernel(const IpbAttackTargets *targets)
{
    return open_socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT);
}

static int
send_datagrams(const IpbAttackTargets *targets)
{
    return open_socket(AF_UNIX, SOCK_DGRAM, 0);
}

/* --- all of them ------------------------------------------------------------------------------ */

const IpbAttack IPB_ATTACKS[] = {
    {"files", "write a file outside of the workspace", write_outside},
    {"files", "create a file outside of the workspace", create_outside},
    {"files", "write it through a symbolic link", write_by_link},
    {"files", "write it by reopening a descriptor", write_by_descriptor},
    {"files", "make a hard link to it", link_from_outside},
    {"files", "read a hidden file", read_hidden},
    {"files", "watch a hidden file", watch_hidden},
    {"files", "exchange it with another file", exchange_hidden},
    {"files", "add a git hook", write_hook},
    {"files", "move .git aside", move_repository},
    {"files", "make a setuid file", make_setuid},
    {"files", "make a device", make_device},
    {"processes", "signal a process of the host", signal_host},
    {"processes", "see the processes of the host", see_host},
    {"processes", "be traced", trace},
    {"processes", "read the memory of processes", read_memory},
    {"processes", "have a capability", have_capability},
    {"processes", "gain privileges by executing", gain_privileges},
    {"system calls", "make a user namespace", make_namespace},
    {"system calls", "use the kernel's keyrings", use_keys},
    {"system calls", "use io_uring", use_io_uring},
#ifdef SYS_modify_ldt
    {"system calls", "change memory segments", use_segments},
#endif
#ifdef __x86_64__
    {"system calls", "call as a 32-bit program does", call_as_32_bit},
#endif
    {"system calls", "change the personality", change_personality},
    {"system calls", "open a file with hidden flags", filter_beside},
    {"network", "connect to a service on the host's loopback", connect_to_host},
    {"network", "find a route to the internet", find_way_out},
    {"network", "connect to a Unix socket of the host", connect_by_path},
    {"network", "connect to one in the workspace", connect_in_workspace},
    {"network", "connect to an abstract one", connect_abstract},
    {"network", "read network packets", see_packets},
    {"network", "connect to the host of a virtual machine", leave_virtual_machine},
    {"network", "listen to the kernel's events", listen_to_kernel},
    {"network", "send Unix datagrams", send_datagrams},
};
const size_t IPB_N_ATTACKS = G_N_ELEMENTS(IPB_ATTACKS);

static int
run_apart(const IpbAttack *attack, const IpbAttackTargets *targets)
{
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        alarm(ATTACK_TIMEOUT_S);
        _exit(attack->run(targets));
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    /* It stopped because it made us its tracer. */
    if (WIFSTOPPED(status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return 0;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

bool
ipb_attacks_run(const IpbAttackTargets *targets)
{
    for (size_t i = 0; i < IPB_N_ATTACKS; i++)
        printf("%zu %d\n", i, run_apart(&IPB_ATTACKS[i], targets));
    return fflush(stdout) == 0;
}
