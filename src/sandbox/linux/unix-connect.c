/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of a descriptor shares its flags with the original. So code inside can make a connect()
 * here block, after it was made non-blocking. That is one reason why the supervisor has a thread.
 */
#include "sandbox/linux/unix-connect.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/linux/caller-path.h"

#define CONNECT_TIMEOUT_MS 60000

/* --- whose rights count ----------------------------------------------------------------------- */

/* Changes this thread only, since it makes system calls instead of calling the C library's
 * wrappers. Root loses the right to enter every directory. */
static bool
set_file_system_user(uint32_t uid, uint32_t gid)
{
    syscall(SYS_setfsgid, gid);
    syscall(SYS_setfsuid, uid);
    /* They report no failure. With an id that cannot be, they return the one that counts. */
    return (uint32_t) syscall(SYS_setfsgid, -1) == gid &&
           (uint32_t) syscall(SYS_setfsuid, -1) == uid;
}

bool
ipb_unix_connect_become_outer_user(const IpbUnixConnect *connect)
{
    return !connect->has_outer_user || set_file_system_user(connect->uid, connect->gid);
}

static void
become_ourselves(const IpbUnixConnect *connect)
{
    if (connect->has_outer_user)
        set_file_system_user(geteuid(), getegid());
}

/* --- connecting ------------------------------------------------------------------------------- */

/* Connects without waiting. *ret_was_blocking: the caller would wait. Returns 0 or an errno. */
static int
try_connect(int copy, const struct sockaddr *address, socklen_t size, bool *ret_was_blocking)
{
    int flags = fcntl(copy, F_GETFL);
    if (flags < 0)
        return errno;
    *ret_was_blocking = (flags & O_NONBLOCK) == 0;
    if (*ret_was_blocking)
        fcntl(copy, F_SETFL, flags | O_NONBLOCK);
    int result = connect(copy, address, size) == 0 ? 0 : errno;
    if (*ret_was_blocking)
        fcntl(copy, F_SETFL, flags);
    return result;
}

static int
connect_to_file(const IpbUnixConnect *connect, int copy, int target, bool is_named,
                bool *ret_was_blocking)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    g_snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", target);
    /* Sockets that the plan names are connected with our own rights: a user who has them asked for
     * it. */
    if (is_named)
        become_ourselves(connect);
    int result = try_connect(copy, (struct sockaddr *) &address, sizeof address, ret_was_blocking);
    /* To go on as root would give code inside root's files. */
    if (is_named && !ipb_unix_connect_become_outer_user(connect))
        g_error("the thread that judges files cannot give up root's rights again");
    return result;
}

/* Takes both fds. */
static bool
wait_for(const IpbNotification *notification, int copy, int target, bool is_named,
         IpbConnectWait *ret_wait)
{
    *ret_wait = (IpbConnectWait){*notification, copy, target, is_named,
                                 g_get_monotonic_time() + CONNECT_TIMEOUT_MS * INT64_C(1000)};
    return true;
}

static bool
answer(const IpbNotification *notification, int errno_value)
{
    ipb_notification_answer(notification, errno_value);
    return false;
}

/* Connects to a socket of the sandbox's network, or to an abstract one, which belongs to that
 * network, too. So it cannot be the host's. If the sandbox has no network of its own, all names are
 * the host's. A socket that was handed in belongs to the network where it was created. */
static bool
connect_as_is(const IpbUnixConnect *connect, const IpbNotification *notification, int *copy,
              const void *address, socklen_t size, IpbConnectWait *ret_wait)
{
    bool was_blocking = false;
    if (!ipb_unix_sockets_are_inside(&connect->sockets, *copy))
        return answer(notification, EACCES);
    int result = try_connect(*copy, address, size, &was_blocking);
    if (result == EINPROGRESS && was_blocking)
        return wait_for(notification, ipb_fd_steal(copy), -1, false, ret_wait);
    return answer(notification, result);
}

static bool
connect_by_path(const IpbUnixConnect *connect, IpbCaller *caller,
                const IpbNotification *notification, int *copy, const char *text,
                IpbConnectWait *ret_wait)
{
    IpbCallerPath path;
    struct stat info;
    ipb_autofd target = -1;
    int result = ipb_caller_path_find_target(caller, AT_FDCWD, text, true, &path, &target, &info);
    if (result != 0)
        /* A magic link, or too many links: report it as denied. */
        return answer(notification, result == EXDEV || result == ELOOP ? EACCES : result);
    ipb_caller_path_clear(&path);
    IpbUnixVerdict verdict =
        S_ISSOCK(info.st_mode)
            ? ipb_unix_sockets_judge(&connect->sockets, ipb_caller_root(caller), &info)
            : IPB_UNIX_OWN; /* the kernel reports what is wrong with it */
    if (!ipb_notification_is_valid(notification))
        return false;
    if (verdict == IPB_UNIX_DENIED) {
        connect->on_denied(caller, text, connect->data);
        return answer(notification, EACCES);
    }
    bool was_blocking = false, is_named = verdict == IPB_UNIX_NAMED;
    result = connect_to_file(connect, *copy, target, is_named, &was_blocking);
    if (result == EAGAIN && was_blocking)
        return wait_for(notification, ipb_fd_steal(copy), ipb_fd_steal(&target), is_named,
                        ret_wait);
    return answer(notification, result);
}

static bool
connect_unix(const IpbUnixConnect *connect, IpbCaller *caller, const IpbNotification *notification,
             int *copy, const uint8_t *bytes, size_t size, IpbConnectWait *ret_wait)
{
    struct sockaddr_un address = {0};
    if (size < offsetof(struct sockaddr_un, sun_path) || size > sizeof address)
        return answer(notification, EINVAL);
    memcpy(&address, bytes, size);
    size_t path_size = size - offsetof(struct sockaddr_un, sun_path);
    if (address.sun_family != AF_UNIX)
        return answer(notification, EINVAL);
    if (path_size == 0 || address.sun_path[0] == '\0')
        return connect_as_is(connect, notification, copy, &address, (socklen_t) size, ret_wait);
    g_autofree char *path = g_strndup(address.sun_path, path_size);
    return connect_by_path(connect, caller, notification, copy, path, ret_wait);
}

/* Everything is taken from the caller. Then it is checked that it is still the one that asked. */
bool
ipb_unix_connect_perform(IpbUnixConnect *connect, IpbCallers *callers,
                         const IpbNotification *notification, IpbConnectWait *ret_wait)
{
    uint8_t bytes[IPB_CALLER_MAX_ADDRESS];
    size_t size = notification->args[2] & UINT32_MAX;
    IpbCaller *caller = ipb_callers_get(callers, notification->pid);
    if (caller == NULL)
        return answer(notification, EACCES);
    ipb_autofd copy = ipb_caller_copy_fd(caller, (int) notification->args[0]);
    int error = 0;
    if (copy < 0)
        error = errno;
    else if (size > sizeof bytes)
        error = EINVAL;
    else if (!ipb_caller_read(caller, notification->args[1], bytes, size))
        error = EFAULT;
    if (!ipb_notification_is_valid(notification))
        return false;
    int domain = AF_UNSPEC;
    socklen_t domain_size = sizeof domain;
    if (error == 0 && getsockopt(copy, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) < 0)
        error = errno;
    if (error != 0)
        return answer(notification, error);
    if (domain == AF_UNIX)
        return connect_unix(connect, caller, notification, &copy, bytes, size, ret_wait);
    return connect_as_is(connect, notification, &copy, bytes, (socklen_t) size, ret_wait);
}

/* --- connects under way ----------------------------------------------------------------------- */

void
ipb_connect_wait_end(IpbConnectWait *wait, int errno_value)
{
    ipb_notification_answer(&wait->notification, errno_value);
    ipb_fd_close(&wait->copy);
    ipb_fd_close(&wait->target);
}

bool
ipb_connect_wait_go_on(const IpbUnixConnect *connect, IpbCallers *callers, IpbConnectWait *wait,
                       bool is_ready)
{
    int result = EAGAIN;
    bool was_blocking = false;
    socklen_t size = sizeof result;
    if (wait->target >= 0)
        result = connect_to_file(connect, wait->copy, wait->target, wait->is_named, &was_blocking);
    else if (is_ready && getsockopt(wait->copy, SOL_SOCKET, SO_ERROR, &result, &size) < 0)
        result = errno;
    if (result == EAGAIN && g_get_monotonic_time() > wait->deadline_us)
        result = ETIMEDOUT;
    /* EAGAIN: neither ready nor too late. Is the caller still waiting? */
    if (result == EAGAIN && ipb_notification_is_valid(&wait->notification)) {
        const IpbCaller *caller = ipb_callers_get(callers, wait->notification.pid);
        if (caller != NULL && !ipb_caller_has_signal(caller))
            return false;
        result = EINTR;
    }
    ipb_connect_wait_end(wait, result);
    return true;
}
