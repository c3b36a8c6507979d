/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/notification.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/seccomp.h>

#include "base/fd.h"

/* Larger than the struct of any kernel so far. */
#define MAX_NOTIFICATION 256

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

IpbNotificationState
ipb_notification_receive(int notify_fd, IpbNotification *ret_notification)
{
    union {
        struct seccomp_notif request;
        char space[MAX_NOTIFICATION];
    } room = {0};
    if (ioctl(notify_fd, SECCOMP_IOCTL_NOTIF_RECV, &room.request) < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOENT ? IPB_NOTIFICATION_NONE
                                                                    : IPB_NOTIFICATION_ENDED;
    *ret_notification = (IpbNotification){
        .notify_fd = notify_fd,
        .id = room.request.id,
        .pid = (pid_t) room.request.pid,
        .number = room.request.data.nr,
    };
    for (size_t i = 0; i < sizeof ret_notification->args / sizeof *ret_notification->args; i++)
        ret_notification->args[i] = room.request.data.args[i];
    return IPB_NOTIFICATION_RECEIVED;
}

bool
ipb_notification_is_valid(const IpbNotification *notification)
{
    return ioctl(notification->notify_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &notification->id) == 0;
}

static void
respond(const IpbNotification *notification, int64_t value, int errno_value, uint32_t flags)
{
    struct seccomp_notif_resp response = {
        .id = notification->id, .val = value, .error = -errno_value, .flags = flags};
    /* ENOENT: the caller was killed in the meantime. */
    ioctl(notification->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

void
ipb_notification_answer(const IpbNotification *notification, int errno_value)
{
    respond(notification, 0, errno_value, 0);
}

void
ipb_notification_continue(const IpbNotification *notification)
{
    respond(notification, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

void
ipb_notification_inject(const IpbNotification *notification, int fd, bool is_closed_first,
                        bool close_on_exec)
{
    struct seccomp_notif_addfd request = {
        .id = notification->id,
        .flags = is_closed_first ? 0 : SECCOMP_ADDFD_FLAG_SEND,
        .srcfd = (uint32_t) fd,
        .newfd_flags = close_on_exec ? O_CLOEXEC : 0,
    };
    int number = ioctl(notification->notify_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &request);
    int failure = number < 0 ? errno : 0;
    ipb_fd_close(&fd);
    /* EMFILE: the caller's limit. ENOENT: the caller was killed. */
    if (failure != 0 || is_closed_first)
        respond(notification, failure != 0 ? 0 : number, failure, 0);
}

void
ipb_notification_share_processor(int notify_fd)
{
    ioctl(notify_fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
}
