/* SPDX-License-Identifier: Apache-2.0
 *
 * Public events, made from the core's; see <ipybox/event.h>.
 */
#pragma once

#include <ipybox/session.h>

#include "kernel/event.h"

/* Calls @func, which may be NULL, with @event if it is of a public type. */
void ipb_lib_event_report(IpyboxSession *session, const IpbEvent *event, IpyboxEventFunc func,
                          gpointer user_data);
/* Text of a kernel, which may have lone surrogates and NUL, as UTF-8 that C can hold; the caller
 * frees it. NULL: @text already is. */
char *ipb_lib_make_valid(const char *text, size_t size);
