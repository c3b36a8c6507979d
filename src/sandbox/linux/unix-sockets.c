/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. A path can be changed between the decision and the connect; an inode cannot.
 */
#include "sandbox/linux/unix-sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>

#include "base/error.h"
#include "base/fd.h"

/* The maximum size of a datagram of the answer, as the kernel sends it. */
#define MAX_ANSWER 32768
#define STATE_LISTEN 10 /* TCP_LISTEN, which AF_UNIX uses, too */

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* Returns the id of a socket's network; 0: not known, before Linux 5.14. */
static uint64_t
read_cookie(int socket_fd)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(socket_fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

bool
ipb_unix_sockets_init(IpbUnixSockets *sockets, int diag_fd, const GPtrArray *allowed,
                      const char *const *own, GError **error)
{
    *sockets = (IpbUnixSockets){.diag_fd = -1};
    if (diag_fd >= 0) {
        sockets->diag_fd = fcntl(diag_fd, F_DUPFD_CLOEXEC, 3);
        if (sockets->diag_fd < 0)
            return ipb_error_set_errno(error, errno, "cannot duplicate a socket");
        sockets->cookie = read_cookie(diag_fd);
    }
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (guint i = 0; i < allowed->len; i++)
        g_strv_builder_add(builder, g_ptr_array_index(allowed, i));
    sockets->allowed = g_strv_builder_end(builder);
    sockets->own = g_strdupv((char **) own);
    return true;
}

void
ipb_unix_sockets_clear(IpbUnixSockets *sockets)
{
    ipb_fd_close(&sockets->diag_fd);
    g_clear_pointer(&sockets->own, g_strfreev);
    g_clear_pointer(&sockets->allowed, g_strfreev);
}

/* The paths of the plan contain no symbolic link. If there is one now, it was created since
 * then. */
static int
open_path(int directory, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    return (int) syscall(SYS_openat2, directory, path, &how, sizeof how);
}

static bool
is_named(const IpbUnixSockets *sockets, const struct stat *info)
{
    for (char **path = sockets->allowed; *path != NULL; path++) {
        struct stat named;
        ipb_autofd fd = open_path(AT_FDCWD, *path);
        if (fd >= 0 && fstat(fd, &named) == 0 && named.st_dev == info->st_dev &&
            named.st_ino == info->st_ino)
            return true;
    }
    return false;
}

/* Is it still the file system that was mounted there, and not a directory of the host that took its
 * place? */
static bool
is_own_mount(int fd)
{
    struct statx info;
    struct statfs file_system;
    return statx(fd, "", AT_EMPTY_PATH, 0, &info) == 0 &&
           (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 && fstatfs(fd, &file_system) == 0 &&
           file_system.f_type == TMPFS_MAGIC;
}

/* Only processes inside can bind a socket there. */
static bool
is_on_own_file_system(const IpbUnixSockets *sockets, int root_fd, const struct stat *info)
{
    for (char **path = sockets->own; *path != NULL; path++) {
        struct stat own;
        ipb_autofd fd = open_path(root_fd, *path + 1);
        if (fd >= 0 && fstat(fd, &own) == 0 && own.st_dev == info->st_dev && is_own_mount(fd))
            return true;
    }
    return false;
}

/* --- who listens inside ----------------------------------------------------------------------- */

static bool
ask_for_listeners(int fd)
{
    struct {
        struct nlmsghdr header;
        struct unix_diag_req body;
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.sdiag_family = AF_UNIX,
                 .udiag_states = 1 << STATE_LISTEN,
                 .udiag_show = UDIAG_SHOW_VFS},
    };
    return send(fd, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t) sizeof request;
}

static bool
is_same_file(const struct unix_diag_vfs *vfs, const struct stat *info)
{
    /* The kernel reports device numbers in its own format. */
    uint32_t device = (uint32_t) (major(info->st_dev) << 20 | minor(info->st_dev));
    return vfs->udiag_vfs_dev == device && vfs->udiag_vfs_ino == info->st_ino;
}

static bool
names_file(const struct nlmsghdr *message, const struct stat *info)
{
    const struct unix_diag_msg *body = NLMSG_DATA(message);
    if (message->nlmsg_len < NLMSG_LENGTH(sizeof *body))
        return false;
    size_t left = message->nlmsg_len - NLMSG_LENGTH(sizeof *body);
    const char *at = (const char *) (body + 1);
    while (left >= sizeof(struct nlattr)) {
        const struct nlattr *attribute = (const struct nlattr *) at;
        if (attribute->nla_len < sizeof *attribute || attribute->nla_len > left)
            return false;
        if ((attribute->nla_type & NLA_TYPE_MASK) == UNIX_DIAG_VFS &&
            attribute->nla_len >= sizeof *attribute + sizeof(struct unix_diag_vfs) &&
            is_same_file((const struct unix_diag_vfs *) (attribute + 1), info))
            return true;
        size_t step = NLA_ALIGN(attribute->nla_len);
        if (step >= left)
            return false;
        at += step;
        left -= step;
    }
    return false;
}

typedef enum { DUMP_GOES_ON, DUMP_ENDED, DUMP_FAILED } DumpState;

static DumpState
read_part(int fd, const struct stat *info, bool *found)
{
    _Alignas(struct nlmsghdr) char answer[MAX_ANSWER];
    ssize_t size = recv(fd, answer, sizeof answer, 0);
    if (size < 0 && errno == EINTR)
        return DUMP_GOES_ON;
    if (size <= 0)
        return DUMP_FAILED;
    size_t left = (size_t) size;
    for (const struct nlmsghdr *message = (const struct nlmsghdr *) answer; NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
        if (message->nlmsg_type == NLMSG_DONE)
            return DUMP_ENDED;
        if (message->nlmsg_type == NLMSG_ERROR)
            return DUMP_FAILED;
        *found = *found || names_file(message, info);
    }
    return DUMP_GOES_ON;
}

static bool
is_listened_on_inside(const IpbUnixSockets *sockets, const struct stat *info)
{
    bool found = false;
    /* The kernel reports 32 bits of the inode number, so larger numbers cannot be compared. */
    if (sockets->diag_fd < 0 || info->st_ino > UINT32_MAX || !ask_for_listeners(sockets->diag_fd))
        return false;
    DumpState state;
    do
        state = read_part(sockets->diag_fd, info, &found);
    while (state == DUMP_GOES_ON);
    return state == DUMP_ENDED && found;
}

bool
ipb_unix_sockets_are_inside(const IpbUnixSockets *sockets, int socket_fd)
{
    return sockets->diag_fd >= 0 && read_cookie(socket_fd) == sockets->cookie;
}

IpbUnixVerdict
ipb_unix_sockets_judge(const IpbUnixSockets *sockets, int root_fd, const struct stat *info)
{
    if (is_named(sockets, info))
        return IPB_UNIX_NAMED;
    if (sockets->diag_fd < 0)
        return IPB_UNIX_DENIED;
    if (is_on_own_file_system(sockets, root_fd, info) || is_listened_on_inside(sockets, info))
        return IPB_UNIX_OWN;
    return IPB_UNIX_DENIED;
}
