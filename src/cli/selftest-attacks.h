/* SPDX-License-Identifier: Apache-2.0
 *
 * What `ipybox selftest` tries: attacks, each in a process of its own, once inside a sandbox and once without one. They change
 * nothing but what the selftest made for them, so that they may succeed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char
        *outside; /* a directory that is not for the sandbox, with "file" and the socket "socket" */
    const char *abstract; /* name of an abstract socket that listens on the host */
    int port;             /* of a TCP listener on the host's 127.0.0.1 */
    int pid;              /* a process of the host */
} IpbAttackTargets;

typedef struct {
    const char *section, *name;
    /* 0: it worked; else the errno with which it was kept from it. */
    int (*run)(const IpbAttackTargets *targets);
} IpbAttack;

extern const IpbAttack IPB_ATTACKS[];
extern const size_t IPB_N_ATTACKS;

/* Runs all of them in the working directory; a line for each on stdout: its number, a blank, the errno. A process that is killed
 * counts as EINTR. */
bool ipb_attacks_run(const IpbAttackTargets *targets);
