/* SPDX-License-Identifier: Apache-2.0
 *
 * What a person with a browser does for `ipybox login`: the suite's authorization servers agree at once, so following their
 * redirects is all.
 */
#pragma once

#include "base/loop.h"
#include "mcp/server-params.h"

/* The token is in the store of $XDG_STATE_HOME then. Runs the loop meanwhile. */
bool log_in(IpbLoop *loop, const IpbServerParams *params, GError **error);
