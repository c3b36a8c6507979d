/* SPDX-License-Identifier: Apache-2.0
 *
 * Which system calls a sandbox does without, each with its reason. Pure data; seccomp.c makes filters of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    int number; /* for calls that the library may not know by name; 0: it does */
    int errno_value;
    const char *reason;
} IpbDeniedCall;

/* Denied if (argument & mask) == value. Arguments that the kernel cuts to 32 bits are compared with a mask of 32 bits: what the
 * upper half holds must not make a difference (CVE-2019-10063). */
typedef struct {
    const char *name;
    int number; /* as above */
    unsigned argument;
    uint64_t mask, value;
    int errno_value;
    const char *reason;
    /* And, if the mask is not 0, this holds for another argument. */
    unsigned other_argument;
    uint64_t other_mask, other_value;
} IpbDeniedArgument;

typedef struct {
    int family;
    const char *reason;
} IpbAllowedFamily;

extern const IpbDeniedCall IPB_DENIED_CALLS[];
extern const size_t IPB_N_DENIED_CALLS;
extern const IpbDeniedArgument IPB_DENIED_ARGUMENTS[];
extern const size_t IPB_N_DENIED_ARGUMENTS;
extern const IpbAllowedFamily IPB_ALLOWED_FAMILIES[];
extern const size_t IPB_N_ALLOWED_FAMILIES;
/* What pid 1 needs for the rest of its life. */
extern const char *const IPB_INIT_CALLS[];
extern const size_t IPB_N_INIT_CALLS;
