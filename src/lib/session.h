/* SPDX-License-Identifier: Apache-2.0
 *
 * What a runtime does with its sessions when it ends; see <ipybox/session.h>.
 */
#pragma once

#include <ipybox/session.h>

/* Closes the session in order, unless it is closed or being closed already. @ended is called from
 * the loop when its core has ended, unless the session loses its runtime before. */
void ipb_lib_session_close(IpyboxSession *session, void (*ended)(void *data), void *data);
/* Its runtime is being freed: the core ends at once, or in the context's next iteration from within
 * a callback. Operations under way end with CANCELLED. */
void ipb_lib_session_lose_runtime(IpyboxSession *session);
