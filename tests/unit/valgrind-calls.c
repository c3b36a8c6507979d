/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements for pidfd_open, pidfd_send_signal and openat2, which the valgrind of Debian 12 does
 * not support. scripts/check-memory preloads them into programs that run under valgrind.
 *
 * Use them in tests only. pidfd_send_signal sends the signal by pid, so it can hit another process
 * that has reused the pid. pidfd_open always fails, so no sandbox can start. openat2 fails, too, so
 * src/base/beneath.c walks directory by directory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

long syscall(long number, ...);

/* Child programs run outside valgrind, so this library must not be preloaded into them. */
__attribute__((constructor)) static void
forget(void)
{
    const char *preload = getenv("LD_PRELOAD");
    /* Without vgpreload, this is valgrind's launcher, which must pass the variable on. */
    if (preload != NULL && strstr(preload, "vgpreload") != NULL)
        unsetenv("LD_PRELOAD");
}

static long
signal_pidfd(int pidfd, int signal_number)
{
    char path[64], line[128];
    int pid = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    FILE *info = fopen(path, "re");
    if (info == NULL)
        return -1;
    while (fgets(line, sizeof line, info) != NULL && sscanf(line, "Pid: %d", &pid) != 1)
        ;
    fclose(info);
    errno = ESRCH;
    return pid > 0 ? kill(pid, signal_number) : -1;
}

__attribute__((visibility("default"))) long
syscall(long number, ...)
{
    long values[6];
    va_list list;
    va_start(list, number);
    /* No system call takes more than six arguments. If the caller passed fewer, the remaining
     * values are arbitrary and the kernel ignores them. */
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_pidfd_send_signal)
        return signal_pidfd((int) values[0], (int) values[1]);
    if (number == SYS_pidfd_open || number == SYS_openat2) {
        /* Like valgrind, but without a warning for each call. It would go into valgrind's log, and
         * be fatal in tests that limit the size of files. */
        errno = ENOSYS;
        return -1;
    }
    long (*next)(long, ...) = (long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
    return next(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
