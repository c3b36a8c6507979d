/* SPDX-License-Identifier: Apache-2.0
 *
 * How names are compared. Some file systems ignore case (ext4 and f2fs with casefold, NTFS, HFS+),
 * some ignore characters that are not visible, some normalise, some have short names. A rule holds
 * for each name by which any of them would find the file.
 *
 * Pure; allocates only for names that are not ASCII.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define IPB_NAME_FOLD_BYTES 256

typedef struct {
    char text[IPB_NAME_FOLD_BYTES]; /* ends in NUL; of a name that is too long: its beginning */
    size_t size;
    uint32_t hash;
} IpbFoldedName;

/* The name as it is compared: without case, without what follows a ":" or ends it in dots and
 * spaces. Bytes that are not UTF-8 stay as they are. */
void ipb_name_fold(const char *name, size_t size, IpbFoldedName *ret_folded);
