/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayCell: an execute_request: the events of its session become messages on iopub, and the
 * end becomes the execute_reply. A message of a comm is likewise a cell, for which the kernel's
 * handlers run; it gets no reply.
 *
 * Ownership: the kernel owns the cell, at most one at a time, and frees it when it is done or after
 * its session.
 */
#pragma once

#include "serve/gateway/publisher.h"
#include "serve/gateway/questions.h"
#include "session/session.h"

typedef struct IpbGatewayCell IpbGatewayCell;

typedef struct {
    IpbSession *session;
    IpbGatewayPublisher *publisher;
    const IpbGatewayRequest *request; /* borrowed until the cell is done */
    int64_t *execution_count;         /* of the kernel's last cell; updated */
    bool *has_stale_question;         /* see questions.h; updated */
    /* The front end sees the process of the kernel end. As with other kernels then, no reply comes,
     * only the error that says why. */
    bool ends_with_kernel;
    /* The reply was sent, or none comes: free the cell. @aborts: requests of the same client that
     * wait behind it are to be aborted. */
    void (*on_done)(bool aborts, void *data);
    void *data;
} IpbGatewayCellOptions;

IpbGatewayCell *ipb_gateway_cell_new(const IpbGatewayCellOptions *options);
/* If the request is wrong, on_done is called before this returns. */
void ipb_gateway_cell_start(IpbGatewayCell *cell);
/* What its client is asked; borrowed. */
IpbGatewayQuestions *ipb_gateway_cell_questions(IpbGatewayCell *cell);
/* A client restarts the kernel, so its loss is not reported as a death. */
void ipb_gateway_cell_expect_restart(IpbGatewayCell *cell);
void ipb_gateway_cell_free(IpbGatewayCell *cell);
