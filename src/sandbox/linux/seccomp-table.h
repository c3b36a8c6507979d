/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls that are denied in a sandbox, each with its reason. Pure data; seccomp.c makes
 * filters of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    int number; /* for calls whose name the library may not know; 0: it knows it */
    int errno_value;
    const char *reason;
} IpbDeniedCall;

/* Denied if (argument & mask) == value. Arguments that the kernel truncates to 32 bits are compared
 * with a mask of 32 bits: the upper half must not make a difference (CVE-2019-10063). */
typedef struct {
    const char *name;
    int number; /* as above */
    unsigned argument;
    uint64_t mask, value;
    int errno_value;
    const char *reason;
    /* If this mask is not 0, this argument must match, too. */
    unsigned other_argument;
    uint64_t other_mask, other_value;
} IpbDeniedArgument;

typedef struct {
    int family;
    const char *reason;
} IpbAllowedFamily;

/* A call about which the supervisor is asked. */
typedef struct {
    const char *name;
    int number; /* as above */
} IpbJudgedCall;

typedef struct {
    uint64_t command;
    const char *reason;
} IpbDeniedIoctl;

/* Their ioctls make names: subvolumes, snapshots. */
#define IPB_IOCTL_TYPE_BTRFS 0x94
#define IPB_IOCTL_TYPE_BCACHEFS 0xbc

extern const IpbDeniedCall IPB_DENIED_CALLS[];
extern const size_t IPB_N_DENIED_CALLS;
extern const IpbDeniedArgument IPB_DENIED_ARGUMENTS[];
extern const size_t IPB_N_DENIED_ARGUMENTS;
extern const IpbAllowedFamily IPB_ALLOWED_FAMILIES[];
extern const size_t IPB_N_ALLOWED_FAMILIES;
/* What makes or changes names in writable directories (file-calls.c). */
extern const IpbJudgedCall IPB_JUDGED_CALLS[];
extern const size_t IPB_N_JUDGED_CALLS;
/* Denied where names are judged: they would change names or attributes unseen. */
extern const IpbDeniedCall IPB_UNJUDGED_CALLS[];
extern const size_t IPB_N_UNJUDGED_CALLS;
extern const IpbDeniedIoctl IPB_UNJUDGED_IOCTLS[];
extern const size_t IPB_N_UNJUDGED_IOCTLS;
/* The calls that pid 1 needs once it is ready. */
extern const char *const IPB_INIT_CALLS[];
extern const size_t IPB_N_INIT_CALLS;
