/* SPDX-License-Identifier: Apache-2.0
 *
 * The other function of ipybox-enter.so: a kernel forks a branch of itself. The forkserver loads
 * the library, so each kernel has it in its memory.
 *
 * The branch must not be a child of the kernel: user code there would be notified of its end, and
 * could wait for it. So a middle process, which shares the kernel's memory and so costs nothing,
 * forks the branch and ends. The branch's parent is then the forkserver, which is a subreaper, or
 * pid 1 of the sandbox. The middle process has no exit signal: neither SIGCHLD handlers nor
 * waitpid() see it.
 *
 * Libraries register functions that run around a fork (pthread_atfork). Those that run after it,
 * in the parent, may start threads again: scipy.fft does. Threads that the middle process started
 * would end with it. So the first of these functions is ours. It ends the middle process, and the
 * kernel continues from there, on the stack that both share, with the other functions.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

#ifndef __WALL
#define __WALL 0x40000000
#endif

/* Called by the main thread, with the lock of Python's interpreter. Returns 0 in the branch, and
 * its pid in the caller. On failure returns a negative errno. @is_confined: the branch is in a
 * sandbox, and gets a Landlock domain of its own. Linux allows 16 of them inside each other. */
__attribute__((visibility("default"))) pid_t ipb_branch_fork(int is_confined);

/* vfork() without an exit signal. It has no frame: the child, which has the same stack, returns
 * first, and what it calls then overwrites what was pushed here. So the return address is kept in a
 * register, of which parent and child have a copy each. */
#if defined(__x86_64__)
pid_t ipb_clone_middle(void) __attribute__((visibility("hidden"), returns_twice));
__asm__(".text\n"
        ".hidden ipb_clone_middle\n"
        ".type ipb_clone_middle, @function\n"
        "ipb_clone_middle:\n"
        "    popq %r9\n"
        "    movl $0x4100, %edi\n" /* CLONE_VM | CLONE_VFORK */
        "    xorl %esi, %esi\n"
        "    xorl %edx, %edx\n"
        "    xorl %r10d, %r10d\n"
        "    xorl %r8d, %r8d\n"
        "    movl $56, %eax\n" /* clone */
        "    syscall\n"
        "    pushq %r9\n"
        "    ret\n"
        ".size ipb_clone_middle, . - ipb_clone_middle\n");
#elif defined(__aarch64__)
pid_t ipb_clone_middle(void) __attribute__((visibility("hidden"), returns_twice));
__asm__(".text\n"
        ".hidden ipb_clone_middle\n"
        ".type ipb_clone_middle, %function\n"
        "ipb_clone_middle:\n"
        "    mov x0, #0x4100\n" /* CLONE_VM | CLONE_VFORK */
        "    mov x1, #0\n"
        "    mov x2, #0\n"
        "    mov x3, #0\n"
        "    mov x4, #0\n"
        "    mov x8, #220\n" /* clone */
        "    svc #0\n"
        "    ret\n"
        ".size ipb_clone_middle, . - ipb_clone_middle\n");
#else
/* Here the middle process has the exit signal SIGCHLD, of which handlers must expect one too many
 * anyway. vfork() returns its errors in errno. */
#define ipb_clone_middle() vfork()
#define HAS_ERRNO 1
#endif

/* By number: the C library's headers may be older than the kernel. */
#define ACCESS_MAKE_BLOCK (UINT64_C(1) << 11)
#define SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0)
#define SCOPE_SIGNAL (UINT64_C(1) << 1)

static int
make_ruleset(uint64_t scoped)
{
    /* No block device can be made in a sandbox anyway. */
    const struct {
        uint64_t handled_access_fs, handled_access_net, scoped, rest[124];
    } attributes = {.handled_access_fs = ACCESS_MAKE_BLOCK, .scoped = scoped};
    _Static_assert(sizeof attributes == IPB_BRANCH_RULESET_SIZE, "seccomp knows it by its size");
    return sys_landlock_create_ruleset(&attributes, sizeof attributes, 0);
}

/* Gives the branch a Landlock domain of its own. It cannot trace, read or (Linux 6.12) signal
 * processes outside: its forerunner, and other branches. A system without Landlock has none for
 * the forerunner either. */
static bool
confine(void)
{
    int ruleset = make_ruleset(SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL);
    if (ruleset < 0 && (errno == E2BIG || errno == EINVAL)) /* before Linux 6.12 */
        ruleset = make_ruleset(0);
    if (ruleset < 0)
        return errno == EOPNOTSUPP || errno == ENOSYS;
    bool ok = sys_landlock_restrict_self(ruleset) == 0;
    close(ruleset);
    return ok;
}

/* The state that the kernel and the middle process share. */
typedef struct {
    volatile pid_t branch;
    volatile int saved_errno;
} Branch;

/* What the kernel may write of its stack before it continues where the middle process ended. */
#define GAP_SIZE 4096

static struct {
    volatile bool is_registered;
    volatile bool is_wanted; /* the middle process forks: no other fork ends a process */
    volatile bool is_ready;  /* @context is valid */
    volatile pid_t middle;
    void *context[5];
} handover;

/* Begins in the middle process and returns in the kernel. */
static void
hand_over(void)
{
    if (!handover.is_wanted)
        return;
    handover.is_wanted = false;
    if (__builtin_setjmp(handover.context) == 0) {
        handover.is_ready = true;
        _exit(0);
    }
}

/* When the forkserver loads us, it has loaded no library of users yet. Functions for the parent
 * run in the order in which they were registered. */
__attribute__((constructor)) static void
register_handover(void)
{
    handover.is_registered = pthread_atfork(NULL, hand_over, NULL) == 0;
}

static void
reap_middle(pid_t middle)
{
    /* Until it is reaped, it may still be the branch's parent. */
    while (syscall(SYS_wait4, middle, NULL, __WALL, NULL) < 0 && errno == EINTR)
        ;
}

/* Returns 0 in the branch, else -1. */
static int
fork_twice(Branch *branch)
{
    pid_t middle = ipb_clone_middle();
    if (middle < 0) {
#ifdef HAS_ERRNO
        branch->saved_errno = errno;
#else
        branch->saved_errno = -middle;
#endif
        return -1;
    }
    if (middle > 0) {
        handover.middle = middle;
        if (handover.is_ready)
            __builtin_longjmp(handover.context, 1);
        branch->saved_errno = ECHILD; /* it was killed */
        reap_middle(middle);
        return -1;
    }
    volatile char *gap = __builtin_alloca(GAP_SIZE);
    gap[0] = 0;
    handover.is_wanted = true;
    pid_t pid = fork();
    if (pid == 0) {
        handover.is_wanted = handover.is_ready = false;
        return 0;
    }
    /* The kernel. */
    branch->saved_errno = errno;
    branch->branch = pid;
    handover.is_ready = false;
    reap_middle(handover.middle);
    return -1;
}

pid_t
ipb_branch_fork(int is_confined)
{
    Branch branch = {.branch = -1};
    int saved = errno;
    if (!handover.is_registered)
        return -ENOMEM;
    handover.is_wanted = handover.is_ready = false;
    /* No handler may run in the middle process, which shares our memory. */
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    int result = fork_twice(&branch);
    sigprocmask(SIG_SETMASK, &old, NULL);
    errno = saved;
    if (result == 0) {
        /* Python has not run in it. The core is notified of its end. */
        if (is_confined && !confine())
            _exit(126);
        return 0;
    }
    return branch.branch > 0 ? branch.branch : -branch.saved_errno;
}
