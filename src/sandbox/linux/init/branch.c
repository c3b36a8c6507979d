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
 *
 * A branch can be parked: it waits here until the core asks it for a branch of itself, as often as
 * the core asks. No Python runs in it, so it stays what the kernel was at that moment.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"
#include "sandbox/linux/init/text.h"

#ifndef __WALL
#define __WALL 0x40000000
#endif

/* Called by the main thread, with the lock of Python's interpreter. Returns 0 in the branch, and
 * its pid in the caller. On failure returns a negative errno. @is_confined: the branch is in a
 * sandbox, and gets a Landlock domain of its own. Linux allows 16 of them inside each other. */
__attribute__((visibility("default"))) pid_t ipb_branch_fork(int is_confined);

/* A descriptor of the kernel's stdout (@stream is 1) or stderr (2). */
typedef struct {
    int fd, stream;
} IpbPort;

/* What a parked copy needs of the kernel. */
typedef struct {
    int fds[3];      /* the copy's wire and pipes; in a branch of the copy, those of the branch */
    int wire;        /* of the kernel */
    int n_ports;     /* of the kernel */
    int parent;      /* the forkserver; 0 in a sandbox */
    int is_too_deep; /* no branch of it can get a Landlock domain of its own */
    int is_restored; /* set in a branch of the copy: it takes the place of the kernel */
    const IpbPort *ports;
    char *environment; /* the strings that /proc/PID/environ shows */
    size_t environment_size;
} IpbPark;

/* As ipb_branch_fork() for a parked copy, which never returns. What returns 0 is a branch of it. */
__attribute__((visibility("default"))) pid_t ipb_branch_park(IpbPark *park);

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

/* --- a parked copy ---------------------------------------------------------------------------- */

/* The frames of docs/internals/kernel-wire.md, of which a parked copy knows these. */
#define FRAME_BRANCH 8
#define FRAME_RESTORE 10
#define FRAME_HELLO 64
#define FRAME_BRANCHED 78
#define FRAME_HEAD 9
#define FRAME_LENGTH 4
/* Of a frame to a parked copy. */
#define MAX_PAYLOAD 1024
/* The system replaces the copy's parent when the middle process has ended. */
#define PARENT_TIMEOUT_S 5
#define N_FDS 3

static const char TOO_DEEP[] = "in a sandbox branches can be 15 deep, as this one is";
static const char AT_LIMIT[] = "the system refuses to fork: the limit of processes is reached";
static const char NO_MEMORY[] = "the system refuses to fork: it has no memory for that";

static bool
await_parent(pid_t parent)
{
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (getppid() != parent) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > PARENT_TIMEOUT_S)
            return false;
        sched_yield();
    }
    /* Earlier the signal would come when the middle process ends. */
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent;
}

/* Its own wire and pipes get the numbers of the kernel's: it must not keep those open. */
static bool
take_links(const IpbPark *park)
{
    if (dup3(park->fds[0], park->wire, O_CLOEXEC) < 0)
        return false;
    for (int i = 0; i < park->n_ports; i++) {
        const IpbPort *port = &park->ports[i];
        int flags = fcntl(port->fd, F_GETFD);
        if (flags >= 0 &&
            dup3(park->fds[port->stream], port->fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) < 0)
            return false;
    }
    for (int i = 0; i < N_FDS; i++)
        close(park->fds[i]);
    return true;
}

static void
write_wire(const IpbPark *park, int type, const char *payload)
{
    uint8_t frame[FRAME_HEAD + MAX_PAYLOAD] = {0};
    uint32_t size = (uint32_t) strlen(payload);
    uint32_t length = size + FRAME_HEAD - FRAME_LENGTH;
    for (int i = 0; i < FRAME_LENGTH; i++)
        frame[i] = (uint8_t) (length >> (8 * i));
    frame[FRAME_LENGTH] = (uint8_t) type;
    memcpy(frame + FRAME_HEAD, payload, size);
    size_t all = FRAME_HEAD + size;
    ssize_t n;
    do
        n = send(park->wire, frame, all, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t) all)
        _exit(1); /* the core has ended */
}

static void
read_wire(const IpbPark *park, uint8_t *bytes, size_t size)
{
    ssize_t n;
    do
        n = recv(park->wire, bytes, size, MSG_WAITALL);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t) size)
        _exit(1);
}

/* Reads the head of a frame, and with it the descriptors. The end of the wire is our end. */
static void
read_head(const IpbPark *park, uint8_t head[FRAME_HEAD], int fds[N_FDS])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(N_FDS * sizeof(int))];
    } control;
    struct iovec part = {head, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t n;
    do
        n = recvmsg(park->wire, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        _exit(n == 0 ? 0 : 1);
    const struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    if (passed == NULL || passed->cmsg_type != SCM_RIGHTS ||
        passed->cmsg_len != CMSG_LEN(N_FDS * sizeof(int)))
        _exit(1);
    memcpy(fds, CMSG_DATA(passed), N_FDS * sizeof(int));
    read_wire(park, head + 1, FRAME_HEAD - 1);
}

/* Returns the type of the frame. @ret_id: the number in its payload, {"id":1,…}. */
static int
read_frame(const IpbPark *park, uint64_t *ret_id, int fds[N_FDS])
{
    uint8_t head[FRAME_HEAD], payload[MAX_PAYLOAD];
    uint32_t length = 0;
    read_head(park, head, fds);
    for (int i = 0; i < FRAME_LENGTH; i++)
        length |= (uint32_t) head[i] << (8 * i);
    uint32_t size = length - (FRAME_HEAD - FRAME_LENGTH);
    if (size == 0 || size > MAX_PAYLOAD)
        _exit(1);
    read_wire(park, payload, size);
    uint32_t i = 0;
    while (i < size && (payload[i] < '0' || payload[i] > '9'))
        i++;
    for (*ret_id = 0; i < size && payload[i] >= '0' && payload[i] <= '9'; i++)
        *ret_id = *ret_id * 10 + (uint64_t) (payload[i] - '0');
    return head[FRAME_LENGTH];
}

static void
answer(const IpbPark *park, uint64_t id, pid_t pid, const char *reason)
{
    IpbText start = {0};
    char payload[MAX_PAYLOAD] = "";
    ipb_text_add(&start, "{\"id\":");
    ipb_text_add_number(&start, id);
    if (reason == NULL) {
        ipb_text_add(&start, ",\"pid\":");
        ipb_text_add_number(&start, (uint64_t) pid);
        ipb_text_add(&start, ",\"warnings\":[]}");
    }
    strcat(payload, start.bytes);
    if (reason != NULL) {
        strcat(payload, ",\"reasons\":[\"");
        strcat(payload, reason);
        strcat(payload, "\"]}");
    }
    write_wire(park, FRAME_BRANCHED, payload);
}

/* Returns in a branch of the copy only. */
static void
serve_branches(IpbPark *park)
{
    for (;;) {
        uint64_t id;
        int type = read_frame(park, &id, park->fds);
        if (type != FRAME_BRANCH && type != FRAME_RESTORE)
            _exit(1);
        park->is_restored = type == FRAME_RESTORE;
        bool is_confined = !park->is_restored && park->parent == 0;
        Branch branch = {.branch = -1};
        const char *reason = is_confined && park->is_too_deep ? TOO_DEEP : NULL;
        if (reason == NULL && fork_twice(&branch) == 0) {
            if (is_confined && !confine())
                _exit(126);
            return;
        }
        if (reason == NULL && branch.branch <= 0)
            reason = branch.saved_errno == EAGAIN ? AT_LIMIT : NO_MEMORY;
        for (int i = 0; i < N_FDS; i++)
            close(park->fds[i]);
        answer(park, id, branch.branch, reason);
    }
}

static void
wait_parked(IpbPark *park)
{
    IpbText hello = {0};
    setsid();
    if ((park->parent != 0 && !await_parent(park->parent)) || !take_links(park))
        _exit(1);
    /* It says to which kernel a process belongs. With it, we would end with that kernel. */
    memset(park->environment, 0, park->environment_size);
    ipb_text_add(&hello, "{\"version\":1,\"pid\":");
    ipb_text_add_number(&hello, (uint64_t) getpid());
    ipb_text_add(&hello, "}");
    write_wire(park, FRAME_HELLO, hello.bytes);
    serve_branches(park);
}

/* --- both ------------------------------------------------------------------------------------- */

/* @park: NULL: a branch that continues. */
static pid_t
fork_copy(int is_confined, IpbPark *park)
{
    Branch branch = {.branch = -1};
    int saved = errno;
    if (!handover.is_registered)
        return -ENOMEM;
    handover.is_wanted = handover.is_ready = false;
    /* No handler may run in the middle process, which shares our memory, or in a parked copy. */
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    int result = fork_twice(&branch);
    if (result == 0 && park != NULL)
        wait_parked(park);
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

pid_t
ipb_branch_fork(int is_confined)
{
    return fork_copy(is_confined, NULL);
}

pid_t
ipb_branch_park(IpbPark *park)
{
    return fork_copy(0, park);
}
