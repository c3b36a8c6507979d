/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `ipybox doctor`: each looks at one thing and adds what it found to a list.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef enum {
    IPB_CHECK_OK,
    IPB_CHECK_OPTIONAL, /* missing, and only some things need it */
    IPB_CHECK_MISSING,
} IpbCheckState;

typedef struct {
    const char *name;
    IpbCheckState state;
    char *detail;
    char *hint; /* what helps, or NULL */
} IpbCheck;

/* A list of IpbCheck. */
GPtrArray *ipb_doctor_checks_new(void);
/* Takes @detail. */
void ipb_doctor_add(GPtrArray *checks, const char *name, IpbCheckState state, char *detail,
                    const char *hint);

/* The interpreter, a kernel of it, and its modules. @asked: as of --python. */
void ipb_doctor_check_kernel(GPtrArray *checks, const char *asked);
/* Sandboxes: one is really made. */
void ipb_doctor_check_sandbox(GPtrArray *checks);
/* Makes the user's environment for kernels, or brings it up to date, with what @packages name beside what kernels need;
 * what it does is told on stderr. @asked: the interpreter to make it of, or NULL. UNAVAILABLE, NOT_FOUND: the message says what to do. */
bool ipb_doctor_set_up(const char *asked, const char *const *packages, GError **error);
