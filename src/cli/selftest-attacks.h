/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks of `ipybox selftest`. Each runs in a process of its own, once inside a sandbox and
 * once without one. Where they succeed, they change only files that the selftest has made for
 * them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

typedef struct {
    const char
        *outside; /* outside of the sandbox: a directory with "file" and the socket "socket" */
    const char *abstract; /* name of an abstract socket that listens on the host */
    int port;             /* of a TCP listener on the host's 127.0.0.1 */
    int pid;              /* a process of the host */
    /* What tells it from a process inside that has the same number, as in containers:
     * ipb_attack_start_time() */
    unsigned long long started;
    /* With a staged workspace: the directory of its layer; else NULL */
    const char *layer;
    const char *workspace; /* on the host, for IpbAttackCheck */
} IpbAttackTargets;

/* Whether an attack has had its effect on the host: on files below the workspace or outside. */
typedef bool (*IpbAttackCheck)(const IpbAttackTargets *targets);

typedef struct {
    const char *section, *name;
    /* Returns 0 if the attack worked, else the errno of its failure. */
    int (*run)(const IpbAttackTargets *targets);
    bool needs_names; /* is stopped only where names are judged: see on_unnamed of IpbSandbox */
    /* What counts instead of the result of @run, if not NULL. It leaves its files in the directory
     * "area" of the workspace, and is checked after they were committed... */
    IpbAttackCheck has_effect;
    bool is_live; /* ...or before that */
} IpbAttack;

/* When the process was started, in the system's ticks: the same number in each namespace. 0: it
 * cannot be read, or there is no such process. */
unsigned long long ipb_attack_start_time(int pid);

/* Attacks send one of these on their standard input, a socket, and wait for any byte. */
#define IPB_ATTACK_REPLACE 'r' /* replace .git/config by a rename, as editors do */
#define IPB_ATTACK_CREATE 'c'  /* create later/.env */

/* Those of a staged workspace are the last ones. */
extern const IpbAttack IPB_ATTACKS[];
size_t ipb_attacks_count(bool is_staged);

/* What attacks on a staged workspace leave, beside its harmless twin: "area/harmless" must have
 * this text after the commit. */
#define IPB_ATTACK_HARMLESS "harmless"
/* Makes the files in "area" and outside that attacks on a staged workspace want to change. */
bool ipb_attacks_make_area(const IpbAttackTargets *targets, GError **error);

/* Runs all attacks in the working directory, those of a staged workspace only if there is a layer.
 * Prints a line for each: its number, a space, the errno. A process that is killed counts as
 * EINTR. */
bool ipb_attacks_run(const IpbAttackTargets *targets);
