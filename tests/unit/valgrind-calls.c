/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into programs under valgrind (scripts/check-memory): Debian 12's does not know pidfd_open and
 * pidfd_send_signal. What stands here is good for tests alone: the process may be another one by the time that it gets
 * the signal. There is no pidfd for a process that is not our child, so no sandbox can be started.
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

/* Not into the programs that it starts: they run outside valgrind. */
__attribute__((constructor)) static void
forget(void)
{
    const char *preload = getenv("LD_PRELOAD");
    if (preload != NULL &&
        strstr(preload, "vgpreload") != NULL) /* not valgrind itself, at its start */
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
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(list, long); /* more than there are: whatever is there */
    va_end(list);
    if (number == SYS_pidfd_send_signal)
        return signal_pidfd((int) values[0], (int) values[1]);
    if (number == SYS_pidfd_open) {
        errno = ENOSYS; /* as it would say, with a warning each time */
        return -1;
    }
    long (*next)(long, ...) = (long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
    return next(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
