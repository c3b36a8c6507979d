/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcCellAnswer: what session.execute replies, collected from a cell's events; and the events
 * themselves as notifications, for a client that wants them (docs/internals/rpc.md).
 *
 * Ownership: the cell owns its answer.
 */
#pragma once

#include "serve/rpc/client.h"
#include "session/session.h"

typedef struct IpbRpcCellAnswer IpbRpcCellAnswer;

/* @max_chars: of the text, MAX_TEXT_CHARS at most. @strips: white space at both ends of the text is
 * removed. */
IpbRpcCellAnswer *ipb_rpc_cell_answer_new(size_t max_chars, bool strips);
/* Of INPUT_REQUEST and INPUT_WITHDRAWN a client is notified even if it wants no events. */
bool ipb_rpc_is_about_input(IpbEventType type);
/* Collects an event. */
void ipb_rpc_cell_answer_add(IpbRpcCellAnswer *answer, const IpbEvent *event);
/* Notifies the client of the event that was added last, and of the text that it added. */
void ipb_rpc_cell_answer_send(const IpbRpcCellAnswer *answer, const IpbEvent *event,
                              IpbRpcClient *client, const char *request_id);
/* The whole answer. @done: the last event. @is_cancelled: the client cancelled the request. */
IpbJsonWriter *ipb_rpc_cell_answer_write(const IpbRpcCellAnswer *answer, const IpbEvent *done,
                                         bool is_cancelled);
void ipb_rpc_cell_answer_free(IpbRpcCellAnswer *answer);

/* Notifies the client of a late event: of output of a cell that has ended. @session: its id. */
void ipb_rpc_send_late_event(IpbRpcClient *client, const char *session, const IpbEvent *event);

/* The most characters of a text: a message stays below 128 MiB, however they are escaped. */
#define IPB_RPC_MAX_TEXT_CHARS (16 * 1024 * 1024)
