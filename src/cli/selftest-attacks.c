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
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/keyctl.h>
#include <linux/netlink.h>

#include <glib.h>

#include "base/error.h"
#include "base/file.h"

#define ATTACK_TIMEOUT_S 5
#define SWAP_US (300 * G_TIME_SPAN_MILLISECOND)
#define MAX_CAPABILITY 40
#define ATTACK_TEXT "attack"
#define GIANT_SIZE (1LL << 40) /* more than the limit of a file */

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

/* --- a staged workspace ----------------------------------------------------------------------- */

static int
open_layer(const IpbAttackTargets *targets)
{
    g_autofree char *upper = g_build_filename(targets->layer, "upper", NULL);
    return open_for(upper, O_RDONLY | O_DIRECTORY);
}

static int
create_in_layer(const IpbAttackTargets *targets)
{
    g_autofree char *path = g_build_filename(targets->layer, "upper", ".bashrc", NULL);
    return create_file(path);
}

static int
enter_layer_by_link(const IpbAttackTargets *targets)
{
    unlink("area/passage");
    if (symlink(targets->layer, "area/passage") < 0)
        return errno;
    int result = open_for("area/passage/upper", O_RDONLY | O_DIRECTORY);
    unlink("area/passage");
    return result;
}

/* *@ret_info: of a path below "area" on the host, itself and not what it links to. */
static bool
look(const IpbAttackTargets *targets, const char *name, struct stat *ret_info)
{
    g_autofree char *path = g_build_filename(targets->workspace, "area", name, NULL);
    return lstat(path, ret_info) == 0;
}

/* Is it a regular file that contains the text of an attack? */
static bool
has_attack(const IpbAttackTargets *targets, const char *name)
{
    struct stat info;
    g_autofree char *path = g_build_filename(targets->workspace, "area", name, NULL);
    g_autofree char *text = NULL;
    return look(targets, name, &info) && S_ISREG(info.st_mode) &&
           g_file_get_contents(path, &text, NULL, NULL) && strstr(text, ATTACK_TEXT) != NULL;
}

static int
change_workspace(const IpbAttackTargets *targets)
{
    return write_text("area/live", O_APPEND, ATTACK_TEXT);
}

static bool
is_workspace_changed(const IpbAttackTargets *targets)
{
    return has_attack(targets, "live");
}

/* In each way in which a file can get a name. */
static int
leave_hook(const IpbAttackTargets *targets)
{
    int written = write_text("area/.git/hooks/pre-commit", O_CREAT, ATTACK_TEXT);
    int result = write_text("area/plain", O_CREAT, ATTACK_TEXT);
    if (result == 0)
        result = errno_of(link("area/plain", "area/.git/hooks/post-commit"));
    if (result != 0)
        result = errno_of(rename("area/plain", "area/.git/hooks/post-merge"));
    return written == 0 ? 0 : result;
}

static bool
is_hook_committed(const IpbAttackTargets *targets)
{
    struct stat info;
    return look(targets, ".git/hooks/pre-commit", &info) ||
           look(targets, ".git/hooks/post-commit", &info) ||
           look(targets, ".git/hooks/post-merge", &info);
}

static int
leave_git_program(const IpbAttackTargets *targets)
{
    int result = write_text("area/.git/config.lock", O_CREAT, "[core]\n\tfsmonitor = attack\n");
    return result == 0 ? errno_of(rename("area/.git/config.lock", "area/.git/config")) : result;
}

static bool
is_git_program_committed(const IpbAttackTargets *targets)
{
    return has_attack(targets, ".git/config");
}

static int
leave_moved_directory(const IpbAttackTargets *targets)
{
    int result = make_directory("area/folder");
    if (result == 0)
        result = write_text("area/folder/settings.json", O_CREAT, ATTACK_TEXT);
    return result == 0 ? errno_of(rename("area/folder", "area/.claude")) : result;
}

static bool
is_moved_directory_committed(const IpbAttackTargets *targets)
{
    struct stat info;
    return look(targets, ".claude/settings.json", &info);
}

/* The directory is not in the workspace, and its name may be that of any directory. */
static int
leave_repository(const IpbAttackTargets *targets)
{
    int result = make_directory("area/bare");
    if (result == 0)
        result = make_directory("area/bare/refs");
    if (result == 0)
        result = make_directory("area/bare/objects");
    if (result == 0)
        result = write_text("area/bare/config", O_CREAT, ATTACK_TEXT);
    return result == 0 ? write_text("area/bare/HEAD", O_CREAT, ATTACK_TEXT) : result;
}

static bool
is_repository_committed(const IpbAttackTargets *targets)
{
    return has_attack(targets, "bare/config") && has_attack(targets, "bare/HEAD");
}

/* For an overlay, a device with the number 0:0 means that the file was removed. */
static int
remove_by_mark(const IpbAttackTargets *targets)
{
    int result = errno_of(mknod("area/mark", S_IFCHR, makedev(0, 0)));
    return result == 0 ? errno_of(rename("area/mark", "area/.git/hooks/sample")) : result;
}

static bool
is_removed_by_mark(const IpbAttackTargets *targets)
{
    struct stat info;
    return !look(targets, ".git/hooks/sample", &info) || !S_ISREG(info.st_mode);
}

/* @name: of an attribute that an overlay obeys; for layers of users and of root. */
static int
set_overlay_attribute(const char *path, const char *name, const char *value)
{
    g_autofree char *user = g_strconcat("user.overlay.", name, NULL);
    g_autofree char *trusted = g_strconcat("trusted.overlay.", name, NULL);
    int result = errno_of(setxattr(path, user, value, strlen(value), 0));
    return result == 0 ? 0 : errno_of(setxattr(path, trusted, value, strlen(value), 0));
}

/* Only the attribute of this name is looked for: overlayfs sets others in the layer itself. */
static bool
has_overlay_attribute(const IpbAttackTargets *targets, const char *file, const char *name)
{
    g_autofree char *path = g_build_filename(targets->workspace, "area", file, NULL);
    g_autofree char *user = g_strconcat("user.overlay.", name, NULL);
    g_autofree char *trusted = g_strconcat("trusted.overlay.", name, NULL);
    return lgetxattr(path, user, NULL, 0) >= 0 || lgetxattr(path, trusted, NULL, 0) >= 0;
}

/* An opaque directory of a layer hides what the workspace has in it. */
static int
hide_by_mark(const IpbAttackTargets *targets)
{
    return set_overlay_attribute("area/kept", "opaque", "y");
}

static bool
is_hidden_by_mark(const IpbAttackTargets *targets)
{
    struct stat info;
    return !look(targets, "kept/file", &info) || has_overlay_attribute(targets, "kept", "opaque");
}

/* A redirected directory shows another one's files. */
static int
redirect_by_mark(const IpbAttackTargets *targets)
{
    return set_overlay_attribute("area/kept", "redirect", "/.git");
}

static bool
is_redirected_by_mark(const IpbAttackTargets *targets)
{
    return has_overlay_attribute(targets, "kept", "redirect");
}

/* The link takes the place of a directory, which has a file of the same name. */
static int
write_outside_by_link(const IpbAttackTargets *targets)
{
    unlink("area/way/file");
    rmdir("area/way");
    if (symlink(targets->outside, "area/way") < 0)
        return errno;
    return write_text("area/way/file", 0, ATTACK_TEXT);
}

static bool
is_outside_written(const IpbAttackTargets *targets)
{
    g_autofree char *path = outside(targets, "file");
    g_autofree char *text = NULL;
    return g_file_get_contents(path, &text, NULL, NULL) && strstr(text, ATTACK_TEXT) != NULL;
}

static int
write_by_hard_link(const IpbAttackTargets *targets)
{
    int result = errno_of(link("area/.bashrc", "area/hard"));
    return result == 0 ? write_text("area/hard", O_APPEND, ATTACK_TEXT) : result;
}

static bool
is_written_by_hard_link(const IpbAttackTargets *targets)
{
    return has_attack(targets, ".bashrc");
}

static int
leave_setuid(const IpbAttackTargets *targets)
{
    int result = write_text("area/setuid", O_CREAT, ATTACK_TEXT);
    return result == 0 ? errno_of(chmod("area/setuid", 06755)) : result;
}

static bool
is_setuid_committed(const IpbAttackTargets *targets)
{
    struct stat info;
    return look(targets, "setuid", &info) && (info.st_mode & 06000) != 0;
}

/* A program that reads it waits for ever. */
static int
leave_fifo(const IpbAttackTargets *targets)
{
    return errno_of(mkfifo("area/fifo", 0644));
}

static bool
is_fifo_committed(const IpbAttackTargets *targets)
{
    struct stat info;
    return look(targets, "fifo", &info);
}

static int
leave_giant(const IpbAttackTargets *targets)
{
    signal(SIGXFSZ, SIG_IGN);
    int fd = open("area/giant", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    int result = fd < 0 ? errno : errno_of(ftruncate(fd, GIANT_SIZE));
    close(fd);
    return result;
}

static bool
is_giant_committed(const IpbAttackTargets *targets)
{
    struct stat info;
    return look(targets, "giant", &info) && info.st_size >= GIANT_SIZE;
}

bool
ipb_attacks_make_area(const IpbAttackTargets *targets, GError **error)
{
    static const char *const FILES[] = {"live",        ".bashrc",           "way/file", "kept/file",
                                        ".git/config", ".git/hooks/sample", ".git/HEAD"};
    g_autofree char *area = g_build_filename(targets->workspace, "area", NULL);
    g_autofree char *file_outside = outside(targets, "file");
    ipb_file_remove_tree(area, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(FILES); i++) {
        g_autofree char *path = g_build_filename(area, FILES[i], NULL);
        g_autofree char *parent = g_path_get_dirname(path);
        if (!ipb_file_make_directories(parent, 0755, error) ||
            !g_file_set_contents(path, "text", -1, error))
            return false;
    }
    return write_text(file_outside, O_TRUNC, "text") == 0 ||
           ipb_error_set_errno(error, errno, "cannot write %s", file_outside);
}

/* --- all of them ------------------------------------------------------------------------------ */

#define STAGED "staged workspace"

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
    {STAGED, "open the directory of its layer", open_layer},
    {STAGED, "create a file in the layer", create_in_layer},
    {STAGED, "enter the layer through a symbolic link", enter_layer_by_link},
    {STAGED, "change a file before the commit", change_workspace, false, is_workspace_changed,
     true},
    {STAGED, "commit a git hook", leave_hook, true, is_hook_committed},
    {STAGED, "commit a program in git's config", leave_git_program, true, is_git_program_committed},
    {STAGED, "commit a directory moved to .claude", leave_moved_directory, true,
     is_moved_directory_committed},
    {STAGED, "commit a bare repository", leave_repository, true, is_repository_committed},
    {STAGED, "remove a protected file by a mark", remove_by_mark, true, is_removed_by_mark},
    {STAGED, "hide a directory by a mark", hide_by_mark, false, is_hidden_by_mark},
    {STAGED, "redirect a directory by a mark", redirect_by_mark, false, is_redirected_by_mark},
    {STAGED, "write outside through a symbolic link", write_outside_by_link, false,
     is_outside_written},
    {STAGED, "write .bashrc through a hard link", write_by_hard_link, true,
     is_written_by_hard_link},
    {STAGED, "commit a setuid file", leave_setuid, false, is_setuid_committed},
    {STAGED, "commit a FIFO", leave_fifo, false, is_fifo_committed},
    {STAGED, "commit a sparse file of 1 TiB", leave_giant, false, is_giant_committed},
};

size_t
ipb_attacks_count(bool is_staged)
{
    size_t n = 0;
    while (n < G_N_ELEMENTS(IPB_ATTACKS) &&
           (is_staged || strcmp(IPB_ATTACKS[n].section, STAGED) != 0))
        n++;
    return n;
}

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
    size_t n = ipb_attacks_count(targets->layer != NULL);
    for (size_t i = 0; i < n; i++)
        printf("%zu %d\n", i, run_apart(&IPB_ATTACKS[i], targets));
    bool is_left =
        targets->layer == NULL || write_text("area/harmless", O_CREAT, IPB_ATTACK_HARMLESS) == 0;
    return fflush(stdout) == 0 && is_left;
}
