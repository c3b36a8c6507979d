/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLayer: what the code of a staged session has written to its workspace. The sandbox shows it an
 * overlay: what is written goes to a directory of the layer, and the workspace itself stays as it
 * is until a commit.
 *
 * Everything in the layer is hostile, and processes of the session may change it at any time. So a
 * commit has two steps. First what is to be committed is copied to a place that nothing inside can
 * reach: it is frozen. Then what is frozen is listed, approved, judged by the rules for names, and
 * put into the workspace. A journal makes the second step one that can be finished after a kill.
 *
 * A layer is a directory. One process at a time has it open, and holds its lock. If that process is
 * killed, the next one opens the layer as it is.
 *
 * Ownership: the owner closes it. The functions wait for the disk, and may be called in any thread,
 * but, with one exception, not in two at the same time.
 */
#pragma once

#include "sandbox/plan.h"

typedef struct IpbLayer IpbLayer;

/* How many changes one look at a layer lists at most. */
#define IPB_LAYER_MAX_CHANGES 100000
/* How deep directories are entered. What is below is reported as one change with a problem. */
#define IPB_LAYER_MAX_DEPTH 128

typedef enum { IPB_CHANGE_ADDED, IPB_CHANGE_CHANGED, IPB_CHANGE_REMOVED } IpbChangeKind;

/* What a file was. Two equal ones mean that it has not changed. */
typedef struct {
    bool exists;
    uint32_t mode;
    uint64_t inode, size;
    int64_t changed_ns; /* ctime */
} IpbFileStamp;

typedef struct {
    char *path; /* below the workspace; any bytes but NUL */
    IpbChangeKind kind;
    IpbNameKind type;     /* of what is added, changed or removed */
    uint64_t old_size;    /* of a file in the workspace */
    uint64_t size;        /* of a file in the layer */
    uint32_t mode;        /* permissions */
    IpbFileStamp base;    /* what the workspace has at the path */
    IpbFileStamp written; /* what the layer has */
    char *problem;        /* why it cannot be committed, or was not; for people; or NULL */
    bool is_conflict;     /* the file of the workspace was changed, too */
    bool is_done;         /* by a commit */
} IpbLayerChange;

typedef struct {
    GPtrArray *changes; /* IpbLayerChange, in the order in which they are made */
    /* There are more, or a directory could not be read; for people; or NULL */
    char *cut;
} IpbLayerChanges;

void ipb_layer_changes_free(IpbLayerChanges *changes);

/* Makes a layer for @workspace (a real path) in a new directory @directory. */
IpbLayer *ipb_layer_new(const char *directory, const char *workspace, GError **error);
/* Opens one that exists. BUSY: another process has it. */
IpbLayer *ipb_layer_open(const char *directory, GError **error);
/* Removes its directory if @is_removed. Its overlay must be gone. */
void ipb_layer_close(IpbLayer *layer, bool is_removed);
const char *ipb_layer_directory(const IpbLayer *layer);
const char *ipb_layer_workspace(const IpbLayer *layer);
/* When it was made: seconds since 1970. */
int64_t ipb_layer_started(const IpbLayer *layer);
/* From now on code runs that has seen the workspace as it is now. What the host changes later, and
 * code then writes, is a conflict. It may be called while another thread works on the layer. */
void ipb_layer_note_start(IpbLayer *layer);

/* Before a sandbox uses the layer: drops what is in the workspace since a commit, so that code sees
 * what the host does with it later. */
void ipb_layer_prune(IpbLayer *layer);

/* What differs from the workspace. @plan: the rules for names say what cannot be committed. */
IpbLayerChanges *ipb_layer_list(IpbLayer *layer, const IpbSandboxPlan *plan);
/* Is there nothing to commit, and no commit that was interrupted? Quicker than a list: it stops at
 * the first change. After 4 MiB of files that have to be compared with the workspace's, it takes
 * the next one for a change. */
bool ipb_layer_is_empty(IpbLayer *layer);
/* Is @path one of @paths, or below one? NULL: every path is. */
bool ipb_layer_is_chosen(const char *path, const char *const *paths);
/* Drops the changes that are not at one of @paths. @has_parents: new directories above them stay.
 * NOT_FOUND: nothing has changed at one of them. */
bool ipb_layer_choose(IpbLayerChanges *changes, const char *const *paths, bool has_parents,
                      GError **error);

/* --- commit --- */

/* Copies what has changed at @paths (below the workspace; NULL: all) to where only we write.
 * Returns what was frozen; changes with a problem are in the list, too. *ret_digest: SHA-256 of all
 * paths, modes and contents that will be committed; the caller frees it. BUSY: a commit that was
 * interrupted has to be finished. NOT_FOUND: a path has no change. LIMIT: there are too many. */
IpbLayerChanges *ipb_layer_freeze(IpbLayer *layer, const IpbSandboxPlan *plan,
                                  const char *const *paths, char **ret_digest, GError **error);
/* Puts what is frozen into the workspace. Returns it, with what became of each change. It is not
 * frozen any more then. */
IpbLayerChanges *ipb_layer_commit(IpbLayer *layer, const IpbSandboxPlan *plan, GError **error);
/* Forgets what is frozen. */
void ipb_layer_thaw(IpbLayer *layer);
/* Is there a commit that a kill has interrupted? ipb_layer_commit() finishes it. */
bool ipb_layer_is_interrupted(const IpbLayer *layer);
/* A file as it is in the layer, and in the workspace, for a diff: at most @max bytes each. *ret_old
 * and *ret_new are NULL if there is no such file. False: one of them is larger, or no text. */
bool ipb_layer_read_both(IpbLayer *layer, const char *path, size_t max, char **ret_old,
                         char **ret_new);

/* --- discard --- */

/* Whose rights files in the overlay are changed with. */
typedef struct {
    uint32_t uid, gid;
} IpbLayerUser;

/* Undoes what has changed at @paths (NULL: all). @inside: the workspace as code inside sees it; -1:
 * no sandbox uses the layer now. Returns what was undone. */
IpbLayerChanges *ipb_layer_discard(IpbLayer *layer, const char *const *paths, int inside,
                                   const IpbLayerUser *user, GError **error);

/* --- checkpoints --- */

/* Keeps a copy of all changes under @number, which has none yet, until the layer is closed. Files
 * that have not changed since the last copy are not copied again. LIMIT: there is too much; SYSTEM:
 * something cannot be copied. */
bool ipb_layer_keep(IpbLayer *layer, uint64_t number, GError **error);
/* Gives files inside the state of a copy, which remains. What was committed since then stays as it
 * is in the workspace. If a kill interrupts it, the next process that opens the layer puts the copy
 * in place. NOT_FOUND: there is no such copy; SYSTEM: some files could not be restored, and the
 * text names one. @inside, @user: as for ipb_layer_discard(). */
bool ipb_layer_restore(IpbLayer *layer, uint64_t number, int inside, const IpbLayerUser *user,
                       GError **error);
void ipb_layer_drop(IpbLayer *layer, uint64_t number);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbLayerChanges, ipb_layer_changes_free)
