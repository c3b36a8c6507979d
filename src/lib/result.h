/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLibCollector: collects the events of a cell. With the last event, it makes the public result
 * (<ipybox/event.h>).
 */
#pragma once

#include <ipybox/event.h>

#include "kernel/event.h"

typedef struct IpbLibCollector IpbLibCollector;

/* @max_text_chars: 0 is as much as is kept at all. */
IpbLibCollector *ipb_lib_collector_new(size_t max_text_chars);
/* NULL until the last event, DONE, which makes the result; the caller owns it. */
IpyboxResult *ipb_lib_collector_add(IpbLibCollector *collector, const IpbEvent *event);
void ipb_lib_collector_free(IpbLibCollector *collector);

/* The result of a cell that was cancelled before the core had it. */
IpyboxResult *ipb_lib_result_new_cancelled(void);
