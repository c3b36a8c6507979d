/* SPDX-License-Identifier: Apache-2.0
 *
 * Public approval requests as their session sees them; see <ipybox/approval.h>.
 *
 * Ownership: a session has a list of the requests that wait, and no reference to them. A request
 * knows the session's core until it is detached.
 */
#pragma once

#include <ipybox/approval.h>

#include "session/session.h"

/* Adds itself to @waiting, a list of borrowed requests. */
IpyboxApproval *ipb_lib_approval_new(const IpbApprovalRequest *request, IpbSession *core,
                                     GPtrArray *waiting);
/* The waiting request with this id, which does not wait any more; NULL: there is none. */
IpyboxApproval *ipb_lib_approval_detach(GPtrArray *waiting, uint64_t id);
/* None waits any more: the core ends. */
void ipb_lib_approval_detach_all(GPtrArray *waiting);
