/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of Jupyter for output: stream, display_data, update_display_data, execute_result,
 * clear_output, and those of comms.
 */
#pragma once

#include "kernel/event.h"
#include "serve/gateway/publisher.h"

/* @name: "stdout" or "stderr". @metadata: JSON of an object, a constant, or NULL. */
void ipb_gateway_output_send_stream(IpbGatewayPublisher *publisher, const IpbJson *parent,
                                    const char *name, const char *text, const char *metadata);
/* Sends the message of an event, if it is output. @parent: the header of the request that it
 * belongs to; NULL: it is not known. @execution_count: of a RESULT. */
void ipb_gateway_output_send(IpbGatewayPublisher *publisher, const IpbJson *parent,
                             const IpbEvent *event, int64_t execution_count);
/* Of a late event: the request is the one of the event's cell. Output of no known cell is not sent:
 * a later cell has it, by LATE_OUTPUT. Messages of comms are sent, without a parent. */
void ipb_gateway_output_send_late(IpbGatewayPublisher *publisher, const IpbEvent *event);
