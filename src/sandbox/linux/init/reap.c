/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of pid 1. It reaps processes, passes signals of the core on to the command, and ends
 * with the command or with the core. Of the children that it adopts, which are branches of kernels,
 * it reports the ends. When it ends, the system's kernel kills everything in its namespace. Signals
 * from inside do not reach it. In the weaker sandbox, which has no namespaces, it kills the other
 * processes itself.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

/* Returns a child of this process, which has one thread; -1: none. */
static pid_t
first_child(void)
{
    char text[32];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0)
        close(fd);
    pid_t pid = 0;
    for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; i++)
        pid = pid * 10 + (text[i] - '0');
    return pid > 0 ? pid : -1;
}

/* Without a pid namespace the kernel kills nothing with us. Orphans are re-parented to us; repeat
 * until no child remains. */
static void
kill_all(void)
{
    pid_t pid;
    while ((pid = first_child()) > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static void
end(const IpbInit *init, int status)
{
    if ((init->header->flags & IPB_BLOB_WEAKER) != 0)
        kill_all();
    _exit(status);
}

/* The place of a process that was adopted, or with 0 a free one; -1: there is none. */
static int
find_adopted(const IpbInit *init, pid_t pid)
{
    for (unsigned i = 0; i < IPB_INIT_MAX_ADOPTED; i++)
        if (init->adopted[i] == pid)
            return (int) i;
    return -1;
}

static void
report_reaped(IpbInit *init, pid_t pid, int status)
{
    int place = find_adopted(init, pid);
    if (place < 0)
        return;
    init->adopted[place] = 0;
    IpbPacket packet = {.type = IPB_PACKET_REAPED, .index = (uint32_t) pid, .value = status};
    ipb_report(init->control, &packet, -1);
}

/* A child keeps its pid until we reap it, so the pidfd is that of the child. */
static int
open_child(const IpbInit *init, pid_t pid)
{
    siginfo_t info;
    if (pid <= 0 || find_adopted(init, pid) >= 0) {
        errno = EEXIST;
        return -1;
    }
    if (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return -1;
    return (int) syscall(SYS_pidfd_open, pid, 0);
}

static void
adopt(IpbInit *init, pid_t pid)
{
    IpbPacket packet = {.type = IPB_PACKET_ADOPTED, .index = (uint32_t) pid};
    int place = find_adopted(init, 0);
    int pidfd = place >= 0 ? open_child(init, pid) : -1;
    if (pidfd < 0)
        packet.value = place >= 0 ? errno : ENOSPC;
    else
        init->adopted[place] = pid;
    ipb_report(init->control, &packet, pidfd);
    if (pidfd >= 0)
        close(pidfd);
}

static void
reap(IpbInit *init, pid_t command)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != command) {
            report_reaped(init, pid, status);
            continue;
        }
        IpbPacket packet = {.type = IPB_PACKET_EXITED, .value = status};
        ipb_report(init->control, &packet, -1);
        end(init, 0);
    }
}

/* Returns false if the core is gone. */
static bool
obey(IpbInit *init, pid_t command)
{
    IpbPacket packet;
    ssize_t n = recv(init->control, &packet, sizeof packet, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == sizeof packet && packet.type == IPB_PACKET_SIGNAL && command > 0) {
        bool leads_group = (init->header->flags & IPB_BLOB_KEEP_GROUP) == 0;
        kill(leads_group ? -command : command, packet.value);
    } else if (n == sizeof packet && packet.type == IPB_PACKET_ADOPT) {
        adopt(init, (pid_t) packet.index);
    }
    return n > 0;
}

void
ipb_reap_forever(IpbInit *init, pid_t command)
{
    struct pollfd fds[2] = {
        {.fd = init->control, .events = POLLIN},
        {.fd = init->child_ended, .events = POLLIN},
    };
    reap(init, command);
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            end(init, 1);
        if (fds[1].revents != 0) {
            struct signalfd_siginfo info;
            (void) !read(init->child_ended, &info, sizeof info);
            reap(init, command);
        }
        if (fds[0].revents != 0 && !obey(init, command))
            end(init, 0);
    }
}
