/* SPDX-License-Identifier: Apache-2.0
 *
 * The registrations that belong to a workspace.
 */
#pragma once

#include "session/session.h"

/* Lets the session call every registered server whose package lies in its workspace: what was generated there by an
 * earlier run goes on working, what was registered for another workspace is not reachable. */
bool ipb_workspace_allow_registered(IpbSession *session, GError **error);
/* Likewise what was generated in another directory, or below it. */
bool ipb_workspace_allow_below(IpbSession *session, const char *directory, GError **error);
