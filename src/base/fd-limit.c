/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. The limit belongs to the process, and so does its old value: it is the one
 * variable of this file, written once, before there are threads.
 */
#include "base/fd-limit.h"

#include <stdbool.h>
#include <sys/resource.h>

static struct rlimit old_limit;
static bool is_raised;

void
ipb_fd_limit_raise(void)
{
    if (is_raised || getrlimit(RLIMIT_NOFILE, &old_limit) < 0)
        return;
    struct rlimit limit = {old_limit.rlim_max, old_limit.rlim_max};
    is_raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

void
ipb_fd_limit_restore(void *unused)
{
    struct rlimit limit;
    if (!is_raised || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    /* Someone may have lowered it since (prlimit). */
    if (limit.rlim_cur > old_limit.rlim_cur)
        limit.rlim_cur = old_limit.rlim_cur;
    setrlimit(RLIMIT_NOFILE, &limit);
}
