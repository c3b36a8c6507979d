/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbFileStamps: what some files were like at one time, so that a change can be noticed later. It
 * notices that a file was created, removed, replaced, or changed.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef struct IpbFileStamps IpbFileStamps;

IpbFileStamps *ipb_file_stamps_new(void);
/* @path: absolute; copied. @may_grow: lines are appended to the file, which is no change. */
void ipb_file_stamps_add(IpbFileStamps *stamps, const char *path, bool may_grow);
bool ipb_file_stamps_are_current(const IpbFileStamps *stamps);
void ipb_file_stamps_free(IpbFileStamps *stamps);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbFileStamps, ipb_file_stamps_free)
