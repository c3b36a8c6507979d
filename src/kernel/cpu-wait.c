/* SPDX-License-Identifier: Apache-2.0
 *
 * Time spent on a run queue, from /proc; see the header. The pid may have become another process's: then the figure is
 * wrong, and whoever uses it must bear that.
 */
#include "kernel/cpu-wait.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

uint64_t
ipb_cpu_wait_us(pid_t pid)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int) pid);
    ipb_autofd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (n < 0)
        return 0;
    text[n] = '\0';
    uint64_t ran_ns, waited_ns; /* proc(5): the first two of three */
    return sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) == 2 ? waited_ns / 1000 : 0;
}
