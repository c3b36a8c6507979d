/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a person with a browser for `ipybox login`. The suite's authorization servers agree at
 * once, so it only has to follow their redirects.
 */
#pragma once

#include "base/loop.h"
#include "mcp/server-params.h"

/* Logs in and runs the loop until the token is in the store of $XDG_STATE_HOME. */
bool log_in(IpbLoop *loop, const IpbServerParams *params, GError **error);
