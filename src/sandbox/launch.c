/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts ipybox-sandbox-init and follows it; see the header.
 *
 * Two processes are ours to reap: the launcher, which is soon gone, and pid 1, which it makes as a child of ours (CLONE_PARENT) and
 * hands over as a pidfd. The end has come when the control socket is at its end and both are reaped: then everything inside is gone, too,
 * since pid 1's end waits for that.
 */
#include "sandbox/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exec-plan.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/installed-files.h"
#include "sandbox/blob.h"
#include "sandbox/identity.h"
#include "sandbox/init/blob.h"
#include "sandbox/launch-error.h"
#include "sandbox/launched.h"
#include "sandbox/unix-connect.h"
#include "sandbox/weaker.h"

#define READY_TIMEOUT_MS 10000
/* Fds that are kept for later are moved above this. */
#define FIRST_SAFE_FD 16

struct IpbSandbox {
    IpbLoop *loop;
    IpbSandboxOptions options; /* callbacks only; the pointers are not kept */
    IpbSandboxPlan *plan;
    IpbCgroup *cgroup; /* NULL: there is none */
    char *command;
    int control, plan_fd;
    IpbWatch *control_watch;
    int channel, channel_theirs; /* of a sandbox that is entered: what kernels tell */
    IpbWatch *channel_watch;
    int diag_fd;
    GPtrArray *connects; /* IpbUnixConnect, one for each command or kernel */
    IpbTimer *timer;
    IpbLaunched launcher, init;
    int listeners[IPB_BLOB_MAX_LISTENERS];
    bool has_init; /* we were told of pid 1, which may have ended since */
    bool is_ready, has_ended;
    bool is_group_kept, is_weaker;
    int stdio[3];           /* -1: /dev/null; ours only while the weaker sandbox may be needed */
    int weaker_fd;          /* its plan, if it is allowed and possible */
    GError *weaker_failure; /* why it is not possible */
    bool has_status;
    int wait_status;
    GError *failure; /* the first one */
};

static bool launch(IpbSandbox *sandbox, GError **error);

/* --- the end ----------------------------------------------------------------------------------- */

static void
kill_all(IpbSandbox *sandbox)
{
    ipb_launched_kill(&sandbox->init);
    ipb_launched_kill(&sandbox->launcher);
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

/* The full one cannot be made here, and is over: true if the weaker one was begun. */
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
    /* There is no other first process than the one that is launched. */
    sandbox->has_init = true;
    bool ok = launch(sandbox, &sandbox->failure);
    for (size_t i = 0; i < G_N_ELEMENTS(sandbox->stdio); i++)
        ipb_fd_close(&sandbox->stdio[i]);
    return ok;
}

/* May free the sandbox. */
static void
finish_if_over(IpbSandbox *sandbox)
{
    if (sandbox->has_ended || sandbox->control_watch != NULL || sandbox->launcher.pidfd >= 0 ||
        sandbox->init.pidfd >= 0 || fall_back(sandbox))
        return;
    sandbox->has_ended = true;
    g_clear_pointer(&sandbox->timer, ipb_timer_free);
    if (sandbox->failure == NULL && !sandbox->has_status)
        g_set_error_literal(&sandbox->failure, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                            "the sandbox's first process was killed");
    g_autoptr(GError) failure = g_steal_pointer(&sandbox->failure);
    if (sandbox->options.on_end != NULL)
        sandbox->options.on_end(sandbox, sandbox->wait_status, failure, sandbox->options.data);
}

static void
on_process_ended(void *data)
{
    finish_if_over(data);
}

/* --- what the init says ------------------------------------------------------------------------ */

static void
take_ready(IpbSandbox *sandbox)
{
    int listeners[IPB_BLOB_MAX_LISTENERS];
    size_t n = sandbox->plan->listeners->len;
    g_clear_pointer(&sandbox->timer, ipb_timer_free);
    sandbox->is_ready = true;
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
on_denied_socket(const char *path, void *data)
{
    IpbSandbox *sandbox = data;
    if (sandbox->options.on_denied_socket != NULL)
        sandbox->options.on_denied_socket(sandbox, path, sandbox->options.data);
}

static void
on_connect_ended(IpbUnixConnect *connect, void *data)
{
    IpbSandbox *sandbox = data;
    g_ptr_array_remove_fast(sandbox->connects, connect);
}

/* Without somebody who answers, what was started waits in its first connect(). */
static void
take_notify(IpbSandbox *sandbox, int notify_fd)
{
    GError *error = NULL;
    IpbIdentity identity = ipb_identity_choose();
    IpbUnixConnect *connect = ipb_unix_connect_new(sandbox->loop,
                                                   &(IpbUnixConnectOptions){
                                                       .notify_fd = notify_fd,
                                                       .diag_fd = sandbox->diag_fd,
                                                       .plan = sandbox->plan,
                                                       .uid = identity.outer_uid,
                                                       .gid = identity.outer_gid,
                                                       .on_denied = on_denied_socket,
                                                       .on_ended = on_connect_ended,
                                                       .data = sandbox,
                                                   },
                                                   &error);
    if (connect == NULL)
        fail(sandbox, error);
    else
        g_ptr_array_add(sandbox->connects, connect);
}

static bool
are_listeners_there(const IpbSandbox *sandbox)
{
    for (guint i = 0; i < sandbox->plan->listeners->len; i++)
        if (sandbox->listeners[i] < 0)
            return false;
    return sandbox->has_init;
}

/* @fd: what came along, or -1; taken over if it is wanted. May free the sandbox. False: the packet makes no sense now. */
static bool
take_packet(IpbSandbox *sandbox, const IpbPacket *packet, int *fd)
{
    GError *error = NULL;
    switch ((IpbPacketType) packet->type) {
    case IPB_PACKET_INIT:
        if (*fd < 0 || sandbox->has_init)
            return false;
        sandbox->has_init = true;
        if (!ipb_launched_watch(&sandbox->init, sandbox->loop, ipb_fd_steal(fd), on_process_ended,
                                sandbox, &error))
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
        ipb_launch_error_set(&error, &packet->error, sandbox->plan, sandbox->command);
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
        take_notify(sandbox, ipb_fd_steal(fd));
        return true;
    case IPB_PACKET_SIGNAL:
        break;
    }
    return false;
}

/* One packet a time: its callback may free the sandbox. */
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

/* Kernels that entered: their forkserver sends for them, and nothing but listeners of notifications. */
static void
on_channel(uint32_t events, void *data)
{
    IpbSandbox *sandbox = data;
    IpbPacket packet;
    size_t n_fds = 0;
    int fd = -1;
    ssize_t n = ipb_fd_receive(sandbox->channel, &packet, sizeof packet, &fd, 1, &n_fds);
    if (n_fds == 1 && n == sizeof packet && packet.type == IPB_PACKET_NOTIFY)
        take_notify(sandbox, fd);
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

/* --- the beginning ----------------------------------------------------------------------------- */

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

char *
ipb_sandbox_find_entrance(GError **error)
{
    return find_ours("ipybox-enter.so", error);
}

static bool
spawn(IpbSandbox *sandbox, int control, GError **error)
{
    /* The environment of pid 1 can be read from within: it has none. */
    static const char *const ARGV[] = {"ipybox-sandbox-init", NULL}, *const NO_ENV[] = {NULL};
    g_autofree char *path = find_ours(ARGV[0], error);
    ipb_autofd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (path == NULL)
        return false;
    if (null_fd < 0)
        return ipb_error_set_errno(error, errno, "cannot open /dev/null");
    IpbExecPlan plan = {
        .path = path,
        .argv = ARGV,
        .envp = NO_ENV,
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
    int pidfd;
    if (!ipb_exec_plan_start(sandbox->loop, &plan, &pid, &pidfd, error))
        return false;
    return ipb_launched_watch(&sandbox->launcher, sandbox->loop, pidfd, on_process_ended, sandbox,
                              error);
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

/* The options are gone when it is needed. */
static bool
prepare_weaker(IpbSandbox *sandbox, const IpbSandboxOptions *options, GError **error)
{
    if (!ipb_weaker_check(options->plan, &sandbox->weaker_failure))
        return true;
    sandbox->weaker_fd = ipb_blob_new(options, true, error);
    if (sandbox->weaker_fd < 0)
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(sandbox->stdio); i++) {
        if (sandbox->stdio[i] >= 0)
            sandbox->stdio[i] = ipb_fd_duplicate(sandbox->stdio[i], FIRST_SAFE_FD);
    }
    return true;
}

static bool
start(IpbSandbox *sandbox, const IpbSandboxOptions *options, GError **error)
{
    const int stdio[] = {options->stdin_fd, options->stdout_fd, options->stderr_fd};
    memcpy(sandbox->stdio, stdio, sizeof stdio);
    sandbox->is_group_kept = options->is_group_kept;
    sandbox->plan_fd = ipb_blob_new(options, false, error);
    if (sandbox->plan_fd < 0 || (options->argv == NULL && !open_channel(sandbox, error)))
        return false;
    sandbox->cgroup = ipb_cgroup_new(&options->plan->limits);
    bool has_weaker = options->is_weaker_allowed && options->argv != NULL;
    if (has_weaker && !prepare_weaker(sandbox, options, error))
        return false;
    return launch(sandbox, error);
}

IpbSandbox *
ipb_sandbox_new(IpbLoop *loop, const IpbSandboxOptions *options, GError **error)
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
                                           .on_denied_socket = options->on_denied_socket,
                                           .data = options->data};
    sandbox->plan = ipb_sandbox_plan_ref((IpbSandboxPlan *) options->plan);
    sandbox->command = options->argv != NULL ? g_strdup(options->argv[0]) : NULL;
    sandbox->control = sandbox->plan_fd = sandbox->diag_fd = -1;
    sandbox->channel = sandbox->channel_theirs = sandbox->weaker_fd = -1;
    sandbox->connects = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_unix_connect_free);
    sandbox->launcher.pidfd = sandbox->init.pidfd = -1;
    memset(sandbox->listeners, 0xff, sizeof sandbox->listeners);
    if (!start(sandbox, options, error))
        g_clear_pointer(&sandbox, ipb_sandbox_free);
    return sandbox;
}

bool
ipb_sandbox_is_weaker(const IpbSandbox *sandbox)
{
    return sandbox->is_weaker;
}

void
ipb_sandbox_signal(IpbSandbox *sandbox, int signal_number)
{
    IpbPacket packet = {.type = IPB_PACKET_SIGNAL, .value = signal_number};
    if (sandbox->is_ready && sandbox->control_watch != NULL)
        ipb_fd_send(sandbox->control, &packet, sizeof packet, NULL, 0);
}

const GError *
ipb_sandbox_failure(const IpbSandbox *sandbox)
{
    return sandbox->failure;
}

int
ipb_sandbox_pidfd(const IpbSandbox *sandbox)
{
    return sandbox->is_ready ? sandbox->init.pidfd : -1;
}

int
ipb_sandbox_plan_fd(const IpbSandbox *sandbox)
{
    return sandbox->is_ready ? sandbox->plan_fd : -1;
}

int
ipb_sandbox_channel_fd(const IpbSandbox *sandbox)
{
    return sandbox->is_ready ? sandbox->channel_theirs : -1;
}

bool
ipb_sandbox_add_process(const IpbSandbox *sandbox, pid_t pid, GError **error)
{
    return sandbox->cgroup == NULL || ipb_cgroup_add(sandbox->cgroup, pid, error);
}

char *
ipb_sandbox_describe_limit(const IpbSandbox *sandbox, int wait_status)
{
    const IpbSandboxLimits *limits = &sandbox->plan->limits;
    /* A shell tells the end of its last command so. */
    bool is_killed = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) == SIGKILL
                                              : WEXITSTATUS(wait_status) == 128 + SIGKILL;
    if (is_killed && sandbox->cgroup != NULL && ipb_cgroup_has_run_out(sandbox->cgroup))
        return g_strdup_printf(
            "what is in the sandbox used up its memory: limits.memory is %" G_GUINT64_FORMAT
            " bytes",
            limits->memory_bytes);
    return ipb_sandbox_limits_describe_end(limits, wait_status);
}

/* --- freeing ----------------------------------------------------------------------------------- */

/* A launcher killed between making pid 1 and telling us would leave us a child we do not know: let it finish, it takes 1 ms. */
static void
await_init(IpbSandbox *sandbox)
{
    if (sandbox->launcher.pidfd < 0 || sandbox->has_init || sandbox->control < 0)
        return;
    ipb_fd_wait(sandbox->launcher.pidfd, POLLIN, IPB_LAUNCHED_END_TIMEOUT_MS);
    IpbPacket packet;
    size_t n_fds = 0;
    int fd = -1;
    if (ipb_fd_receive(sandbox->control, &packet, sizeof packet, &fd, 1, &n_fds) == sizeof packet &&
        n_fds == 1 && packet.type == IPB_PACKET_INIT)
        sandbox->init.pidfd = fd;
    else if (n_fds == 1)
        ipb_fd_close(&fd);
}

/* The first process kills what is there when the control socket is at its end; killed itself, it could not. */
static void
end_weaker(IpbSandbox *sandbox)
{
    ipb_fd_close(&sandbox->control);
    struct pollfd item = {.fd = sandbox->launcher.pidfd, .events = POLLIN};
    if (sandbox->is_weaker && item.fd >= 0)
        poll(&item, 1, IPB_LAUNCHED_END_TIMEOUT_MS);
}

void
ipb_sandbox_free(IpbSandbox *sandbox)
{
    if (sandbox == NULL)
        return;
    g_clear_pointer(&sandbox->control_watch, ipb_watch_free);
    g_clear_pointer(&sandbox->channel_watch, ipb_watch_free);
    g_clear_pointer(&sandbox->timer, ipb_timer_free);
    await_init(sandbox);
    end_weaker(sandbox);
    ipb_launched_end(&sandbox->launcher, sandbox->loop, &sandbox->cgroup);
    ipb_launched_end(&sandbox->init, sandbox->loop, &sandbox->cgroup);
    g_clear_pointer(&sandbox->cgroup, ipb_cgroup_free);
    g_ptr_array_unref(sandbox->connects);
    forget_weaker(sandbox);
    g_clear_error(&sandbox->weaker_failure);
    ipb_fd_close(&sandbox->plan_fd);
    ipb_fd_close(&sandbox->diag_fd);
    ipb_fd_close(&sandbox->channel);
    ipb_fd_close(&sandbox->channel_theirs);
    for (size_t i = 0; i < G_N_ELEMENTS(sandbox->listeners); i++)
        ipb_fd_close(&sandbox->listeners[i]);
    g_clear_error(&sandbox->failure);
    ipb_sandbox_plan_unref(sandbox->plan);
    g_free(sandbox->command);
    ipb_loop_unref(sandbox->loop);
    g_free(sandbox);
}
