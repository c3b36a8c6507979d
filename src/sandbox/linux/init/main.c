/* SPDX-License-Identifier: Apache-2.0
 *
 * ipybox-sandbox-init makes the namespaces of one sandbox as its blob says, and is pid 1 in them.
 * src/sandbox/linux/sandbox.c starts it with the control socket and the blob as fds 3 and 4. init.h
 * describes the order of steps.
 */
#include "sandbox/linux/init/init.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

/* Not on the stack, because its tables are large. */
static IpbInit init;

static void
fail(const IpbStepError *error)
{
    ipb_report_failure(init.control, error);
    _exit(1);
}

static bool
set_host_name(IpbStepError *error)
{
    const char *name = ipb_blob_string(init.bytes, init.header->hostname);
    return name == NULL || (init.header->flags & IPB_BLOB_WEAKER) != 0 ||
           sethostname(name, strlen(name)) == 0 || ipb_step_fail(error, IPB_STEP_HOSTNAME, 0);
}

/* This comes before the command is forked, or its end could be missed. Pid 1 handles no other
 * signal: without a handler no signal reaches it. */
static bool
open_signals(IpbStepError *error)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
    init.child_ended = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return init.child_ended >= 0 || ipb_step_fail(error, IPB_STEP_PREPARE, 0);
}

/* This comes before anything is forked, so that all processes are in the group, and the cgroup
 * namespace starts there. */
static bool
enter_cgroup(IpbStepError *error)
{
    bool ok = write(IPB_INIT_CGROUP_FD, "0", 1) == 1 || ipb_step_fail(error, IPB_STEP_CGROUP, 0);
    close(IPB_INIT_CGROUP_FD);
    return ok;
}

int
main(void)
{
    IpbStepError error = {0};
    pid_t command = 0;
    init.control = IPB_INIT_CONTROL_FD;
    if (fcntl(IPB_INIT_CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(IPB_INIT_BLOB_FD, F_SETFD, FD_CLOEXEC) < 0)
        return 2; /* not started by ipybox */
    sys_close_range(IPB_INIT_CGROUP_FD + 1, ~0u);
    memset(init.trees, 0xff, sizeof init.trees);
    if (!ipb_blob_map(IPB_INIT_BLOB_FD, &init.bytes, &error))
        fail(&error);
    init.header = (const IpbBlobHeader *) init.bytes;
    close(IPB_INIT_BLOB_FD);
    /* Each mount that the host's root opens needs an fd, too. */
    ipb_lockdown_allow_many_fds();
    if (!enter_cgroup(&error) || !ipb_outer_enter(&init, &error))
        fail(&error);
    /* Here this is pid 1. In the weaker sandbox it is an ordinary process, to which orphans are
     * re-parented nevertheless. */
    if ((init.header->flags & IPB_BLOB_WEAKER) != 0 &&
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        ipb_step_fail(&error, IPB_STEP_PREPARE, 0);
        fail(&error);
    }
    if (!open_signals(&error) || !ipb_lockdown_become(init.bytes, &error) ||
        !ipb_counters_open(&init, &error) || !set_host_name(&error) ||
        !ipb_network_set_up(&init, &error) || !ipb_mounts_build(&init, &error) ||
        !ipb_counters_limit(&init, &error))
        fail(&error);
    if (init.header->argv.count > 0 && !ipb_command_start(&init, &command, &error))
        fail(&error);
    if (!ipb_lockdown_init(init.bytes, &error))
        fail(&error);
    IpbPacket ready = {.type = IPB_PACKET_READY};
    ipb_report(init.control, &ready, -1);
    ipb_reap_forever(&init, command);
}
