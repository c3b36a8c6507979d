/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool list_variables: what the user's variables are. The kernel answers
 * (ipybox_kernel/variables.py), and runs no code of the user for it.
 */
#pragma once

#include "serve/mcp/served-call.h"

void ipb_variables_list(IpbServedCall *call, const IpbJson *arguments);
