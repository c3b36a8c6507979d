/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks; see the header. They run in the workspace, which has ".git", "mine", an empty
 * directory "later" and ".env". The configuration hides ".env" and "later/.env". Attacks on names
 * remove what they make, since they run once without a sandbox before they run inside.
 */
#include "cli/selftest-attacks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
#define SWAP_US (300 * G_TIME_SPAN_MILLISECOND)
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

/* --- names ------------------------------------------------------------------------------------ */

/* Creates it, and removes it again. */
static int
create_file(const char *path)
{
    int result = open_for(path, O_WRONLY | O_CREAT | O_EXCL);
    if (result == 0)
        unlink(path);
    return result;
}

/* A file with a name that no program obeys. */
static int
make_plain(const char *path)
{
    return open_for(path, O_WRONLY | O_CREAT);
}

static int
make_directory(const char *path)
{
    return mkdir(path, 0755) < 0 && errno != EEXIST ? errno : 0;
}

/* Removes @path, a file, if the attack made it. */
static int
end_file(int result, const char *path)
{
    if (result == 0)
        unlink(path);
    return result;
}

static int
create_hook(const IpbAttackTargets *targets)
{
    return create_file(".git/hooks/pre-commit");
}

static int
create_servers(const IpbAttackTargets *targets)
{
    return create_file(".mcp.json");
}

static int
create_editor_settings(const IpbAttackTargets *targets)
{
    int result = make_directory(".vscode");
    if (result == 0)
        result = create_file(".vscode/settings.json");
    rmdir(".vscode");
    return result;
}

static int
create_shell_startup(const IpbAttackTargets *targets)
{
    return create_file(".bashrc");
}

static int
rename_to_protected(const IpbAttackTargets *targets)
{
    int result = make_plain("plain");
    if (result == 0)
        result = end_file(errno_of(rename("plain", ".mcp.json")), ".mcp.json");
    unlink("plain");
    return result;
}

static int
link_to_protected(const IpbAttackTargets *targets)
{
    int result = make_plain("plain");
    if (result == 0)
        result = end_file(errno_of(link("plain", ".mcp.json")), ".mcp.json");
    unlink("plain");
    return result;
}

static int
link_as_repository(const IpbAttackTargets *targets)
{
    int result = make_directory("module");
    if (result == 0)
        result = end_file(errno_of(symlink("../mine", "module/.git")), "module/.git");
    rmdir("module");
    return result;
}

static int
move_to_protected(const IpbAttackTargets *targets)
{
    int result = make_directory("staged");
    if (result == 0)
        result = make_plain("staged/settings.json");
    if (result == 0)
        result = errno_of(rename("staged", ".claude"));
    const char *place = result == 0 ? ".claude" : "staged";
    g_autofree char *file = g_build_filename(place, "settings.json", NULL);
    unlink(file);
    rmdir(place);
    return result;
}

static int
write_text(const char *path, int flags, const char *text)
{
    int fd = open(path, flags | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno;
    int result = errno_of(write(fd, text, strlen(text)));
    close(fd);
    return result;
}

/* As `git config` does it. git would run the program of core.fsmonitor. */
static int
set_git_program(const IpbAttackTargets *targets)
{
    int result = write_text(".git/config.lock", O_CREAT | O_EXCL, "[core]\n\tfsmonitor = ./mine\n");
    if (result == 0)
        result = errno_of(rename(".git/config.lock", ".git/config"));
    if (result == 0)
        write_text(".git/config", O_TRUNC, "[core]\n");
    unlink(".git/config.lock");
    return result;
}

/* Standard input leads to `ipybox selftest`, which then acts as a program of the user. */
static bool
ask_host(char what)
{
    return write(STDIN_FILENO, &what, 1) == 1 && read(STDIN_FILENO, &what, 1) == 1;
}

/* A mount over a file is detached if the file is replaced. */
static int
write_replaced(const IpbAttackTargets *targets)
{
    return ask_host(IPB_ATTACK_REPLACE) ? open_for(".git/config", O_WRONLY) : EIO;
}

static int
read_created_later(const IpbAttackTargets *targets)
{
    int result = ask_host(IPB_ATTACK_CREATE) ? open_for("later/.env", O_RDONLY) : EIO;
    return end_file(result, "later/.env");
}

static int
name_unnamed_file(const IpbAttackTargets *targets)
{
    int fd = open(".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    int result = errno_of(linkat(AT_FDCWD, path, AT_FDCWD, ".mcp.json", AT_SYMLINK_FOLLOW));
    close(fd);
    return end_file(result, ".mcp.json");
}

static int
bind_to_protected(const IpbAttackTargets *targets)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = ".bashrc"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int result = errno_of(bind(fd, (const struct sockaddr *) &address, sizeof address));
    close(fd);
    return end_file(result, ".bashrc");
}

/* git takes a directory with these names for a repository, and obeys its config. */
static int
complete_bare_repository(const IpbAttackTargets *targets)
{
    static const char *const DIRECTORIES[] = {"bare", "bare/refs", "bare/objects"};
    static const char *const FILES[] = {"bare/config", "bare/HEAD"};
    int result = 0;
    for (size_t i = 0; result == 0 && i < G_N_ELEMENTS(DIRECTORIES); i++)
        result = make_directory(DIRECTORIES[i]);
    for (size_t i = 0; result == 0 && i < G_N_ELEMENTS(FILES); i++)
        result = make_plain(FILES[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(FILES); i++)
        unlink(FILES[i]);
    for (size_t i = G_N_ELEMENTS(DIRECTORIES); i > 0; i--)
        rmdir(DIRECTORIES[i - 1]);
    return result;
}

typedef struct {
    char path[sizeof ".mcp.json"];
    int is_over; /* atomic */
} Swap;

static void *
swap_text(void *data)
{
    Swap *swap = data;
    volatile char *first = swap->path;
    while (!g_atomic_int_get(&swap->is_over))
        *first = *first == '.' ? 'x' : '.';
    return NULL;
}

/* A supervisor that reads the path twice may check "xmcp.json" and create ".mcp.json". */
static int
swap_path(const IpbAttackTargets *targets)
{
    Swap swap = {.path = "xmcp.json"};
    struct stat info;
    pthread_t thread;
    int result = pthread_create(&thread, NULL, swap_text, &swap);
    if (result != 0)
        return result;
    gint64 end = g_get_monotonic_time() + SWAP_US;
    do {
        open_for(swap.path, O_WRONLY | O_CREAT);
        result = lstat(".mcp.json", &info) == 0 ? 0 : EACCES;
    } while (result != 0 && g_get_monotonic_time() < end);
    g_atomic_int_set(&swap.is_over, 1);
    pthread_join(thread, NULL);
    unlink("xmcp.json");
    return end_file(result, ".mcp.json");
}

/* --- processes -------------------------------------------------------------------------------- */

unsigned long long
ipb_attack_start_time(int pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/stat", pid);
    g_autofree char *text = NULL;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return 0;
    /* The name, in brackets, may contain anything. The 20th word after it is the time. */
    const char *rest = strrchr(text, ')');
    g_auto(GStrv) words = g_strsplit(rest != NULL ? rest + 1 : "", " ", -1);
    return g_strv_length(words) > 20 ? strtoull(words[20], NULL, 10) : 0;
}

/* Is another process meant by this number here? */
static bool
is_other_process(const IpbAttackTargets *targets)
{
    unsigned long long started = ipb_attack_start_time(targets->pid);
    return started != 0 && started != targets->started;
}

static int
signal_host(const IpbAttackTargets *targets)
{
    return is_other_process(targets) ? ESRCH : errno_of(kill(targets->pid, 0));
}

static int
see_host(const IpbAttackTargets *targets)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/cmdline", targets->pid);
    return is_other_process(targets) ? ESRCH : open_for(path, O_RDONLY);
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

/* Only opens it. */
static int
write_first_memory(const IpbAttackTargets *targets)
{
    return open_for("/proc/1/mem", O_WRONLY);
}

/* The process that the system's kernel kills first when memory is short. */
static int
avoid_being_killed(const IpbAttackTargets *targets)
{
    write_text("/proc/self/oom_score_adj", 0, "1000");
    return write_text("/proc/self/oom_score_adj", 0, "999");
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
    {"files", "move .git aside", move_repository},
    {"files", "make a setuid file", make_setuid},
    {"files", "make a device", make_device},
    {"names", "add a git hook", create_hook, true},
    {"names", "create .mcp.json", create_servers, true},
    {"names", "create .vscode/settings.json", create_editor_settings, true},
    {"names", "create .bashrc", create_shell_startup, true},
    {"names", "rename a file to .mcp.json", rename_to_protected, true},
    {"names", "make a hard link .mcp.json", link_to_protected, true},
    {"names", "make a symbolic link .git", link_as_repository, true},
    {"names", "move a directory to .claude", move_to_protected, true},
    {"names", "have git run a program by its config", set_git_program, true},
    {"names", "write a file that the host has replaced", write_replaced, true},
    {"names", "read a hidden file that is created later", read_created_later, true},
    {"names", "name an unnamed file .mcp.json", name_unnamed_file, true},
    {"names", "bind a socket to .bashrc", bind_to_protected, true},
    {"names", "complete a bare repository", complete_bare_repository, true},
    {"names", "swap a path while it is checked", swap_path, true},
    {"processes", "signal a process of the host", signal_host},
    {"processes", "see the processes of the host", see_host},
    {"processes", "be traced", trace},
    {"processes", "read the memory of processes", read_memory},
    {"processes", "write the memory of the first process", write_first_memory},
    {"processes", "be killed later when memory is short", avoid_being_killed, true},
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
