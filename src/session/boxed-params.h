/* SPDX-License-Identifier: Apache-2.0
 *
 * Server parameters from whom a sandboxed session does not trust: whatever they say about a sandbox, the server runs in one that
 * allows what the session's kernels are allowed.
 */
#pragma once

#include "json/json.h"
#include "sandbox/policy.h"

/* The same with "sandbox"; those of a server with a "url", which runs elsewhere, without. Errors: what reading the policy's file says. */
IpbJsonDoc *ipb_boxed_params_make(const IpbJson *params, const IpbSandboxPolicy *policy,
                                  GError **error);
