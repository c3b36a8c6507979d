/* SPDX-License-Identifier: Apache-2.0
 *
 * The one GError domain of ipybox. A code says what the caller can do about the error; the message
 * says what happened, where, and the next step. Messages never end in a newline or a full stop
 * unless they are several sentences.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

#define IPYBOX_ERROR (ipb_error_quark())

typedef enum {
    IPYBOX_ERROR_INVALID,   /* what was given is wrong: correct it and call again */
    IPYBOX_ERROR_NOT_FOUND, /* the named thing does not exist */
    IPYBOX_ERROR_TIMEOUT,   /* a stated time ran out */
    IPYBOX_ERROR_CANCELLED, /* the caller cancelled */
    IPYBOX_ERROR_REFUSED,   /* a policy or an approval said no */
    IPYBOX_ERROR_KERNEL_DIED, /* the kernel is gone and its state with it; the next cell gets a new one */
    IPYBOX_ERROR_SERVER,      /* an MCP server failed or said no */
    IPYBOX_ERROR_PROTOCOL,    /* a peer broke its protocol */
    IPYBOX_ERROR_LIMIT,       /* a named maximum was exceeded */
    IPYBOX_ERROR_BUSY,        /* not now: something else must end first */
    IPYBOX_ERROR_UNAVAILABLE, /* something is missing on this machine: install or enable it */
    IPYBOX_ERROR_SYSTEM,      /* the operating system refused */
} IpyboxError;

GQuark ipb_error_quark(void);

/* Sets @error to IPYBOX_ERROR_SYSTEM: the formatted text, then ": " and strerror(@saved_errno).
 * Returns false, so that it can end a function. */
bool ipb_error_set_errno(GError **error, int saved_errno, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
