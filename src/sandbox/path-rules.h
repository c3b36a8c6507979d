/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPathRules: what may be read and written, path by path. First the policy, the program's options
 * and the built-in protections add rules, in any order. Then ipb_path_rules_resolve() derives the
 * access at each path from its rule and from the access of the directory above.
 *
 * The result is pure data. It says what a process inside finds at a path and whether it can write
 * there; how that is achieved is the backend's work. All paths are absolute and without symbolic
 * links.
 *
 * Ownership: the owner frees it; rules belong to it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

typedef enum {
    IPB_VIEW_HOST,   /* what the host has there */
    IPB_VIEW_HIDDEN, /* nothing */
    IPB_VIEW_OWN,    /* something of the sandbox's own: what the host has there is not seen */
    /* Likewise, made by the system's kernel (/dev, /proc): nothing of the host can be shown
     * below */
    IPB_VIEW_SYSTEM,
} IpbPathView;

/* What a sandbox has of its own at a path. */
typedef enum {
    IPB_OWN_DIRECTORY, /* empty at first, writable, of @size_bytes, gone with the sandbox */
    IPB_OWN_FILE,      /* read-only, with @content, such as /etc/resolv.conf */
    IPB_OWN_PROCESSES, /* the sandbox's processes: /proc */
    IPB_OWN_DEVICES,   /* null, zero, full, random, urandom, tty, fd, stdin, stdout, stderr, shm */
    IPB_OWN_TERMINALS, /* /dev/pts with a /dev/ptmx */
} IpbOwnKind;

typedef struct {
    IpbOwnKind kind;
    char *content;
    uint64_t size_bytes; /* 0: no limit of ours */
    char *reason;
} IpbOwnPlace;

/* What holds at a path. Paths below inherit the members after the blank line. */
typedef struct {
    IpbPathView view;
    bool is_writable;
    const char *reason; /* for people; borrowed from the rules; may be NULL */

    bool hides_all_below; /* nothing below can be shown again */
    bool is_write_allowed, is_write_denied;
    bool is_kept; /* what runs inside needs it: read-only unless a path below is writable by name */
    const char *read_reason, *write_reason;
} IpbPathAccess;

typedef struct IpbPathRule IpbPathRule;

/* What one or several keys say about one path. */
struct IpbPathRule {
    char *path;
    bool is_directory;
    bool keep;            /* readable whatever the policy says, never writable */
    bool allow_read;      /* wins over deny_read at the same path */
    bool deny_read;       /* wins over expose at the same path */
    bool hides_all_below; /* of deny_read: nothing below is readable again */
    bool expose;          /* readable if a directory above is hidden or private */
    bool allow_write;     /* implies expose */
    bool deny_write;      /* wins over allow_write here, above and below */
    /* The rules for names deny writing, too (name-rules.h). Likewise, but only in @access: where
     * each call is judged by its name, this rule is no more than a second wall. */
    bool deny_by_name;
    bool is_replaceable; /* of deny_by_name: with the right contents another file may replace it */
    /* There is nothing that a mount could cover: nothing is there, or a symbolic link. */
    bool is_missing;
    bool judges_reading; /* of deny_read: the policy says so */
    bool is_private;     /* an empty writable directory, unless the path is writable anyway */
    unsigned long n_hard_links; /* of a file that is denied for writing */
    IpbOwnPlace *own; /* NULL: none. What is below an own place is the sandbox's, not the host's */
    char *read_reason, *write_reason;

    /* Set by ipb_path_rules_resolve(). */
    const IpbPathRule *parent; /* the nearest rule above; NULL for "/" */
    IpbPathAccess access;
    IpbPathAccess unnamed; /* apart from deny_by_name */
};

/* A second name for a path that is kept: it is reached through a symbolic link. */
typedef struct {
    char *path; /* the name, as written */
    char *real;
} IpbPathAlias;

typedef struct {
    /* All rules, "/" first, a directory before what is in it. Empty before resolving. */
    GPtrArray *sorted;
    /* IpbPathAlias: those whose name cannot be seen otherwise. Empty before resolving. */
    GPtrArray *aliases;
    GPtrArray *warnings; /* char *, for people */

    GHashTable *by_path;     /* path → IpbPathRule */
    GHashTable *all_aliases; /* path as written → real path */
} IpbPathRules;

IpbPathRules *ipb_path_rules_new(void);
void ipb_path_rules_free(IpbPathRules *rules);

/* --- adding rules --- */

/* The rule of @path, created if there is none. Borrowed. */
IpbPathRule *ipb_path_rules_get(IpbPathRules *rules, const char *path, bool is_directory);
/* NULL if there is none. */
const IpbPathRule *ipb_path_rules_lookup(const IpbPathRules *rules, const char *path);
/* The first reason given for a path is the one that is shown. */
void ipb_path_rule_add_read_reason(IpbPathRule *rule, const char *reason);
void ipb_path_rule_add_write_reason(IpbPathRule *rule, const char *reason);
/* Puts a place of the sandbox's own at the rule's path, instead of one that was put there
 * before. */
IpbOwnPlace *ipb_path_rule_set_own(IpbPathRule *rule, IpbOwnKind kind, const char *reason);
/* Denies writing to what @path leads to, which need not be a real path and need not exist. Symbolic
 * links on the way cannot be replaced, either. */
void ipb_path_rules_deny_write(IpbPathRules *rules, const char *path, const char *reason);
/* Denies replacing the symbolic links at @links (char *): what they lead to is denied. */
void ipb_path_rules_deny_links(IpbPathRules *rules, const GPtrArray *links, const char *reason);
/* Denies writing to @path, a real path that exists, because of its name. */
void ipb_path_rules_deny_by_name(IpbPathRules *rules, const char *path, bool is_replaceable,
                                 const char *reason);
/* @real, a kept path, is also reached as @path. */
void ipb_path_rules_add_alias(IpbPathRules *rules, const char *path, const char *real);
void ipb_path_rules_warn(IpbPathRules *rules, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* --- the result --- */

/* Call it once, after all rules were added. */
void ipb_path_rules_resolve(IpbPathRules *rules);
/* The rule that decides what holds at @path: the one at it, or the nearest above. Never NULL.
 * Borrowed. */
const IpbPathRule *ipb_path_rules_find(const IpbPathRules *rules, const char *path);
/* Does the rule hide what is at its path? If the policy makes a hidden directory writable, code
 * inside gets an empty one instead. */
bool ipb_path_rule_hides(const IpbPathRule *rule);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbPathRules, ipb_path_rules_free)
