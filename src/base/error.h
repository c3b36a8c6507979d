/* SPDX-License-Identifier: Apache-2.0
 *
 * The one GError domain of ipybox is in <ipybox/error.h>. The code says what the caller can do
 * about the error. The message says what failed, where, and what to do next. It does not end in a
 * newline, and ends in a full stop only if it has several sentences.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

#include <ipybox/error.h>

/* Sets @error to IPYBOX_ERROR_SYSTEM. The message is the formatted text, ": ",
 * strerror(@saved_errno), and what to do about it if that is known. Returns false, so that it can
 * end a function. */
bool ipb_error_set_errno(GError **error, int saved_errno, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
