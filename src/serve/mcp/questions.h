/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpQuestions: the questions that a client of a revision with a handshake is asked by requests
 * of the server, such as elicitation/create. One is asked after the other, so that a person answers
 * the question that they see.
 *
 * Ownership: the server owns it. It is freed before the peer.
 */
#pragma once

#include "json/rpc-peer.h"

typedef struct IpbMcpQuestions IpbMcpQuestions;

/* @result: what the client answered; NULL: it gave no answer, and @failure says why. Both are
 * borrowed. */
typedef void (*IpbMcpAnswerFunc)(const IpbJson *result, const char *failure, void *data);

IpbMcpQuestions *ipb_mcp_questions_new(IpbRpcPeer *peer);
/* The questions that are left fail. */
void ipb_mcp_questions_free(IpbMcpQuestions *questions);
/* Asks, now or later. @request_id: the client's request that the question belongs to (JSON text);
 * NULL: none. Returns its number; @func is called once, never from within this function. */
uint64_t ipb_mcp_questions_ask(IpbMcpQuestions *questions, const char *request_id,
                               const char *method, const char *params, IpbMcpAnswerFunc func,
                               void *data);
/* The answer is not needed any more: its function is not called, and the client is notified. */
void ipb_mcp_questions_withdraw(IpbMcpQuestions *questions, uint64_t number);
