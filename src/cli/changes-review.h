/* SPDX-License-Identifier: Apache-2.0
 *
 * Reviews what a staged session has changed, at the terminal: shows it, asks, and commits it. The
 * session has ended.
 */
#pragma once

#include "cli/cli.h"

typedef struct {
    const IpbVerb *verb;
    const char *layer;          /* its directory */
    const char *sandbox_config; /* which names may be committed; NULL: the default */
    const char *const *paths;   /* NULL: all */
    bool is_approved;           /* no one is asked: everything is committed */
    bool is_unasked;            /* likewise: nothing is */
    bool must_ask;              /* without a terminal, a commit is an error */
    const char *record;         /* of the session: a commit is added to it; or NULL */
} IpbChangesReview;

/* Where layers are kept. Caller frees. */
char *ipb_changes_review_place(const char *staging_dir);
/* Shows what has changed. @has_diffs: with diffs of texts. Returns an exit status. */
int ipb_changes_review_show(const IpbChangesReview *review, bool as_json, bool has_diffs);
/* Shows what will be committed, asks, and commits it. Without a terminal it says what to do. Does
 * nothing if there is no layer or nothing has changed. Returns an exit status. */
int ipb_changes_review_commit(const IpbChangesReview *review);
int ipb_changes_review_discard(const IpbChangesReview *review);
/* The same without a message if all goes well, for what no one wants to keep. There may be no
 * layer. */
int ipb_changes_review_drop(const IpbChangesReview *review);
