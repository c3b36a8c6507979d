/* SPDX-License-Identifier: Apache-2.0
 *
 * rlimits, and who goes first when memory runs out.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox/linux/init/text.h"

static bool
set_limit(const IpbBlobLimit *limit)
{
    struct rlimit old, wanted = {.rlim_cur = limit->soft, .rlim_max = limit->hard};
    if (getrlimit((int) limit->resource, &old) < 0)
        return false;
    /* Never above what the caller had: that would need a right we do not have. */
    if (wanted.rlim_max > old.rlim_max)
        wanted.rlim_max = old.rlim_max;
    if (wanted.rlim_cur > wanted.rlim_max)
        wanted.rlim_cur = wanted.rlim_max;
    return setrlimit((int) limit->resource, &wanted) == 0;
}

static bool
set_oom_score(int32_t score)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT; /* a plan without /proc */
    IpbText text = {0};
    ipb_text_add_number(&text, (uint64_t) score);
    ssize_t n = write(fd, text.bytes, text.size);
    int saved = errno;
    close(fd);
    errno = saved;
    return n == (ssize_t) text.size;
}

bool
ipb_limits_set(const uint8_t *blob, IpbStepError *error)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) blob;
    const IpbBlobLimit *limits = ipb_blob_at(blob, header->limits);
    if (header->oom_score_adj > 0 && !set_oom_score(header->oom_score_adj))
        return ipb_step_fail(error, IPB_STEP_OOM, 0);
    for (uint32_t i = 0; i < header->limits.count; i++)
        if (!set_limit(&limits[i]))
            return ipb_step_fail(error, IPB_STEP_LIMIT, i);
    return true;
}
