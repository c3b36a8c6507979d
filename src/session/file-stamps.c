/* SPDX-License-Identifier: Apache-2.0
 *
 * Stamps of files; see the header. A link counts as what it leads to.
 */
#include "session/file-stamps.h"

#include <sys/stat.h>

typedef struct {
    char *path;
    bool may_grow;
    bool is_there;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
} Stamp;

struct IpbFileStamps {
    GArray *stamps; /* Stamp */
};

static void
clear_stamp(void *data)
{
    g_free(((Stamp *) data)->path);
}

static void
take(Stamp *stamp)
{
    struct stat status;
    stamp->is_there = stat(stamp->path, &status) == 0;
    if (!stamp->is_there)
        return;
    stamp->device = status.st_dev;
    stamp->inode = status.st_ino;
    if (stamp->may_grow)
        return;
    stamp->size = status.st_size;
    stamp->changed = status.st_ctim;
}

static bool
is_equal(const Stamp *a, const Stamp *b)
{
    return a->is_there == b->is_there && a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

IpbFileStamps *
ipb_file_stamps_new(void)
{
    IpbFileStamps *stamps = g_new0(IpbFileStamps, 1);
    stamps->stamps = g_array_new(FALSE, FALSE, sizeof(Stamp));
    g_array_set_clear_func(stamps->stamps, clear_stamp);
    return stamps;
}

void
ipb_file_stamps_add(IpbFileStamps *stamps, const char *path, bool may_grow)
{
    Stamp stamp = {.path = g_strdup(path), .may_grow = may_grow};
    take(&stamp);
    g_array_append_val(stamps->stamps, stamp);
}

bool
ipb_file_stamps_are_current(const IpbFileStamps *stamps)
{
    for (guint i = 0; i < stamps->stamps->len; i++) {
        const Stamp *before = &g_array_index(stamps->stamps, Stamp, i);
        Stamp now = {.path = before->path, .may_grow = before->may_grow};
        take(&now);
        if (!is_equal(before, &now))
            return false;
    }
    return true;
}

void
ipb_file_stamps_free(IpbFileStamps *stamps)
{
    if (stamps == NULL)
        return;
    g_array_unref(stamps->stamps);
    g_free(stamps);
}
