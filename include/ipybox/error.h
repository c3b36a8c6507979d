/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief The error domain of ipybox.
 *
 * A code says what the caller can do about an error; the message, in UTF-8, says what happened, where, and the next step.
 */
#pragma once

#include <glib.h>

#include <ipybox/macros.h>

G_BEGIN_DECLS

/** The GError domain of everything here. */
#define IPYBOX_ERROR (ipybox_error_quark())

/** The codes of #IPYBOX_ERROR. */
typedef enum {
    IPYBOX_ERROR_INVALID,   /**< what was given is wrong: correct it and call again */
    IPYBOX_ERROR_NOT_FOUND, /**< the named thing does not exist */
    IPYBOX_ERROR_TIMEOUT,   /**< a stated time ran out */
    IPYBOX_ERROR_CANCELLED, /**< the caller cancelled */
    IPYBOX_ERROR_REFUSED,   /**< a policy or an approval said no */
    IPYBOX_ERROR_KERNEL_DIED, /**< the kernel is gone and its state with it; the next cell gets a new one */
    IPYBOX_ERROR_SERVER,   /**< an MCP server failed or said no */
    IPYBOX_ERROR_PROTOCOL, /**< a peer broke its protocol */
    IPYBOX_ERROR_LIMIT,    /**< a named maximum was exceeded */
    IPYBOX_ERROR_BUSY,     /**< not now: something else must end first */
    IPYBOX_ERROR_UNAVAILABLE, /**< something is missing on this machine, or not to be reached: install, enable or start it */
    IPYBOX_ERROR_SYSTEM, /**< the operating system refused */
    IPYBOX_ERROR_CODE, /**< the cell raised a Python exception (only from ipybox_result_check()) */
} IpyboxError;

/**
 * @brief The quark behind #IPYBOX_ERROR.
 *
 * @return the quark. Any thread.
 */
IPYBOX_EXPORT GQuark ipybox_error_quark(void);

G_END_DECLS
