/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayQuestions: what a cell's client is asked, by input_request: the input of the cell, and
 * whether tool calls may run. Jupyter's replies do not say what they answer, so one question is
 * asked after the other.
 *
 * A question that is withdrawn stays on the client's screen, and its reply may still come. So a
 * later question about a call has a number, which only its own answer can have.
 *
 * Ownership: the cell owns its questions. What is not answered when they are freed has been
 * withdrawn by the session.
 */
#pragma once

#include "serve/gateway/publisher.h"
#include "session/session.h"

typedef struct IpbGatewayQuestions IpbGatewayQuestions;

/* @request: of the cell; borrowed. @has_stale: of the kernel: a question was withdrawn, of this
 * cell or an earlier one, and may still be on a screen; updated. */
IpbGatewayQuestions *ipb_gateway_questions_new(IpbSession *session, IpbGatewayPublisher *publisher,
                                               const IpbGatewayRequest *request, bool *has_stale);
/* @event: INPUT_REQUEST. */
void ipb_gateway_questions_ask_input(IpbGatewayQuestions *questions, const IpbEvent *event);
void ipb_gateway_questions_withdraw_input(IpbGatewayQuestions *questions, uint64_t input);
/* The session gets the answer, at once if the client cannot be asked. */
void ipb_gateway_questions_ask_approval(IpbGatewayQuestions *questions,
                                        const IpbApprovalRequest *request);
void ipb_gateway_questions_withdraw_approval(IpbGatewayQuestions *questions, uint64_t approval);
/* An input_reply of @client; ignored unless that client is being asked. */
void ipb_gateway_questions_take_reply(IpbGatewayQuestions *questions,
                                      const IpbGatewayClient *client, const IpbJson *content);
/* The client that sent the cell has gone: it cannot be asked. */
void ipb_gateway_questions_lose_client(IpbGatewayQuestions *questions);
void ipb_gateway_questions_free(IpbGatewayQuestions *questions);
