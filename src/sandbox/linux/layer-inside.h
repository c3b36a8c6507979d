/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLayerInside: the workspace as code inside sees it, an overlay that is mounted. Its layer must
 * not be changed from below then, so files are changed in the overlay, as code inside could do it.
 * Processes inside that have them open see that.
 *
 * Everything in the overlay is hostile, and may be exchanged at the same time. No link is followed,
 * and no other mount is entered. Functions return false with errno.
 */
#pragma once

#include "sandbox/linux/layer-files.h"

typedef struct {
    int fd; /* borrowed, as @user */
    const IpbLayerUser *user;
} IpbLayerInside;

bool ipb_layer_inside_stat(const IpbLayerInside *inside, const char *path, struct stat *ret_info);
/* What is not there is no error. */
bool ipb_layer_inside_remove(const IpbLayerInside *inside, const char *path, bool is_directory);
/* Or gives one that exists these permissions. */
bool ipb_layer_inside_make_directory(const IpbLayerInside *inside, const char *path, uint32_t mode);
/* Gives @path the contents, permissions and times of @from. A file that is there keeps its inode,
 * unless it has other names, too. */
bool ipb_layer_inside_put_file(const IpbLayerInside *inside, const char *path, int from);
/* Has @path the contents and permissions of @from? */
bool ipb_layer_inside_has_file(const IpbLayerInside *inside, const char *path, int from);
/* In place of a link, or of nothing. */
bool ipb_layer_inside_put_link(const IpbLayerInside *inside, const char *path, const char *target);
bool ipb_layer_inside_has_link(const IpbLayerInside *inside, const char *path, const char *target);
/* A FIFO or a socket, which nothing serves. */
bool ipb_layer_inside_make_special(const IpbLayerInside *inside, const char *path, mode_t mode);
