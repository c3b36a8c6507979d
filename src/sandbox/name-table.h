/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of name rules. Only name-rules.c uses it; docs/name-rules.md shows it to people.
 *
 * A pattern is a sequence of names, which may have one "*" each. It holds anywhere in a writable
 * directory, or with "~/" in the home directory. "/" + "**" at the end stands for a directory with
 * everything below it. In "*.git/" and "(bare)/", which only the table has, the directory is found
 * by what is in it.
 */
#pragma once

#include "sandbox/name-rules.h"

typedef enum {
    IPB_ROW_ALLOWED,  /* an exception from a row below it */
    IPB_ROW_REFUSED,  /* @actions are refused */
    IPB_ROW_PARSED,   /* likewise; PUT is allowed for contents that the parser accepts */
    IPB_ROW_GIT,      /* git's repositories: name-rules.c knows what holds */
    IPB_ROW_MENTIONED /* nothing is refused; the table says why */
} IpbNameRowKind;

typedef enum {
    IPB_PARSER_NONE,
    IPB_PARSER_GIT_CONFIG,
    IPB_PARSER_GIT_MODULES,
    IPB_PARSER_GIT_TODO,
} IpbNameParser;

#define IPB_ACTION_BIT(action) (1u << (action))

typedef struct {
    IpbNameRule rule; /* first: a rule is a pointer to its row */
    IpbNameRowKind kind;
    IpbNameParser parser;
    unsigned actions; /* IPB_ACTION_BIT() */
    bool is_movable;  /* a directory on the way to it may be renamed */
} IpbNameRow;

typedef enum {
    IPB_GIT_ROW_CONFIG,
    IPB_GIT_ROW_HOOKS,
    IPB_GIT_ROW_REMOTES,
    IPB_GIT_ROW_BRANCHES,
    IPB_GIT_ROW_LINK, /* ".git" as a symbolic link, or a directory that is no repository */
} IpbGitRow;

extern const IpbNameRow IPB_NAME_TABLE[];
extern const size_t IPB_NAME_TABLE_SIZE;

/* The rows that name-rules.c applies itself. */
const IpbNameRow *ipb_name_table_git(IpbGitRow row);
