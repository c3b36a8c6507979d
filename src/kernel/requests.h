/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRequests: the requests to a kernel that have no reply yet. A request waits until there is a
 * process that takes it, is sent there as a frame, and ends with the reply, or with the process.
 *
 * Ownership: the owner frees it; then no function is called any more. A function may add requests.
 */
#pragma once

#include "kernel/kernel.h"

typedef struct IpbRequests IpbRequests;

/* Sends a request to the process that is ready. */
typedef bool (*IpbRequestSendFunc)(uint64_t id, const char *method, const char *params,
                                   GError **error, void *data);

IpbRequests *ipb_requests_new(void);
void ipb_requests_free(IpbRequests *requests);
/* LIMIT: too many. @method and @params are copied. */
bool ipb_requests_add(IpbRequests *requests, const char *method, const char *params,
                      IpbKernelReplyFunc func, void *data, GError **error);
bool ipb_requests_is_empty(const IpbRequests *requests);
/* Sends all waiting requests to a process. A request that is too large ends with that error. If
 * sending fails for another reason, the request waits for the end of the process. */
void ipb_requests_send(IpbRequests *requests, IpbRequestSendFunc send, void *data);
/* From now on the waiting requests end with the present process, although it did not get them. */
void ipb_requests_bind(IpbRequests *requests);
/* A reply came. False with PROTOCOL: there is no such request. */
bool ipb_requests_answer(IpbRequests *requests, uint64_t id, const IpbJson *result,
                         const char *error_text, GError **error);
/* Ends with CANCELLED and @why the requests that a process got, and @with_waiting also the
 * others. */
void ipb_requests_fail(IpbRequests *requests, bool with_waiting, const char *why);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRequests, ipb_requests_free)
