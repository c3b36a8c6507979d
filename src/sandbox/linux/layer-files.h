/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of a layer share: its state, and work on files that other programs may exchange at
 * any time. Each path is opened in one call that follows no link and stays below its directory, on
 * one file system.
 */
#pragma once

#include <sys/stat.h>

#include "base/fd.h"
#include "sandbox/layer.h"

/* In the layer's directory. */
#define IPB_LAYER_UPPER "upper"
#define IPB_LAYER_WORK "work"
#define IPB_LAYER_COMMIT "commit"
#define IPB_LAYER_JOURNAL "commit/journal"
#define IPB_LAYER_COPIES "copies"
/* Of overlayfs: a directory hides what is below it. */
#define IPB_LAYER_OPAQUE "user.overlay.opaque"

/* A path that was committed: what both sides had then. If neither had a file, it was removed. */
typedef struct {
    IpbFileStamp real, written;
    unsigned commit; /* number of the commit; 0: of an earlier process */
} IpbCommitted;

struct IpbLayer {
    char *directory, *workspace;
    int lock_fd, directory_fd, workspace_fd, upper_fd;
    GMutex starts_mutex;
    GArray *starts;        /* int64_t: nanoseconds since 1970, rising */
    GHashTable *committed; /* path → IpbCommitted */
    bool is_frozen;
    unsigned n_commits;       /* of this process */
    struct IpbCopies *copies; /* layer-copies.c; or NULL */
};

/* Opens @path (relative, of names only; "." is the directory itself) below @directory. -1 with
 * errno. */
int ipb_layer_files_open(int directory, const char *path, int flags);
/* Opens the directory of @path as O_PATH, and says which name the path has in it. */
int ipb_layer_files_open_parent(int directory, const char *path, const char **ret_name);
IpbFileStamp ipb_layer_files_stamp(int directory, const char *name);
IpbFileStamp ipb_layer_files_stamp_of(const struct stat *info);
/* For files of ours. The second takes over @value. */
#define IPB_LAYER_STAMP_TYPE "(btttx)"
GVariant *ipb_layer_files_pack_stamp(const IpbFileStamp *stamp);
IpbFileStamp ipb_layer_files_unpack_stamp(GVariant *value);
bool ipb_layer_files_are_equal(const IpbFileStamp *a, const IpbFileStamp *b);
IpbNameKind ipb_layer_files_kind(mode_t mode);
/* What overlayfs makes where something was removed. */
bool ipb_layer_files_is_whiteout(const struct stat *info);
/* A directory of the layer that hides the workspace's. */
bool ipb_layer_files_is_opaque(int directory);
/* Is a directory above @path opaque? Then the workspace's @path is hidden. */
bool ipb_layer_files_is_hidden(int upper, const char *path);
/* Was @path, which was committed, removed from @upper without a mark? Overlayfs makes none in a
 * directory that was only in the upper layer when it was mounted, as before a commit. Then
 * *ret_upper and *ret_lower are its directories on both sides; the caller closes them. */
bool ipb_layer_files_is_unmarked(const IpbLayer *layer, int upper, const char *path,
                                 const IpbCommitted *committed, int *ret_upper, int *ret_lower);
/* The layer has no file of this commit any more. */
void ipb_layer_files_forget_written(IpbCommitted *committed);
/* Copies @size bytes from @from, which may change at the same time, without writing holes. */
bool ipb_layer_files_copy(int from, int to, uint64_t size);
/* Do two files have the same @size bytes? False also if they cannot be read. */
bool ipb_layer_files_have_same_bytes(int a, int b, uint64_t size);
/* What a symbolic link says; NULL with errno. The caller frees it. */
char *ipb_layer_files_read_link(int directory, const char *name);
/* "cannot write: no space left". The caller frees it. */
char *ipb_layer_files_problem(const char *what, int saved_errno);
/* Why the plan or the rules for names do not allow that @path (below the workspace) gets what
 * @kind says; NULL: they do. Some rules read what a file that gets the name has: @contents in
 * @directory. @is_planned: what is in the layer counts as if it were in the workspace. The caller
 * frees it. */
char *ipb_layer_files_judge(const IpbLayer *layer, const IpbSandboxPlan *plan, const char *path,
                            IpbChangeKind kind, IpbNameKind type, int directory,
                            const char *contents, bool is_planned);
IpbLayerChange *ipb_layer_change_new(const char *path, IpbChangeKind kind, IpbNameKind type);
void ipb_layer_change_free(IpbLayerChange *change);
/* As ipb_layer_list() of a copy of the upper layer. */
IpbLayerChanges *ipb_layer_list_copy(IpbLayer *layer, int upper);
/* Writes the table of what was committed. */
bool ipb_layer_save_committed(IpbLayer *layer, GError **error);
