/* SPDX-License-Identifier: Apache-2.0
 *
 * Public approval requests as their session sees them; see <ipybox/approval.h>.
 */
#pragma once

#include <ipybox/approval.h>

#include "lib/waiting.h"

/* Adds itself to @waiting, a list of borrowed requests. */
IpyboxApproval *ipb_lib_approval_new(const IpbApprovalRequest *request, IpbSession *core,
                                     GPtrArray *waiting);
