/* SPDX-License-Identifier: Apache-2.0
 *
 * The library ipybox-enter.so, by which a kernel enters a sandbox. The forkserver loads it: a
 * Python that has imported everything a kernel needs, and that must not enter a sandbox itself. A
 * child that shares its memory (vfork, so nothing is copied) joins the namespaces and forks the
 * kernel, which is inside from its first instruction. Then the child ends, and the forkserver, a
 * subreaper, becomes the kernel's parent.
 *
 * When the function returns in the kernel, the kernel has given up its rights. It reports the
 * result to the forkserver over a pipe.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"
#include "sandbox/linux/init/text.h"

/* The forkserver serves other sessions, too. On a busy machine it takes milliseconds. */
#define ENTER_TIMEOUT_MS 10000
#define NAMESPACES                                                                                 \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |     \
     CLONE_NEWCGROUP)

/* Returns 0 in the kernel, and its pid in the caller. On failure returns a negative errno, and
 * @error says which step failed. @channel: a socket to the core, which receives the listener of
 * seccomp's notifications. */
__attribute__((visibility("default"))) pid_t ipb_enter_fork(int init_pidfd, int plan, int channel,
                                                            char *error, size_t error_size);

/* The state that the three processes share while they share memory. The kernel has a copy of it. */
typedef struct {
    const uint8_t *blob;
    int init_pidfd, channel;
    int result[2]; /* pipe: an IpbStepError from the kernel */
    volatile pid_t kernel;
    volatile int saved_errno;
    volatile bool is_joined;
} Entry;

/* Runs in the child that shares our memory. It makes system calls only, since the C library's
 * wrappers would change the ids of our threads. */
static bool
join(const Entry *entry)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) entry->blob;
    if ((header->flags & IPB_BLOB_MAP_ROOT) != 0 && syscall(SYS_setgroups, 0, NULL) < 0)
        return false;
    return syscall(SYS_setns, entry->init_pidfd, NAMESPACES) == 0;
}

static void
lock_down(const Entry *entry)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) entry->blob;
    const char *cwd = ipb_blob_string(entry->blob, header->cwd);
    IpbStepError error = {0};
    bool ok = ipb_lockdown_become(entry->blob, &error) &&
              (cwd == NULL || chdir(cwd) == 0 || ipb_step_fail(&error, IPB_STEP_CWD, 0)) &&
              ipb_lockdown_command(entry->blob, entry->channel, &error);
    ssize_t n = write(entry->result[1], &error, sizeof error);
    if (!ok || n != (ssize_t) sizeof error)
        _exit(127);
    close(entry->result[0]);
    close(entry->result[1]);
}

/* Returns 0 in the kernel, else -1. The kernel returns through a stack frame in which its
 * creator called vfork. That is correct, because its stack is a copy that was made while the
 * frame existed. */
static int
fork_inside(Entry *entry)
{
    pid_t middle = vfork();
    if (middle == 0) {
        entry->is_joined = join(entry);
        if (!entry->is_joined) {
            entry->saved_errno = errno;
            _exit(1);
        }
        pid_t kernel = fork();
        if (kernel == 0)
            return 0;
        entry->saved_errno = errno;
        entry->kernel = kernel;
        _exit(0);
    }
    if (middle < 0)
        entry->saved_errno = errno;
    else
        while (waitpid(middle, NULL, 0) < 0 && errno == EINTR)
            ;
    return -1;
}

static void
describe(char *error, size_t error_size, const char *what)
{
    size_t size = strlen(what);
    if (error_size == 0)
        return;
    if (size >= error_size)
        size = error_size - 1;
    memcpy(error, what, size);
    error[size] = '\0';
}

/* Returns false if the kernel has not answered in time. */
static bool
await_answer(const Entry *entry)
{
    struct pollfd answer = {.fd = entry->result[0], .events = POLLIN};
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int n, left = ENTER_TIMEOUT_MS;
    while ((n = poll(&answer, 1, left)) < 0 && errno == EINTR && left > 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = ENTER_TIMEOUT_MS -
               (int) (1000 * (now.tv_sec - begun.tv_sec) + (now.tv_nsec - begun.tv_nsec) / 1000000);
        left = left > 0 ? left : 0;
    }
    return n != 0;
}

/* Waits until the kernel, which exists, has given up its rights. Before Linux 6.12 code inside can
 * stop it until then, so the wait has a limit. */
static pid_t
await_kernel(Entry *entry, char *error, size_t error_size)
{
    IpbStepError failure;
    ssize_t n = 0;
    close(entry->result[1]);
    entry->result[1] = -1;
    bool is_late = !await_answer(entry);
    if (is_late)
        kill(entry->kernel, SIGKILL);
    else
        do
            n = read(entry->result[0], &failure, sizeof failure);
        while (n < 0 && errno == EINTR);
    if (n == (ssize_t) sizeof failure && failure.step == IPB_STEP_NONE)
        return entry->kernel;
    while (waitpid(entry->kernel, NULL, 0) < 0 && errno == EINTR)
        ;
    if (is_late) {
        describe(error, error_size,
                 "the kernel did not give up its rights in time (did code inside stop it?)");
        return -ETIMEDOUT;
    }
    if (n != (ssize_t) sizeof failure) {
        describe(error, error_size, "the kernel died while giving up its rights");
        return -EIO;
    }
    if (failure.step == IPB_STEP_LISTEN && failure.saved_errno == EBUSY) {
        /* As step-error.c describes it for a command. */
        describe(error, error_size,
                 "another program answers system calls of this process already (a container's "
                 "runtime?)");
        return -EBUSY;
    }
    IpbText text = {0};
    ipb_text_add(&text, "giving up rights failed at step ");
    ipb_text_add_number(&text, failure.step);
    describe(error, error_size, text.bytes);
    return -failure.saved_errno;
}

static pid_t
enter(Entry *entry, char *error, size_t error_size)
{
    /* No handler of the forkserver may run in the child that shares its memory. */
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    int result = fork_inside(entry);
    if (result == 0)
        lock_down(entry);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (result == 0)
        return 0;
    if (entry->kernel > 0)
        return await_kernel(entry, error, error_size);
    describe(error, error_size,
             entry->is_joined ? "cannot fork inside" : "cannot join the namespaces");
    return -entry->saved_errno;
}

pid_t
ipb_enter_fork(int init_pidfd, int plan, int channel, char *error, size_t error_size)
{
    IpbStepError failure;
    Entry entry = {.init_pidfd = init_pidfd, .channel = channel, .kernel = -1};
    if (!ipb_blob_map(plan, &entry.blob, &failure)) {
        describe(error, error_size, "the plan is broken");
        return -failure.saved_errno;
    }
    uint32_t blob_size = ((const IpbBlobHeader *) entry.blob)->size;
    pid_t pid = -EMFILE;
    if (pipe2(entry.result, O_CLOEXEC) == 0) {
        pid = enter(&entry, error, error_size);
        if (pid != 0) {
            close(entry.result[0]);
            if (entry.result[1] >= 0)
                close(entry.result[1]);
        }
    } else {
        describe(error, error_size, "no descriptors are left");
    }
    munmap((void *) (uintptr_t) entry.blob, blob_size);
    return pid;
}
