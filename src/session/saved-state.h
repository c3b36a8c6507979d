/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSavedState: variables of a session are saved to a file, or loaded from one. The kernel does
 * it, in a silent cell: in its sandbox, after the cells that wait, with a time limit, and so that
 * it can be interrupted. This process never reads the file. What the kernel reports is untrusted.
 *
 * Ownership: the owner frees it, after its cell has ended.
 */
#pragma once

#include "session/session.h"

typedef struct IpbSavedState IpbSavedState;

/* What a cell was. */
typedef enum {
    IPB_STATE_SAVE,
    IPB_STATE_LOAD,
} IpbStateAction;

/* @report: the text of a JSON object, {"names": […], "failed": {name: why}}, valid for the call.
 * NULL with @error: CODE (the exception that the kernel raised: the file cannot be written or
 * read), TIMEOUT, CANCELLED, KERNEL_DIED, PROTOCOL (the report is wrong). */
typedef void (*IpbSavedStateFunc)(const char *report, const GError *error, void *data);

/* Queues it. @path: relative to the workspace. @names: of the variables to save, NULL-terminated;
 * NULL: all. @timeout_ms: as that of a cell. *@ret_number: of its cell, for ipb_session_cancel().
 * @func is called once, from the loop; it may free what was returned. NULL with @error: INVALID,
 * LIMIT, as ipb_session_execute(). */
IpbSavedState *ipb_saved_state_new(IpbSession *session, IpbStateAction action, const char *path,
                                   const char *const *names, unsigned timeout_ms,
                                   IpbSavedStateFunc func, void *data, uint64_t *ret_number,
                                   GError **error);
void ipb_saved_state_free(IpbSavedState *state);
