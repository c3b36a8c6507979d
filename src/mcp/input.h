/* SPDX-License-Identifier: Apache-2.0
 *
 * What a modern server asks for before it goes on with a call (a result of the type "input_required").
 */
#pragma once

#include <stdbool.h>

#include "json/json.h"

/* What the next round of the call has to carry, as JSON texts: *ret_state, opaque, and *ret_responses to the
 * server's requests. NULL where there is nothing; caller frees. Errors: PROTOCOL (it asks for nothing),
 * UNAVAILABLE (for something that we do not offer). */
bool ipb_mcp_input_answer(const IpbJson *result, char **ret_state, char **ret_responses,
                          GError **error);
