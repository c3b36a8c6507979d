/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief The error domain of ipybox.
 *
 * A code says what the caller can do about an error. The message, in UTF-8, says what failed,
 * where, and what to do next.
 */
#pragma once

#include <glib.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** The GError domain of all errors of this library. */
#define IPYBOX_ERROR (ipybox_error_quark())

/** The codes of #IPYBOX_ERROR. */
typedef enum {
    /** An argument is wrong: correct it and call again. */
    IPYBOX_ERROR_INVALID,
    /** The named thing does not exist. */
    IPYBOX_ERROR_NOT_FOUND,
    /** A stated time limit was exceeded. */
    IPYBOX_ERROR_TIMEOUT,
    /** The caller cancelled. */
    IPYBOX_ERROR_CANCELLED,
    /** A policy or an approval refused it. */
    IPYBOX_ERROR_REFUSED,
    /** The kernel has ended, and its state is lost; the next cell gets a new kernel. */
    IPYBOX_ERROR_KERNEL_DIED,
    /** An MCP server failed or refused. */
    IPYBOX_ERROR_SERVER,
    /** A peer violated its protocol. */
    IPYBOX_ERROR_PROTOCOL,
    /** A named maximum was exceeded. */
    IPYBOX_ERROR_LIMIT,
    /** Not possible now: something else must end first. */
    IPYBOX_ERROR_BUSY,
    /** Something is missing on this machine or cannot be reached: install, enable or start it. */
    IPYBOX_ERROR_UNAVAILABLE,
    /** The operating system refused. */
    IPYBOX_ERROR_SYSTEM,
    /** The cell raised a Python exception (only from ipybox_result_check()). */
    IPYBOX_ERROR_CODE,
} IpyboxError;

/**
 * @brief The quark behind #IPYBOX_ERROR.
 *
 * @return the quark. May be called from any thread.
 */
IPYBOX_EXPORT GQuark ipybox_error_quark(void);

G_END_DECLS
