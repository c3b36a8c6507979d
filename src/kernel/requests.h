/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRequests: what a kernel was asked and has not answered yet. A request waits until there is a process that takes
 * it, goes there as a frame, and ends with the reply, or with the process.
 *
 * Ownership: the owner frees it; then no function is called any more. A function may add requests.
 */
#pragma once

#include "kernel/kernel.h"

typedef struct IpbRequests IpbRequests;

/* @send: gives a request to the process that is ready. */
typedef bool (*IpbRequestSendFunc)(uint64_t id, const char *method, const char *params,
                                   GError **error, void *data);

IpbRequests *ipb_requests_new(void);
void ipb_requests_free(IpbRequests *requests);
/* LIMIT: too many. @method and @params are copied. */
bool ipb_requests_add(IpbRequests *requests, const char *method, const char *params,
                      IpbKernelReplyFunc func, void *data, GError **error);
bool ipb_requests_is_empty(const IpbRequests *requests);
/* Gives all that wait to a process. What it does not take for its size ends with the error; anything else waits
 * for the process's end. */
void ipb_requests_send(IpbRequests *requests, IpbRequestSendFunc send, void *data);
/* All that wait end with the process that there is, whether it got them or not. */
void ipb_requests_bind(IpbRequests *requests);
/* A reply came. False: nobody waits for it (PROTOCOL). */
bool ipb_requests_answer(IpbRequests *requests, uint64_t id, const IpbJson *result,
                         const char *error_text, GError **error);
/* All end with CANCELLED and @why; or, but for @with_waiting, only those that a process had. */
void ipb_requests_fail(IpbRequests *requests, bool with_waiting, const char *why);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRequests, ipb_requests_free)
