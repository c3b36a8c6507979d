/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of what Linux counts for each user: inotify instances, watches, namespaces. Linux counts
 * such a thing in the sandbox's user namespace, and again for the user who made that namespace. So
 * a small limit here keeps one sandbox from using up what the user has. /proc/sys/user shows a
 * process the limits of its own user namespace, and only a process with rights over it may change
 * them.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"
#include "sandbox/linux/init/text.h"

#define PLACE "sys/user"
/* Every kernel has this one. */
#define SAMPLE "max_user_namespaces"

static bool
is_writable(int place)
{
    int fd = place < 0 ? -1 : openat(place, SAMPLE, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* A /proc of our own, which is not attached anywhere. */
static int
open_own_place(void)
{
    int fs = sys_fsopen("proc");
    if (fs < 0)
        return -1;
    int tree = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0 ? -1 : sys_fsmount(fs, 0);
    close(fs);
    if (tree < 0)
        return -1;
    int place = openat(tree, PLACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
    close(tree);
    return place;
}

bool
ipb_counters_open(IpbInit *init, IpbStepError *error)
{
    init->counters = -1;
    if ((init->header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    init->counters = open("/proc/" PLACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (is_writable(init->counters))
        return true;
    /* Containers mount /proc/sys read-only, or leave it out. */
    if (init->counters >= 0)
        close(init->counters);
    init->counters = open_own_place();
    return is_writable(init->counters) || ipb_step_fail(error, IPB_STEP_COUNTER, 0);
}

/* An older kernel does not have all of them. What it does not have, it does not count. */
static bool
set_counter(int place, const char *name, uint32_t value)
{
    int fd = openat(place, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    IpbText text = {0};
    ipb_text_add_number(&text, value);
    ssize_t n = write(fd, text.bytes, text.size);
    int saved = errno;
    close(fd);
    errno = saved;
    return n == (ssize_t) text.size;
}

bool
ipb_counters_limit(IpbInit *init, IpbStepError *error)
{
    if (init->counters < 0)
        return true;
    const IpbBlobCounter *counters = ipb_blob_at(init->bytes, init->header->counters);
    for (uint32_t i = 0; i < init->header->counters.count; i++)
        if (!set_counter(init->counters, ipb_blob_string(init->bytes, counters[i].name),
                         counters[i].value))
            return ipb_step_fail(error, IPB_STEP_COUNTER, i);
    close(init->counters);
    init->counters = -1;
    return true;
}
