/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCopies: the copies of an upper layer that checkpoints keep, in the directory "copies" of the
 * layer. Each is a directory as overlayfs would have it, so that it can take the place of the upper
 * layer. A file that has not changed since the last copy is a hard link to the file there. Only we
 * write there.
 *
 * They end with the process that has the layer open. What a process leaves that was killed is
 * removed when the layer is opened again.
 *
 * Ownership: the layer's, which has none before the first copy.
 */
#pragma once

#include "sandbox/linux/layer-files.h"

typedef struct IpbCopies IpbCopies;

/* Opens a copy. -1 with NOT_FOUND. *ret_commits: the number of the last commit before it. */
int ipb_copies_open(const IpbLayer *layer, uint64_t number, unsigned *ret_commits, GError **error);
/* From now on until ipb_copies_end_restore(), a kill means that ipb_copies_recover() puts the copy
 * in place of the upper layer, without @skipped (paths, NULL-terminated). */
bool ipb_copies_begin_restore(const IpbLayer *layer, uint64_t number, const char *const *skipped,
                              GError **error);
void ipb_copies_end_restore(const IpbLayer *layer);
/* Before the upper layer is opened: finishes a restore that was interrupted, and removes copies. */
bool ipb_copies_recover(const IpbLayer *layer, GError **error);
/* Removes them. */
void ipb_copies_free(IpbLayer *layer);
