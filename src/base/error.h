/* SPDX-License-Identifier: Apache-2.0
 *
 * The one GError domain of ipybox is in <ipybox/error.h>. A code says what the caller can do about the error; the message
 * says what happened, where, and the next step. Messages never end in a newline or a full stop
 * unless they are several sentences.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

#include <ipybox/error.h>

/* Sets @error to IPYBOX_ERROR_SYSTEM: the formatted text, then ": " and strerror(@saved_errno), and what to do about it if that is known.
 * Returns false, so that it can end a function. */
bool ipb_error_set_errno(GError **error, int saved_errno, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
