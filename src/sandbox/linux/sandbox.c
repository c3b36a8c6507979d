/* SPDX-License-Identifier: Apache-2.0
 *
 * The Linux backend. A sandbox is a set of namespaces, and the small first process (pid 1) that
 * holds them. The program ipybox-sandbox-init (init/) makes both as its blob says, opens the
 * listeners inside and passes them out. Then it runs a command or waits for a kernel to enter. If
 * the IpbSandbox is freed or this process dies, pid 1 ends, and the system's kernel kills
 * everything inside.
 *
 * Two processes are ours to reap: the launcher, which ends soon, and pid 1, which the launcher
 * creates as a child of ours (CLONE_PARENT) and hands over as a pidfd. The sandbox has ended when
 * the control socket is closed and both are reaped. Pid 1's end waits for all processes inside.
 *
 * The weaker sandbox has neither namespaces nor a pid 1. Landlock and seccomp can restrict what is
 * written, but cannot hide anything, so plans that need more are refused.
 */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/exec-plan.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/installed-files.h"
#include "sandbox/backend.h"
#include "sandbox/linux/blob.h"
#include "sandbox/linux/cgroup.h"
#include "sandbox/linux/sandbox-user.h"
#include "sandbox/linux/init/protocol.h"
#include "sandbox/linux/mount-list.h"
#include "sandbox/linux/probe.h"
#include "sandbox/linux/step-error.h"
#include "sandbox/linux/supervisor.h"
#include "sandbox/path.h"

#define READY_TIMEOUT_MS 10000
/* How long freeing waits for the launcher, which is about to end, or for the first process of the
 * weaker sandbox. */
#define END_TIMEOUT_MS 200
/* Fds that are kept for later are duplicated to numbers from this on. */
#define FIRST_SAFE_FD 16

/* The launcher, or pid 1. */
typedef struct {
    int pidfd; /* -1: none, or reaped */
    IpbWatch *watch;
} Child;

struct IpbSandbox {
    IpbLoop *loop;
    IpbSandboxOptions options; /* callbacks only; the pointers are not kept */
    IpbSandboxPlan *plan;
    IpbSandboxUser user;
    GPtrArray *mounts;      /* IpbMount; NULL once it is ready */
    char **own_directories; /* the writable file systems of its own */
    IpbCgroup *cgroup;      /* NULL: there is none */
    char *command;
    int control, plan_fd;
    IpbWatch *control_watch;
    int channel, channel_theirs; /* of a sandbox that is entered: from kernels */
    IpbWatch *channel_watch;
    int diag_fd;
    GPtrArray *supervisors; /* IpbSupervisor, one for each command or kernel */
    IpbTimer *timer;
    Child launcher, init;
    int listeners[IPB_BLOB_MAX_LISTENERS];
    bool has_init; /* pid 1 was reported; it may have ended since */
    bool is_ready, has_ended;
    bool is_group_kept, is_weaker;
    bool judges_names; /* this system can; the weaker sandbox does not */
    int stdio[3];  /* -1: /dev/null. They are ours only while the weaker sandbox may be needed. */
    int weaker_fd; /* the weaker sandbox's plan, if it is allowed and possible */
    GError *weaker_failure; /* why the weaker sandbox is not possible */
    bool has_status;
    int wait_status;
    GError *failure; /* the first one */
};

static bool launch(IpbSandbox *sandbox, GError **error);
static void finish_if_over(IpbSandbox *sandbox);

/* --- our children ----------------------------------------------------------------------------- */

static void
on_child_ended(IpbSandbox *sandbox, Child *child)
{
    if (!ipb_pidfd_reap(child->pidfd))
        return;
    g_clear_pointer(&child->watch, ipb_watch_free);
    ipb_fd_close(&child->pidfd);
    finish_if_over(sandbox);
}

static void
on_launcher_ended(uint32_t events, void *data)
{
    IpbSandbox *sandbox = data;
    on_child_ended(sandbox, &sandbox->launcher);
}

static void
on_init_ended(uint32_t events, void *data)
{
    IpbSandbox *sandbox = data;
    on_child_ended(sandbox, &sandbox->init);
}

static void
kill_child(const Child *child)
{
    if (child->pidfd >= 0)
        ipb_pidfd_signal(child->pidfd, SIGKILL, NULL);
}

static void
free_cgroup(void *data)
{
    ipb_cgroup_free(data);
}

/* Kills and reaps it. If it does not end within @timeout_ms, it is reaped later, and the cgroup,
 * which can only be removed when it is empty, is freed then. Pid 1 ends after everything inside,
 * kernels included, which their forkserver must reap; then the system takes down its namespaces. */
static void
end_child(IpbSandbox *sandbox, Child *child, unsigned timeout_ms)
{
    g_clear_pointer(&child->watch, ipb_watch_free);
    if (child->pidfd < 0)
        return;
    kill_child(child);
    bool has_ended = timeout_ms == 0 || ipb_fd_wait(child->pidfd, POLLIN, timeout_ms);
    if (has_ended && ipb_pidfd_reap(child->pidfd))
        ipb_fd_close(&child->pidfd);
    else
        ipb_loop_reap(sandbox->loop, ipb_fd_steal(&child->pidfd), free_cgroup,
                      g_steal_pointer(&sandbox->cgroup));
}

/* --- the end ---------------------------------------------------------------------------------- */

static void
kill_all(IpbSandbox *sandbox)
{
    kill_child(&sandbox->init);
    kill_child(&sandbox->launcher);
}

static void
fail(IpbSandbox *sandbox, GError *error)
{
    if (sandbox->failure == NULL)
        sandbox->failure = error;
    else
        g_error_free(error);
    kill_all(sandbox);
}

static void
forget_weaker(IpbSandbox *sandbox)
{
    if (sandbox->weaker_fd < 0)
        return;
    ipb_fd_close(&sandbox->weaker_fd);
    for (size_t i = 0; i < G_N_ELEMENTS(sandbox->stdio); i++)
        ipb_fd_close(&sandbox->stdio[i]);
}

/* The full sandbox cannot be made here, and has ended. Returns true if the weaker one was
 * started. */
static bool
fall_back(IpbSandbox *sandbox)
{
    if (sandbox->is_weaker || sandbox->is_ready ||
        !g_error_matches(sandbox->failure, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE))
        return false;
    if (sandbox->weaker_failure != NULL) {
        g_autoptr(GError) failure = g_steal_pointer(&sandbox->failure);
        g_set_error(&sandbox->failure, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "%s. And %s",
                    failure->message, sandbox->weaker_failure->message);
    }
    if (sandbox->weaker_fd < 0)
        return false;
    sandbox->is_weaker = true;
    g_clear_error(&sandbox->failure);
    ipb_fd_close(&sandbox->control);
    ipb_fd_close(&sandbox->plan_fd);
    sandbox->plan_fd = ipb_fd_steal(&sandbox->weaker_fd);
    /* The launcher stays the first process. */
    sandbox->has_init = true;
    bool ok = launch(sandbox, &sandbox->failure);
    for (size_t i = 0; i < G_N_ELEMENTS(sandbox->stdio); i++)
        ipb_fd_close(&sandbox->stdio[i]);
    return ok;
}

static void
report_denials(IpbSandbox *sandbox)
{
    for (guint i = 0; i < sandbox->supervisors->len; i++)
        ipb_supervisor_report_denials(g_ptr_array_index(sandbox->supervisors, i));
}

/* May free the sandbox. */
static void
finish_if_over(IpbSandbox *sandbox)
{
    if (sandbox->has_ended || sandbox->control_watch != NULL || sandbox->launcher.pidfd >= 0 ||
        sandbox->init.pidfd >= 0 || fall_back(sandbox))
        return;
    sandbox->has_ended = true;
    report_denials(sandbox);
    g_clear_pointer(&sandbox->timer, ipb_timer_free);
    if (sandbox->failure == NULL && !sandbox->has_status)
        g_set_error_literal(&sandbox->failure, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                            "the sandbox's first process was killed");
    /* The callback may free the sandbox. If it does not, it can still ask why it ended. */
    g_autoptr(GError) failure = sandbox->failure != NULL ? g_error_copy(sandbox->failure) : NULL;
    if (sandbox->options.on_end != NULL)
        sandbox->options.on_end(sandbox, sandbox->wait_status, failure, sandbox->options.data);
}

/* --- what the init says ----------------------------------------------------------------------- */

static void
take_ready(IpbSandbox *sandbox)
{
    int listeners[IPB_BLOB_MAX_LISTENERS];
    size_t n = sandbox->plan->listeners->len;
    g_clear_pointer(&sandbox->timer, ipb_timer_free);
    sandbox->is_ready = true;
    g_clear_pointer(&sandbox->mounts, g_ptr_array_unref);
    forget_weaker(sandbox);
    for (size_t i = 0; i < n; i++)
        listeners[i] = ipb_fd_steal(&sandbox->listeners[i]);
    if (sandbox->options.on_ready != NULL)
        sandbox->options.on_ready(sandbox, listeners, n, sandbox->options.data);
    else
        for (size_t i = 0; i < n; i++)
            ipb_fd_close(&listeners[i]);
}

static void
on_denied(const IpbSandboxDenial *denial, void *data)
{
    IpbSandbox *sandbox = data;
    if (sandbox->options.on_denied != NULL)
        sandbox->options.on_denied(sandbox, denial, sandbox->options.data);
}

static void
on_supervisor_ended(IpbSupervisor *supervisor, void *data)
{
    IpbSandbox *sandbox = data;
    g_ptr_array_remove_fast(sandbox->supervisors, supervisor);
}

static void
tell_unnamed(IpbSandbox *sandbox)
{
    if (sandbox->options.on_unnamed != NULL)
        sandbox->options.on_unnamed(sandbox,
                                    "Linux 5.19 or later is needed to judge the names of files: "
                                    "only protected files that exist are protected",
                                    sandbox->options.data);
}

/* Is a directory of the host writable in a place of the sandbox's own? There, Landlock cannot tell
 * one from the other: what it allows at a directory, it allows below. */
static bool
has_writable_in_own(const IpbSandbox *sandbox)
{
    const GPtrArray *rules = sandbox->plan->paths->sorted;
    for (guint i = 0; i < rules->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(rules, i);
        if (rule->access.view != IPB_VIEW_HOST || !rule->access.is_writable)
            continue;
        for (char **own = sandbox->own_directories; *own != NULL; own++)
            if (ipb_path_is_below(rule->path, *own))
                return true;
    }
    return false;
}

/* If no supervisor answers, the process waits in its first call. */
static void
take_notify(IpbSandbox *sandbox, int notify_fd, bool has_names)
{
    GError *error = NULL;
    /* Its mounts are those of a sandbox whose names are judged. */
    if (!has_names && sandbox->judges_names && !sandbox->is_weaker) {
        ipb_fd_close(&notify_fd);
        fail(sandbox, g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                                          "the system's kernel does not let ipybox judge names, "
                                          "although it has said so"));
        return;
    }
    IpbSupervisor *supervisor =
        ipb_supervisor_new(sandbox->loop,
                           &(IpbSupervisorOptions){
                               .notify_fd = notify_fd,
                               .diag_fd = sandbox->diag_fd,
                               .plan = sandbox->plan,
                               .own_directories = (const char *const *) sandbox->own_directories,
                               .user = sandbox->user,
                               .are_sockets_confined = has_names && ipb_linux_has_landlock() &&
                                                       !has_writable_in_own(sandbox),
                               .on_denied = on_denied,
                               .on_ended = on_supervisor_ended,
                               .data = sandbox,
                           },
                           &error);
    if (supervisor == NULL)
        fail(sandbox, error);
    else
        g_ptr_array_add(sandbox->supervisors, supervisor);
    if (!has_names && !sandbox->is_weaker)
        tell_unnamed(sandbox);
}

static bool
are_listeners_there(const IpbSandbox *sandbox)
{
    for (guint i = 0; i < sandbox->plan->listeners->len; i++)
        if (sandbox->listeners[i] < 0)
            return false;
    return sandbox->has_init;
}

/* The number here of a process of which pid 1 has sent a pidfd. */
static bool
find_adopted(const IpbSandbox *sandbox, const IpbPacket *packet, int pidfd, pid_t *ret_pid,
             GError **error)
{
    if (pidfd < 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "the sandbox has no such process: %s",
                    packet->value != 0 ? g_strerror(packet->value) : "no descriptor came");
        return false;
    }
    *ret_pid = ipb_pidfd_pid(pidfd);
    if (*ret_pid > 0)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                        "the process in the sandbox has ended");
    return false;
}

static bool
take_adopted(IpbSandbox *sandbox, const IpbPacket *packet, int *fd)
{
    g_autoptr(GError) error = NULL;
    pid_t pid = 0;
    if (sandbox->options.on_adopted == NULL)
        return false;
    bool ok = find_adopted(sandbox, packet, *fd, &pid, &error);
    sandbox->options.on_adopted(sandbox, (pid_t) packet->index, pid, ok ? ipb_fd_steal(fd) : -1,
                                error, sandbox->options.data);
    return true;
}

/* @fd: the fd that came with the packet, or -1; taken over if it is used. May free the sandbox.
 * Returns false if the packet is not expected now. */
static bool
take_packet(IpbSandbox *sandbox, const IpbPacket *packet, int *fd)
{
    GError *error = NULL;
    switch ((IpbPacketType) packet->type) {
    case IPB_PACKET_INIT:
        if (*fd < 0 || sandbox->has_init)
            return false;
        sandbox->has_init = true;
        sandbox->init.pidfd = ipb_fd_steal(fd);
        sandbox->init.watch = ipb_watch_new(sandbox->loop, sandbox->init.pidfd, EPOLLIN,
                                            on_init_ended, sandbox, &error);
        if (sandbox->init.watch == NULL)
            fail(sandbox, error);
        return true;
    case IPB_PACKET_LISTENER:
        if (*fd < 0 || packet->index >= sandbox->plan->listeners->len)
            return false;
        sandbox->listeners[packet->index] = ipb_fd_steal(fd);
        return true;
    case IPB_PACKET_READY:
        if (sandbox->is_ready || !are_listeners_there(sandbox))
            return false;
        take_ready(sandbox);
        return true;
    case IPB_PACKET_EXITED:
        sandbox->has_status = true;
        sandbox->wait_status = packet->value;
        return true;
    case IPB_PACKET_FAILED:
        ipb_step_error_set(&error, &packet->error,
                           &(IpbStepContext){sandbox->plan, sandbox->mounts, sandbox->command});
        fail(sandbox, error);
        return true;
    case IPB_PACKET_DIAG:
        if (*fd < 0 || sandbox->diag_fd >= 0)
            return false;
        sandbox->diag_fd = ipb_fd_steal(fd);
        return true;
    case IPB_PACKET_NOTIFY:
        if (*fd < 0)
            return false;
        take_notify(sandbox, ipb_fd_steal(fd), packet->value != 0);
        return true;
    case IPB_PACKET_UNNAMED:
        tell_unnamed(sandbox);
        return true;
    case IPB_PACKET_ADOPTED:
        return take_adopted(sandbox, packet, fd);
    case IPB_PACKET_REAPED:
        if (sandbox->options.on_reaped != NULL)
            sandbox->options.on_reaped(sandbox, (pid_t) packet->index, packet->value,
                                       sandbox->options.data);
        return true;
    case IPB_PACKET_SIGNAL:
    case IPB_PACKET_ADOPT:
        break;
    }
    return false;
}

/* Reads one packet at a time, since its callback may free the sandbox. */
static void
on_control(uint32_t events, void *data)
{
    IpbSandbox *sandbox = data;
    IpbPacket packet;
    size_t n_fds = 0;
    ipb_autofd fd = -1;
    ssize_t n = ipb_fd_receive(sandbox->control, &packet, sizeof packet, &fd, 1, &n_fds);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n_fds == 0)
        fd = -1;
    if (n <= 0) {
        g_clear_pointer(&sandbox->control_watch, ipb_watch_free);
        finish_if_over(sandbox);
    } else if (n != sizeof packet) {
        fail(sandbox, g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                                          "the sandbox's init sent a broken packet"));
    } else if (!take_packet(sandbox, &packet, &fd)) {
        fail(sandbox, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                                  "the sandbox's init sent packet %u out of turn", packet.type));
    }
}

/* The forkserver sends for kernels that entered: listeners of notifications, or that there is
 * none. */
static void
on_channel(uint32_t events, void *data)
{
    IpbSandbox *sandbox = data;
    IpbPacket packet;
    size_t n_fds = 0;
    int fd = -1;
    ssize_t n = ipb_fd_receive(sandbox->channel, &packet, sizeof packet, &fd, 1, &n_fds);
    if (n_fds == 1 && n == sizeof packet && packet.type == IPB_PACKET_NOTIFY)
        take_notify(sandbox, fd, packet.value != 0);
    else if (n_fds == 0 && n == sizeof packet && packet.type == IPB_PACKET_UNNAMED)
        tell_unnamed(sandbox);
    else if (n_fds == 1)
        ipb_fd_close(&fd);
}

static void
on_ready_timeout(void *data)
{
    IpbSandbox *sandbox = data;
    g_clear_pointer(&sandbox->timer, ipb_timer_free);
    fail(sandbox, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                              "the sandbox was not made within %d s", READY_TIMEOUT_MS / 1000));
}

/* --- the beginning ---------------------------------------------------------------------------- */

static char *
find_ours(const char *file, GError **error)
{
    static const char *const PLACES[] = {
        ".",                    /* build tree */
        "../..",                /* tests in the build tree */
        "../libexec/ipybox",    /* prefix: the program is in bin */
        "../../libexec/ipybox", /* the library is in lib/<triplet> */
        IPB_INSTALLED_FILES_WHEEL "/libexec",
        IPB_INSTALLED_FILES_WHEEL_TARGET "/libexec",
        NULL,
    };
    return ipb_installed_files_find(PLACES, file, "sandbox", error);
}

static char *
find_entry_library(GError **error)
{
    return find_ours("ipybox-enter.so", error);
}

static bool
spawn(IpbSandbox *sandbox, int control, GError **error)
{
    /* Code inside can read the environment of pid 1, so nothing of ours is in it. It is not empty,
     * because a process without an environment may be one that executes a program: who looks for
     * processes by their environments (kernel/orphans.c) would look again and again. */
    static const char *const ARGV[] = {"ipybox-sandbox-init", NULL};
    static const char *const ENV[] = {"IPYBOX_SANDBOX=1", NULL};
    g_autofree char *path = find_ours(ARGV[0], error);
    ipb_autofd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (path == NULL)
        return false;
    if (null_fd < 0)
        return ipb_error_set_errno(error, errno, "cannot open /dev/null");
    IpbExecPlan plan = {
        .path = path,
        .argv = ARGV,
        .envp = ENV,
        .fds =
            {
                sandbox->stdio[0] >= 0 ? sandbox->stdio[0] : null_fd,
                sandbox->stdio[1] >= 0 ? sandbox->stdio[1] : null_fd,
                sandbox->stdio[2] >= 0 ? sandbox->stdio[2] : null_fd,
                control,
                sandbox->plan_fd,
                sandbox->cgroup != NULL ? ipb_cgroup_join_fd(sandbox->cgroup) : null_fd,
            },
        .is_group_kept = sandbox->is_group_kept,
    };
    pid_t pid;
    if (!ipb_exec_plan_start(sandbox->loop, &plan, &pid, &sandbox->launcher.pidfd, error))
        return false;
    sandbox->launcher.watch = ipb_watch_new(sandbox->loop, sandbox->launcher.pidfd, EPOLLIN,
                                            on_launcher_ended, sandbox, error);
    return sandbox->launcher.watch != NULL;
}

static bool
open_channel(IpbSandbox *sandbox, GError **error)
{
    int pair[2];
    if (!ipb_fd_socketpair(SOCK_SEQPACKET, pair, error))
        return false;
    sandbox->channel = pair[0];
    sandbox->channel_theirs = pair[1];
    sandbox->channel_watch =
        ipb_watch_new(sandbox->loop, sandbox->channel, EPOLLIN, on_channel, sandbox, error);
    return sandbox->channel_watch != NULL;
}

static bool
launch(IpbSandbox *sandbox, GError **error)
{
    int pair[2];
    if (!ipb_fd_socketpair(SOCK_SEQPACKET, pair, error))
        return false;
    ipb_autofd theirs = pair[1];
    sandbox->control = pair[0];
    if (!ipb_fd_set_nonblocking(sandbox->control, true, error))
        return false;
    sandbox->control_watch =
        ipb_watch_new(sandbox->loop, sandbox->control, EPOLLIN, on_control, sandbox, error);
    if (sandbox->control_watch == NULL || !spawn(sandbox, theirs, error))
        return false;
    sandbox->timer = ipb_timer_new(sandbox->loop, READY_TIMEOUT_MS, on_ready_timeout, sandbox);
    return true;
}

static bool
refuse_weaker(GError **error, const char *why)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "the weaker sandbox %s", why);
    return false;
}

/* Can the weaker sandbox carry out the plan? UNAVAILABLE says which key prevents it. */
static bool
check_weaker(const IpbSandbox *sandbox, GError **error)
{
    const IpbSandboxPlan *plan = sandbox->plan;
    if (sandbox->user.is_root_mapped)
        return refuse_weaker(error, "is not available to root, whose secrets it could not protect");
    if (plan->listeners->len > 0)
        return refuse_weaker(error, "has no network: network.allowedDomains must be empty");
    if (plan->policy->deny_read[0] != NULL)
        return refuse_weaker(error, "cannot hide anything: filesystem.denyRead must be empty");
    if (plan->policy->deny_write[0] != NULL)
        return refuse_weaker(error, "cannot protect anything within a writable directory: "
                                    "filesystem.denyWrite must be empty");
    return true;
}

/* Prepares it now, because the options are gone when it is needed. */
static bool
prepare_weaker(IpbSandbox *sandbox, const IpbSandboxOptions *options, GError **error)
{
    if (!check_weaker(sandbox, &sandbox->weaker_failure))
        return true;
    sandbox->weaker_fd = ipb_blob_new(options, sandbox->mounts, &sandbox->user, true, error);
    if (sandbox->weaker_fd < 0)
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(sandbox->stdio); i++) {
        if (sandbox->stdio[i] >= 0)
            sandbox->stdio[i] = ipb_fd_duplicate(sandbox->stdio[i], FIRST_SAFE_FD);
    }
    return true;
}

/* --- freeing ---------------------------------------------------------------------------------- */

/* If the launcher were killed between creating pid 1 and reporting it, we would have an unknown
 * child. So let it finish, which takes 1 ms. */
static void
await_init(IpbSandbox *sandbox)
{
    if (sandbox->launcher.pidfd < 0 || sandbox->has_init || sandbox->control < 0)
        return;
    ipb_fd_wait(sandbox->launcher.pidfd, POLLIN, END_TIMEOUT_MS);
    IpbPacket packet;
    size_t n_fds = 0;
    int fd = -1;
    if (ipb_fd_receive(sandbox->control, &packet, sizeof packet, &fd, 1, &n_fds) == sizeof packet &&
        n_fds == 1 && packet.type == IPB_PACKET_INIT)
        sandbox->init.pidfd = fd;
    else if (n_fds == 1)
        ipb_fd_close(&fd);
}

/* The first process of the weaker sandbox kills the others when the control socket is closed. If it
 * were killed, it could not. */
static void
end_weaker(IpbSandbox *sandbox)
{
    ipb_fd_close(&sandbox->control);
    struct pollfd item = {.fd = sandbox->launcher.pidfd, .events = POLLIN};
    if (sandbox->is_weaker && item.fd >= 0)
        poll(&item, 1, END_TIMEOUT_MS);
}

static void
stop(IpbSandbox *sandbox)
{
    g_clear_pointer(&sandbox->control_watch, ipb_watch_free);
    g_clear_pointer(&sandbox->channel_watch, ipb_watch_free);
    g_clear_pointer(&sandbox->timer, ipb_timer_free);
    await_init(sandbox);
    end_weaker(sandbox);
    end_child(sandbox, &sandbox->launcher, END_TIMEOUT_MS);
    /* Not even a short wait: a server may end a thousand sandboxes, one after the other. */
    end_child(sandbox, &sandbox->init, 0);
    g_clear_pointer(&sandbox->cgroup, ipb_cgroup_free);
    g_ptr_array_unref(sandbox->supervisors);
    forget_weaker(sandbox);
    g_clear_error(&sandbox->weaker_failure);
    ipb_fd_close(&sandbox->plan_fd);
    ipb_fd_close(&sandbox->diag_fd);
    ipb_fd_close(&sandbox->channel);
    ipb_fd_close(&sandbox->channel_theirs);
    for (size_t i = 0; i < G_N_ELEMENTS(sandbox->listeners); i++)
        ipb_fd_close(&sandbox->listeners[i]);
    g_clear_error(&sandbox->failure);
    g_clear_pointer(&sandbox->mounts, g_ptr_array_unref);
    g_strfreev(sandbox->own_directories);
    ipb_sandbox_plan_unref(sandbox->plan);
    g_free(sandbox->command);
    ipb_loop_unref(sandbox->loop);
    g_free(sandbox);
}

/* --- setting it up ---------------------------------------------------------------------------- */

static char **
find_own_directories(const GPtrArray *mounts)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (guint i = 0; i < mounts->len; i++) {
        const IpbMount *mount = g_ptr_array_index(mounts, i);
        if (mount->kind == IPB_MOUNT_TMPFS)
            g_strv_builder_add(builder, mount->target);
    }
    return g_strv_builder_end(builder);
}

/* Where names are not judged, what the search for protected files did not find is not protected. */
static bool
check_search(const IpbSandbox *sandbox, GError **error)
{
    if (sandbox->judges_names || sandbox->plan->is_search_complete)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                        "the writable directories have too many files to find those that must be "
                        "protected. Linux 5.19 or later protects them without a search; here, a "
                        "smaller mandatoryDenySearchDepth or fewer writable directories help");
    return false;
}

/* Only names that are judged keep hidden files hidden in an overlay, whatever is renamed in it. */
static bool
check_layer(const IpbSandbox *sandbox, const IpbSandboxOptions *options, GError **error)
{
    if (sandbox->plan->layer == NULL)
        return true;
    const char *problem = NULL;
    if (!sandbox->judges_names)
        problem = "Linux 5.19 or later is needed";
    else if (options->is_weaker_allowed)
        problem = "the weaker sandbox has no mounts of its own";
    if (problem != NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "the workspace cannot be staged: %s", problem);
    return problem == NULL;
}

static bool
set_up(IpbSandbox *sandbox, const IpbSandboxOptions *options, GError **error)
{
    const int stdio[] = {options->stdin_fd, options->stdout_fd, options->stderr_fd};
    memcpy(sandbox->stdio, stdio, sizeof stdio);
    sandbox->is_group_kept = options->is_group_kept;
    sandbox->judges_names = ipb_linux_judges_names();
    if (!check_search(sandbox, error) || !check_layer(sandbox, options, error))
        return false;
    sandbox->mounts = ipb_mount_list_new(options->plan, sandbox->judges_names, error);
    if (sandbox->mounts == NULL)
        return false;
    sandbox->own_directories = find_own_directories(sandbox->mounts);
    sandbox->plan_fd = ipb_blob_new(options, sandbox->mounts, &sandbox->user, false, error);
    if (sandbox->plan_fd < 0 || (options->argv == NULL && !open_channel(sandbox, error)))
        return false;
    sandbox->cgroup = ipb_cgroup_new(&options->plan->limits);
    bool has_weaker = options->is_weaker_allowed && options->argv != NULL;
    return !has_weaker || prepare_weaker(sandbox, options, error);
}

static IpbSandbox *
prepare(IpbLoop *loop, const IpbSandboxOptions *options, GError **error)
{
    if (options->plan->listeners->len > IPB_BLOB_MAX_LISTENERS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "more than %u listeners",
                    IPB_BLOB_MAX_LISTENERS);
        return NULL;
    }
    IpbSandbox *sandbox = g_new0(IpbSandbox, 1);
    sandbox->loop = ipb_loop_ref(loop);
    sandbox->options = (IpbSandboxOptions){.on_ready = options->on_ready,
                                           .on_end = options->on_end,
                                           .on_denied = options->on_denied,
                                           .on_unnamed = options->on_unnamed,
                                           .on_adopted = options->on_adopted,
                                           .on_reaped = options->on_reaped,
                                           .data = options->data};
    sandbox->plan = ipb_sandbox_plan_ref((IpbSandboxPlan *) options->plan);
    sandbox->user = ipb_sandbox_user_choose();
    sandbox->command = options->argv != NULL ? g_strdup(options->argv[0]) : NULL;
    sandbox->control = sandbox->plan_fd = sandbox->diag_fd = -1;
    sandbox->channel = sandbox->channel_theirs = sandbox->weaker_fd = -1;
    sandbox->supervisors = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_supervisor_free);
    sandbox->launcher.pidfd = sandbox->init.pidfd = -1;
    memset(sandbox->listeners, 0xff, sizeof sandbox->listeners);
    if (!set_up(sandbox, options, error))
        g_clear_pointer(&sandbox, stop);
    return sandbox;
}

/* --- while it runs ---------------------------------------------------------------------------- */

static bool
is_weaker(const IpbSandbox *sandbox)
{
    return sandbox->is_weaker;
}

static bool
kill_inside(IpbSandbox *sandbox)
{
    if (!sandbox->is_ready || sandbox->has_ended)
        return false;
    kill_all(sandbox);
    return true;
}

static void
send_signal(IpbSandbox *sandbox, int signal_number)
{
    IpbPacket packet = {.type = IPB_PACKET_SIGNAL, .value = signal_number};
    if (sandbox->is_ready && sandbox->control_watch != NULL)
        ipb_fd_send(sandbox->control, &packet, sizeof packet, NULL, 0);
}

static bool
adopt(IpbSandbox *sandbox, pid_t pid_inside, GError **error)
{
    IpbPacket packet = {.type = IPB_PACKET_ADOPT, .index = (uint32_t) pid_inside};
    if (!sandbox->is_ready || sandbox->control_watch == NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "the sandbox has ended");
        return false;
    }
    return ipb_fd_send(sandbox->control, &packet, sizeof packet, NULL, 0) == sizeof packet ||
           ipb_error_set_errno(error, errno, "cannot ask the sandbox for a process");
}

static const GError *
failure_of(const IpbSandbox *sandbox)
{
    return sandbox->failure;
}

/* Returns three fds. First pid 1, whose namespaces setns() joins. Then the plan in its sealed
 * memory file, for the restrictions that each process makes for itself (ids, capabilities, limits,
 * Landlock, seccomp). Last a socket, over which the process sends us the listener of its seccomp
 * notifications. The forkserver passes them to ipb_enter_fork() of the library (init/enter.c). */
static IpbSandboxEntry
entry_of(const IpbSandbox *sandbox)
{
    if (!sandbox->is_ready)
        return (IpbSandboxEntry){{-1, -1, -1}};
    return (IpbSandboxEntry){{sandbox->init.pidfd, sandbox->plan_fd, sandbox->channel_theirs}};
}

static bool
add_process(const IpbSandbox *sandbox, pid_t pid, GError **error)
{
    return sandbox->cgroup == NULL || ipb_cgroup_add(sandbox->cgroup, pid, error);
}

static int
open_workspace(const IpbSandbox *sandbox, IpbLayerUser *ret_user, GError **error)
{
    pid_t pid = sandbox->init.pidfd >= 0 ? ipb_pidfd_pid(sandbox->init.pidfd) : 0;
    g_autofree char *root = g_strdup_printf("/proc/%d/root", (int) pid);
    ipb_autofd inside = pid > 0 ? open(root, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS,
    };
    *ret_user = (IpbLayerUser){sandbox->user.outer_uid, sandbox->user.outer_gid};
    int fd = inside >= 0
                 ? (int) syscall(SYS_openat2, inside, sandbox->plan->workspace, &how, sizeof how)
                 : -1;
    if (fd < 0)
        ipb_error_set_errno(error, errno, "cannot open the workspace in the sandbox");
    return fd;
}

static char *
describe_limit(const IpbSandbox *sandbox, int wait_status)
{
    const IpbSandboxLimits *limits = &sandbox->plan->limits;
    /* A shell reports the end of its last command like this. */
    bool is_killed = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) == SIGKILL
                                              : WEXITSTATUS(wait_status) == 128 + SIGKILL;
    if (is_killed && sandbox->cgroup != NULL && ipb_cgroup_has_run_out(sandbox->cgroup))
        return g_strdup_printf("the processes in the sandbox used up its memory: limits.memory is "
                               "%" G_GUINT64_FORMAT " bytes",
                               limits->memory_bytes);
    return ipb_sandbox_limits_describe_end(limits, wait_status);
}

/* --- explaining a plan ------------------------------------------------------------------------ */

static const char *const MOUNT_NAMES[] = {
    [IPB_MOUNT_READ_ONLY] = "read-only", [IPB_MOUNT_WRITABLE] = "writable",
    [IPB_MOUNT_TMPFS] = "private",       [IPB_MOUNT_HIDE_DIR] = "hidden",
    [IPB_MOUNT_HIDE_FILE] = "hidden",    [IPB_MOUNT_FILE] = "file",
    [IPB_MOUNT_PROC] = "proc",           [IPB_MOUNT_DEV] = "dev",
    [IPB_MOUNT_DEVPTS] = "devpts",       [IPB_MOUNT_LAYER] = "layer",
    [IPB_MOUNT_STAGED] = "staged",
};

static bool
explain(const IpbSandboxPlan *plan, IpbSandboxDetails *ret_details, GError **error)
{
    GPtrArray *mounts = ipb_mount_list_new(plan, ipb_linux_judges_names(), error);
    if (mounts == NULL)
        return false;
    GArray *paths = g_array_new(FALSE, FALSE, sizeof(IpbSandboxPathDetail));
    for (guint i = 0; i < mounts->len; i++) {
        const IpbMount *mount = g_ptr_array_index(mounts, i);
        g_array_append_val(paths, ((IpbSandboxPathDetail){
                                      .kind = MOUNT_NAMES[mount->kind],
                                      .path = mount->target,
                                      .content = mount->content,
                                      .reason = mount->reason,
                                      .has_size = mount->kind == IPB_MOUNT_TMPFS,
                                      .size_bytes = mount->size_bytes,
                                  }));
    }
    *ret_details = (IpbSandboxDetails){
        .paths = paths,
        .limit_group = ipb_cgroup_find_delegated(),
        .owner = mounts,
    };
    return true;
}

/* --- the backend ------------------------------------------------------------------------------ */

static const char *const WEAKER_GAPS[] = {
    "files that a full sandbox protects (.git/hooks, .env, .bashrc, …) can be written in "
    "writable directories",
    "everything that the user can read can be read",
    "other processes of the user can be seen and, before Linux 6.12, signalled",
    "/tmp, /run and /dev/shm are the host's, and not writable",
    "there is no network at all, no terminal of its own, and no Unix socket can be connected to",
    "limits.processes has no effect",
    "a process that kills the sandbox's first process can survive its end",
    NULL,
};

const IpbSandboxBackend IPB_SANDBOX_BACKEND = {
    .probe = ipb_linux_probe,
    .prepare = prepare,
    .start = launch,
    .stop = stop,
    .explain = explain,
    .is_weaker = is_weaker,
    .kill = kill_inside,
    .signal = send_signal,
    .failure = failure_of,
    .describe_limit = describe_limit,
    .find_entry_library = find_entry_library,
    .entry = entry_of,
    .add_process = add_process,
    .adopt = adopt,
    .open_workspace = open_workspace,
    .report_denials = report_denials,
    .weaker_gaps = WEAKER_GAPS,
};
