/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbNameRules: which names code inside may read, create, change and remove in the directories that
 * it may write. A rule says who runs or obeys a file of that name later, outside the sandbox, and
 * what is therefore refused. The rules hold for names, whether a file exists or not, and no
 * matter which program creates it. docs/name-rules.md has the table with its reasons.
 *
 * The rules are closed under rename and link. If a directory, a link or a file gets a new name, no
 * file in it gets a name that code inside could not have created. So a backend may judge each call
 * for itself, if the path stays what it is until the call is done.
 *
 * Names are compared without case, and without characters that some file systems ignore.
 *
 * Pure: no system calls. Threads: judging may happen in any thread, since rules never change.
 */
#pragma once

#include "sandbox/policy.h"

typedef enum {
    IPB_NAME_READ,   /* open for reading */
    IPB_NAME_WRITE,  /* change the contents, mode, owner or attributes of what exists */
    IPB_NAME_CREATE, /* a new empty file, directory or FIFO */
    IPB_NAME_PUT,    /* what exists gets the name: rename, link; also a new symbolic link */
    IPB_NAME_REMOVE, /* the name goes away: unlink, rmdir, the source of a rename */
} IpbNameAction;

typedef enum {
    IPB_NAME_FILE,
    IPB_NAME_DIRECTORY,
    IPB_NAME_LINK,    /* symbolic */
    IPB_NAME_SPECIAL, /* FIFO, socket, device */
} IpbNameKind;

typedef enum {
    IPB_NAME_ALLOWED,
    IPB_NAME_REFUSED,
    /* Of PUT: allowed if ipb_name_rule_accepts() accepts the contents. The backend must give the
     * name to a new file with these contents, because code inside may hold the old one open. */
    IPB_NAME_PARSED,
} IpbNameVerdict;

/* One row of the table. A constant. */
typedef struct IpbNameRule IpbNameRule;

typedef struct {
    IpbNameAction action;
    IpbNameKind kind; /* of what has the name or gets it */
    /* Absolute, without symbolic links in its directories. The first @root_size bytes are the path
     * of the writable directory that it is in. Names count from that directory's own name on. */
    const char *path;
    size_t root_size;
    /* Of PUT by a rename: what is renamed, likewise. NULL otherwise. */
    const char *source;
    size_t source_root_size;
    bool is_rmdir; /* Of REMOVE: by rmdir(), so the directory is empty. Otherwise it is renamed */
    /* Of WRITE: only the mode changes, and no other user gets the right to write. git tries
     * out on its config whether the file system has modes. */
    bool is_mode;
    /* Is there anything with the name @name in the directory whose path are the first
     * @directory_size bytes of @path? Called for few names only. */
    bool (*has_entry)(const char *path, size_t directory_size, const char *name, void *data);
    /* Is what is at the first @directory_size bytes of @path anything but a directory (not a link
     * to one) in which all names end in @suffix? True if that cannot be found out. NULL: always
     * true. */
    bool (*has_other)(const char *path, size_t directory_size, const char *suffix, void *data);
    void *data;
} IpbNameQuestion;

typedef struct {
    IpbNameVerdict verdict;
    const IpbNameRule *rule; /* that decided; NULL: none did */
    /* It depends on what else is in a directory. If two backends act in one workspace at the same
     * time, nothing may change between the judgement and the action: they have to take a lock. */
    bool is_structural;
} IpbNameJudgement;

typedef struct IpbNameRules IpbNameRules;

/* @home: absolute; some rules are about names in it. INVALID: allowNames has a pattern that is not
 * one. */
IpbNameRules *ipb_name_rules_new(const IpbSandboxPolicy *policy, const char *home, GError **error);
void ipb_name_rules_free(IpbNameRules *rules);

IpbNameJudgement ipb_name_rules_judge(const IpbNameRules *rules, const IpbNameQuestion *question);
/* Does @rule, which said PARSED, accept a file @path with these contents? If not, *ret_reason says
 * why, for people; caller frees. */
bool ipb_name_rule_accepts(const IpbNameRule *rule, const char *path, size_t root_size,
                           const char *contents, size_t size, char **ret_reason);
/* Files that are larger are not accepted. */
#define IPB_NAME_MAX_PARSED_BYTES ((size_t) 1 << 20)
/* Files that a backend makes for PARSED have names that begin so, while they are written. A rule
 * refuses everything about them to code inside. */
#define IPB_NAME_OWN_PREFIX ".ipybox-new-"

/* --- for people --- */

struct IpbNameRule {
    const char *pattern; /* "**" stands for everything below, "~/" for the home directory */
    const char *who;     /* who runs or obeys it: "bash runs it" */
    const char *refused; /* what is refused: "write", "all but *.sample", … */
    const char *key;     /* the key that allows it: "allowNames", "allowGitConfig" */
};

/* The rows in the order of the table; NULL after the last one. */
const IpbNameRule *ipb_name_rules_at(size_t index);
/* Why @pattern cannot be in allowNames; a constant. NULL: it can. */
const char *ipb_name_pattern_flaw(const char *pattern);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbNameRules, ipb_name_rules_free)
