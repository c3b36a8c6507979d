/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets to the core. One that cannot be sent is dropped: then the core is gone, and pid 1 ends with the socket.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

bool
ipb_step_fail(IpbStepError *error, IpbStep step, uint32_t index)
{
    *error = (IpbStepError){step, errno, index};
    return false;
}

bool
ipb_report(int control, const IpbPacket *packet, int fd)
{
    struct iovec part = {(void *) packet, sizeof *packet};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &ancillary;
        message.msg_controllen = sizeof ancillary;
        struct cmsghdr *item = CMSG_FIRSTHDR(&message);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(item), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(control, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t) sizeof *packet;
}

void
ipb_report_failure(int control, const IpbStepError *error)
{
    IpbPacket packet = {.type = IPB_PACKET_FAILED, .error = *error};
    ipb_report(control, &packet, -1);
}
