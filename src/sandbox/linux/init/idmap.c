/* SPDX-License-Identifier: Apache-2.0
 *
 * For callers that are root. Code inside runs as an unprivileged outer user, who cannot read root's
 * secrets. Directories that it may write, or read although a directory above is closed to it, are
 * mounted with an id map: inside, that user owns them. Only the host's root may create such mounts,
 * so they are opened here, before the namespaces exist, and carried inside.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"
#include "sandbox/linux/init/text.h"

/* One user namespace for each owner of files. There are rarely more than two. */
#define MAX_OWNERS 8

typedef struct {
    uid_t uid;
    gid_t gid;
    int userns;
} Owner;

typedef struct {
    Owner owners[MAX_OWNERS];
    size_t n;
} Owners;

static bool
write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = write(fd, text, strlen(text));
    int saved = errno;
    close(fd);
    errno = saved;
    return n == (ssize_t) strlen(text);
}

static bool
write_map(pid_t pid, const char *file, uint32_t inner, uint32_t outer)
{
    IpbText path = {0}, map = {0};
    ipb_text_add(&path, "/proc/");
    ipb_text_add_number(&path, (uint64_t) pid);
    ipb_text_add(&path, file);
    ipb_text_add_number(&map, inner);
    ipb_text_add(&map, " ");
    ipb_text_add_number(&map, outer);
    ipb_text_add(&map, " 1\n");
    return write_file(path.bytes, map.bytes);
}

static bool
deny_setgroups(pid_t pid)
{
    IpbText path = {0};
    ipb_text_add(&path, "/proc/");
    ipb_text_add_number(&path, (uint64_t) pid);
    ipb_text_add(&path, "/setgroups");
    return write_file(path.bytes, "deny");
}

bool
ipb_idmap_write(pid_t pid, uint32_t inner_uid, uint32_t outer_uid, uint32_t inner_gid,
                uint32_t outer_gid)
{
    /* This comes before gid_map, which an unprivileged user may write only then. */
    return deny_setgroups(pid) && write_map(pid, "/uid_map", inner_uid, outer_uid) &&
           write_map(pid, "/gid_map", inner_gid, outer_gid);
}

static int
open_user_namespace(pid_t pid)
{
    IpbText path = {0};
    ipb_text_add(&path, "/proc/");
    ipb_text_add_number(&path, (uint64_t) pid);
    ipb_text_add(&path, "/ns/user");
    return open(path.bytes, O_RDONLY | O_CLOEXEC);
}

/* Opens a user namespace in which the owner on disk is the outer user of the sandbox. A process
 * holds it until it is open. */
static int
make_user_namespace(const IpbBlobHeader *header, uid_t uid, gid_t gid)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t pid = sys_clone3(&args);
    if (pid == 0)
        for (;;)
            pause();
    if (pid < 0)
        return -1;
    int fd = ipb_idmap_write(pid, uid, header->outer_uid, gid, header->outer_gid)
                 ? open_user_namespace(pid)
                 : -1;
    int saved = errno;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    errno = saved;
    return fd;
}

static int
find_user_namespace(Owners *owners, const IpbBlobHeader *header, const struct stat *info)
{
    for (size_t i = 0; i < owners->n; i++)
        if (owners->owners[i].uid == info->st_uid && owners->owners[i].gid == info->st_gid)
            return owners->owners[i].userns;
    if (owners->n == MAX_OWNERS) {
        errno = E2BIG;
        return -1;
    }
    int fd = make_user_namespace(header, info->st_uid, info->st_gid);
    if (fd >= 0)
        owners->owners[owners->n++] = (Owner){info->st_uid, info->st_gid, fd};
    return fd;
}

/* Can a user who is neither owner nor in the group reach it? */
static bool
is_open_to_others(const char *path)
{
    char part[4096];
    size_t size = strlen(path);
    if (size >= sizeof part)
        return false;
    memcpy(part, path, size + 1);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct stat info;
        *slash = '\0';
        bool is_open = stat(part, &info) == 0 && (info.st_mode & S_IXOTH) != 0;
        *slash = '/';
        if (!is_open)
            return false;
    }
    return true;
}

/* Is @path equal to @top, or below it? */
static bool
is_below(const char *path, const char *top)
{
    size_t size = strlen(top);
    return strncmp(path, top, size) == 0 && (path[size] == '\0' || path[size] == '/');
}

/* A read-only mount needs a map if the outer user could not see it otherwise: below a mapped one,
 * or below a closed directory. Other mounts get no map, because it would open files that are closed
 * to others, such as /etc/shadow in a read-only /etc. */
static bool
needs_map(const IpbInit *init, uint32_t index)
{
    const IpbBlobMount *mounts = ipb_blob_at(init->bytes, init->header->mounts);
    const char *target = ipb_blob_string(init->bytes, mounts[index].target);
    const char *source = ipb_blob_string(init->bytes, mounts[index].source);
    /* A writable "/" allows what every user may write. A map would make it root's rights. */
    if (index == 0)
        return false;
    if (mounts[index].kind == IPB_MOUNT_WRITABLE || mounts[index].kind == IPB_MOUNT_LAYER ||
        mounts[index].kind == IPB_MOUNT_STAGED)
        return true;
    if (mounts[index].kind != IPB_MOUNT_READ_ONLY)
        return false;
    for (uint32_t i = 0; i < index; i++)
        if (init->trees[i] >= 0 && is_below(target, ipb_blob_string(init->bytes, mounts[i].target)))
            return true;
    return mounts[index].is_denial == 0 && !is_open_to_others(source);
}

/* The tree is a clone of the host's mounts, which most systems share between namespaces. It becomes
 * private: otherwise what is mounted on it inside would appear on the host, and the other way
 * round. If a mount below has a file system that takes no map, no mount below gets one. There, code
 * inside may do what every user may do. */
static bool
map_tree(int tree, int userns)
{
    struct mount_attr safe = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    struct mount_attr mapped = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t) userns};
    if (sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &safe) < 0)
        return false;
    return sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &mapped) == 0 ||
           (errno == EINVAL && sys_mount_setattr(tree, "", AT_EMPTY_PATH, &mapped) == 0);
}

static bool
open_mapped(IpbInit *init, Owners *owners, uint32_t index, IpbStepError *error)
{
    const IpbBlobMount *mounts = ipb_blob_at(init->bytes, init->header->mounts);
    const char *source = ipb_blob_string(init->bytes, mounts[index].source);
    int place = sys_openat2(AT_FDCWD, source, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
    if (place < 0)
        return ipb_step_fail(error, IPB_STEP_SOURCE, index);
    struct stat info;
    int tree =
        fstat(place, &info) < 0
            ? -1
            : sys_open_tree(place, "",
                            AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    int saved = errno;
    close(place);
    errno = saved;
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_SOURCE, index);
    int userns = find_user_namespace(owners, init->header, &info);
    if (userns < 0)
        return ipb_step_fail(error, IPB_STEP_ID_MAP_HELPER, index);
    if (!map_tree(tree, userns))
        return ipb_step_fail(error, IPB_STEP_ID_MAP_MOUNT, index);
    init->trees[index] = tree;
    return true;
}

bool
ipb_idmap_open_trees(IpbInit *init, IpbStepError *error)
{
    Owners owners = {0};
    for (uint32_t i = 0; i < init->header->mounts.count; i++)
        if (needs_map(init, i) && !open_mapped(init, &owners, i, error))
            return false;
    for (size_t i = 0; i < owners.n; i++)
        close(owners.owners[i].userns);
    return true;
}
