/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol, as ipybox-sandbox-init speaks it. The blob comes from our own core. It is checked
 * all the same, so that a mistake in the core cannot cause a wrong mount. A packet that cannot be
 * sent is dropped: the core has ended then, and pid 1 ends when it notices this.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define ALIGNMENT 8u

bool
ipb_step_fail(IpbStepError *error, IpbStep step, uint32_t index)
{
    *error = (IpbStepError){step, errno, index};
    return false;
}

/* --- the blob --------------------------------------------------------------------------------- */

static bool
is_table_good(size_t size, IpbBlobTable table, size_t row_size, uint32_t max_rows)
{
    return table.count == 0 || (table.count <= max_rows && table.offset % ALIGNMENT == 0 &&
                                table.offset >= sizeof(IpbBlobHeader) && table.offset < size &&
                                table.count <= (size - table.offset) / row_size);
}

/* The blob ends with a NUL, so a string that begins in it ends in it. */
static bool
is_string_good(size_t size, uint32_t offset)
{
    return offset == 0 || (offset >= sizeof(IpbBlobHeader) && offset < size);
}

static bool
is_path_good(const uint8_t *bytes, size_t size, uint32_t offset)
{
    return offset != 0 && is_string_good(size, offset) && bytes[offset] == '/';
}

static bool
are_strings_good(const uint8_t *bytes, size_t size, IpbBlobTable table)
{
    if (!is_table_good(size, table, sizeof(uint32_t), IPB_BLOB_MAX_STRINGS))
        return false;
    const uint32_t *offsets = ipb_blob_at(bytes, table);
    for (uint32_t i = 0; i < table.count; i++)
        if (offsets[i] == 0 || !is_string_good(size, offsets[i]))
            return false;
    return true;
}

static bool
is_mount_good(const uint8_t *bytes, size_t size, const IpbBlobMount *mount)
{
    if (mount->kind == 0 || mount->kind > IPB_MOUNT_LAST ||
        !is_path_good(bytes, size, mount->target))
        return false;
    bool needs_source = mount->kind == IPB_MOUNT_READ_ONLY || mount->kind == IPB_MOUNT_WRITABLE ||
                        mount->kind == IPB_MOUNT_LAYER || mount->kind == IPB_MOUNT_STAGED;
    if (needs_source && !is_path_good(bytes, size, mount->source))
        return false;
    return mount->kind != IPB_MOUNT_FILE ||
           (mount->content >= sizeof(IpbBlobHeader) && mount->content <= size &&
            mount->content_size <= size - mount->content);
}

static bool
are_mounts_good(const uint8_t *bytes, size_t size, const IpbBlobHeader *header)
{
    if (!is_table_good(size, header->mounts, sizeof(IpbBlobMount), IPB_BLOB_MAX_MOUNTS))
        return false;
    const IpbBlobMount *mounts = ipb_blob_at(bytes, header->mounts);
    for (uint32_t i = 0; i < header->mounts.count; i++)
        if (!is_mount_good(bytes, size, &mounts[i]))
            return false;
    if ((header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    /* The first mount is the root. */
    return header->mounts.count > 0 &&
           (mounts[0].kind == IPB_MOUNT_READ_ONLY || mounts[0].kind == IPB_MOUNT_WRITABLE) &&
           strcmp(ipb_blob_string(bytes, mounts[0].source), "/") == 0 &&
           strcmp(ipb_blob_string(bytes, mounts[0].target), "/") == 0;
}

/* A name is one component: it cannot lead out of /proc/sys/user. */
static bool
are_counters_good(const uint8_t *bytes, size_t size, IpbBlobTable table)
{
    if (!is_table_good(size, table, sizeof(IpbBlobCounter), IPB_BLOB_MAX_COUNTERS))
        return false;
    const IpbBlobCounter *counters = ipb_blob_at(bytes, table);
    for (uint32_t i = 0; i < table.count; i++)
        if (counters[i].name == 0 || !is_string_good(size, counters[i].name) ||
            strchr(ipb_blob_string(bytes, counters[i].name), '/') != NULL)
            return false;
    return true;
}

static bool
is_blob_good(const uint8_t *bytes, size_t size)
{
    const IpbBlobHeader *header = (const IpbBlobHeader *) bytes;
    if (size < sizeof *header || size > IPB_BLOB_MAX_SIZE || bytes[size - 1] != '\0')
        return false;
    if (header->magic != IPB_BLOB_MAGIC || header->size != size)
        return false;
    if (!is_string_good(size, header->hostname) ||
        (header->cwd != 0 && !is_path_good(bytes, size, header->cwd)))
        return false;
    if (!are_strings_good(bytes, size, header->argv) || !are_strings_good(bytes, size, header->env))
        return false;
    if (!are_mounts_good(bytes, size, header))
        return false;
    if (!is_table_good(size, header->listeners, sizeof(IpbBlobListener), IPB_BLOB_MAX_LISTENERS) ||
        !is_table_good(size, header->limits, sizeof(IpbBlobLimit), IPB_BLOB_MAX_LIMITS) ||
        !are_counters_good(bytes, size, header->counters))
        return false;
    const IpbBlobTable filters[] = {header->filter, header->names_filter, header->connect_filter,
                                    header->init_filter};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (!is_table_good(size, filters[i], sizeof(struct sock_filter), IPB_BLOB_MAX_FILTER))
            return false;
    if (((header->flags & IPB_BLOB_NAMES) != 0 && header->names_filter.count == 0) ||
        ((header->flags & IPB_BLOB_CONNECT) != 0 && header->connect_filter.count == 0))
        return false;
    /* Nothing runs without a filter. */
    if (header->filter.count == 0 || header->init_filter.count == 0)
        return false;
    return true;
}

bool
ipb_blob_map(int fd, const uint8_t **ret_bytes, IpbStepError *error)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return ipb_step_fail(error, IPB_STEP_BLOB, 0);
    if (info.st_size < (off_t) sizeof(IpbBlobHeader) || info.st_size > IPB_BLOB_MAX_SIZE) {
        errno = EBADMSG;
        return ipb_step_fail(error, IPB_STEP_BLOB, 0);
    }
    size_t size = (size_t) info.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return ipb_step_fail(error, IPB_STEP_BLOB, 0);
    if (!is_blob_good(bytes, size)) {
        munmap(bytes, size);
        errno = EBADMSG;
        return ipb_step_fail(error, IPB_STEP_BLOB, 0);
    }
    *ret_bytes = bytes;
    return true;
}

/* --- packets ---------------------------------------------------------------------------------- */

bool
ipb_report(int control, const IpbPacket *packet, int fd)
{
    struct iovec part = {(void *) packet, sizeof *packet};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &ancillary;
        message.msg_controllen = sizeof ancillary;
        struct cmsghdr *item = CMSG_FIRSTHDR(&message);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(item), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(control, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t) sizeof *packet;
}

void
ipb_report_failure(int control, const IpbStepError *error)
{
    IpbPacket packet = {.type = IPB_PACKET_FAILED, .error = *error};
    ipb_report(control, &packet, -1);
}
