/* SPDX-License-Identifier: Apache-2.0
 *
 * The larger checks of `ipybox doctor`. Each looks at one thing and adds what it found to a list.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef enum {
    IPB_CHECK_OK,
    IPB_CHECK_OPTIONAL, /* missing, but only some features need it */
    IPB_CHECK_MISSING,
} IpbCheckState;

typedef struct {
    const char *name;
    IpbCheckState state;
    char *detail;
    char *hint; /* how to fix it, or NULL */
} IpbCheck;

/* A list of IpbCheck. */
GPtrArray *ipb_doctor_checks_new(void);
/* Takes @detail. */
void ipb_doctor_checks_add(GPtrArray *checks, const char *name, IpbCheckState state, char *detail,
                           const char *hint);

/* Checks the interpreter, a kernel of it, and its modules. @asked: the value of --python, or
 * NULL. */
void ipb_doctor_checks_add_kernel(GPtrArray *checks, const char *asked);
/* Checks sandboxes, and what the kernel of this system offers for them. */
void ipb_doctor_checks_add_sandbox(GPtrArray *checks);
