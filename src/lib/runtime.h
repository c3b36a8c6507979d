/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of the public type IpyboxRuntime, for the files that implement its sessions and its
 * servers.
 */
#pragma once

#include <ipybox/runtime.h>

#include "lib/call.h"
#include "session/runtime.h"

/* The longest orderly end of a session or a runtime. What is left then is killed. */
#define IPB_LIB_CLOSE_TIMEOUT_MS 15000

struct IpyboxRuntime {
    GMainContext *context;
    IpbRuntime *core;
    GPtrArray
        *sessions;  /* IpyboxSession with a core; borrowed. Sessions add and remove themselves */
    bool is_closed; /* or being closed */
    IpbCall *closing;
    unsigned n_closing; /* parts that are not closed yet */
    IpbTimer *close_timer;
};
