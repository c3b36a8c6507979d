/* SPDX-License-Identifier: Apache-2.0
 *
 * The launcher, on the host's side. It creates the namespaces and their first process in one
 * clone3, writes the id maps and exits. In one call the user namespace is created first and owns
 * the others; otherwise /proc could not be mounted. CLONE_PARENT makes pid 1 a child of the core,
 * which reaps it.
 *
 * This program creates the user namespace, not ipybox or Python, because distributions that
 * restrict user namespaces do so for each executable (data/apparmor).
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <grp.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

#define ALL_NAMESPACES                                                                             \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |     \
     CLONE_NEWCGROUP)

/* Pid 1 waits here until its ids are mapped. End of file means that the launcher failed, and
 * reported why. */
static void
wait_for_maps(int gate)
{
    char byte;
    ssize_t n;
    do
        n = read(gate, &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n != 1)
        _exit(1);
    close(gate);
}

static void
finish_outside(const IpbInit *init, pid_t pid, int pidfd, int gate)
{
    const IpbBlobHeader *header = init->header;
    IpbStepError error = {0};
    IpbPacket packet = {.type = IPB_PACKET_INIT};
    if (!ipb_report(init->control, &packet, pidfd))
        _exit(1); /* the core is gone; the gate closes, and pid 1 exits, too */
    if (!ipb_idmap_write(pid, header->inner_uid, header->outer_uid, header->inner_gid,
                         header->outer_gid)) {
        ipb_step_fail(&error, IPB_STEP_ID_MAPS, 0);
        ipb_report_failure(init->control, &error);
        _exit(1);
    }
    (void) !write(gate, "", 1);
    _exit(0);
}

static bool
clone_inside(IpbInit *init, IpbStepError *error)
{
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) < 0)
        return ipb_step_fail(error, IPB_STEP_PREPARE, 0);
    int pidfd = -1;
    struct clone_args args = {
        .flags = ALL_NAMESPACES | CLONE_PARENT | CLONE_PIDFD,
        .pidfd = (uint64_t) (uintptr_t) &pidfd,
    };
    pid_t pid = sys_clone3(&args);
    if (pid < 0)
        return ipb_step_fail(error, IPB_STEP_NAMESPACES, 0);
    if (pid == 0) {
        close(gate[1]);
        wait_for_maps(gate[0]);
        return true;
    }
    close(gate[0]);
    finish_outside(init, pid, pidfd, gate[1]);
    return true;
}

bool
ipb_outer_enter(IpbInit *init, IpbStepError *error)
{
    if ((init->header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    if ((init->header->flags & IPB_BLOB_MAP_ROOT) != 0) {
        /* Root's groups would remain as groups that no map names, and inside they could not be
         * dropped. */
        if (setgroups(0, NULL) < 0)
            return ipb_step_fail(error, IPB_STEP_PREPARE, 0);
        if (!ipb_idmap_open_trees(init, error))
            return false;
    }
    return clone_inside(init, error);
}
