/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the policy share.
 */
#pragma once

#include "sandbox/policy.h"

#define IPB_POLICY_MAX_LIST 4096 /* items of one list */

/* One entry of allowedDomains or deniedDomains; @may_be_all: "*" and "*:port" are allowed. NULL: *ret_reason. */
IpbSandboxDomain *ipb_policy_domain_parse(const char *text, size_t size, bool may_be_all,
                                          const char **ret_reason);
void ipb_policy_domain_free(IpbSandboxDomain *domain);

/* Reads the whole object @value into @policy, which ipb_sandbox_policy_closed() made. */
bool ipb_policy_read(IpbSandboxPolicy *policy, const IpbJson *value, GError **error);
