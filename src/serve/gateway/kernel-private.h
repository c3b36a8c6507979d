/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a kernel of the gateway, shared by kernel.c, requests.c and cell.c.
 */
#pragma once

#include "json/writer.h"
#include "serve/gateway/kernel.h"

/* A request that waits or is being served. */
typedef struct {
    IpbGatewayClient *client; /* NULL: it has gone */
    IpbGatewayMessage message;
    size_t size;
} IpbGatewayRequest;

/* What the cell that runs has come to. */
typedef struct {
    bool is_silent;
    bool ends_by_restart; /* which a client asked for */
    bool has_error;
    char *ename;
    char *evalue;
    char *traceback;
} IpbGatewayCell;

typedef enum {
    IPB_GATEWAY_STATE_STARTING, /* nothing was asked of it yet */
    IPB_GATEWAY_STATE_IDLE,
    IPB_GATEWAY_STATE_BUSY,
    IPB_GATEWAY_STATE_RESTARTING,
} IpbGatewayState;

struct IpbGatewayKernel {
    char *id;
    char *name;
    char *working_dir; /* or NULL */
    IpbLoop *loop;
    IpbRuntime *runtime;
    IpbSession *session;
    GPtrArray *clients; /* IpbGatewayClient, borrowed */
    IpbGatewayState state;
    int64_t last_activity_us; /* of the wall clock */
    uint64_t n_sent;
    int64_t execution_count; /* of the last cell */
    char *info; /* JSON: what the kernel said about itself; NULL: it was not asked yet */

    GQueue waiting; /* IpbGatewayRequest */
    size_t waiting_size;
    IpbGatewayRequest *current;
    bool is_serving; /* the loop over the queue is at work */
    IpbGatewayCell cell;

    unsigned idle_s;
    bool culls_connected;
    IpbTimer *idle_timer;
    int64_t idle_since_us; /* of the monotonic clock */
    void (*on_end)(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data);
    void *data;
    IpbTimer *end_timer; /* on_end is to be called */
    IpbGatewayEnd end;

    bool is_closing;
    void (*restarted)(void *data);
    void *restarted_data;
};

struct IpbGatewayClient {
    IpbGatewayKernel *kernel;
    IpbGatewayClientFuncs funcs;
    void *data;
    bool is_slow;
};

/* Sending (kernel.c). @writer: the finished content, taken. To all, or to @client unless it is NULL. */
void ipb_gateway_kernel_broadcast(IpbGatewayKernel *kernel, const char *msg_type,
                                  const IpbJson *parent, IpbJsonWriter *writer);
/* With metadata: JSON of an object, a constant. */
void ipb_gateway_kernel_broadcast_with(IpbGatewayKernel *kernel, const char *msg_type,
                                       const IpbJson *parent, const char *metadata,
                                       IpbJsonWriter *writer);
void ipb_gateway_kernel_answer(IpbGatewayKernel *kernel, const IpbGatewayRequest *request,
                               const char *msg_type, IpbJsonWriter *writer);
void ipb_gateway_kernel_tell_status(IpbGatewayKernel *kernel, const char *state,
                                    const IpbJson *parent);
void ipb_gateway_kernel_set_state(IpbGatewayKernel *kernel, IpbGatewayState state);
void ipb_gateway_kernel_ask_for_end(IpbGatewayKernel *kernel, IpbGatewayEnd why);

/* Requests (requests.c). */
void ipb_gateway_requests_receive(IpbGatewayKernel *kernel, IpbGatewayRequest *request);
/* The current one was answered: tells that the kernel is idle, and serves the next. @aborts: not those executions that its client
 * has sent meanwhile. */
void ipb_gateway_requests_finish(IpbGatewayKernel *kernel, bool aborts);
/* Executions that wait are answered as aborted: those of @client, or all if it is NULL. */
void ipb_gateway_requests_abort(IpbGatewayKernel *kernel, const IpbGatewayClient *client);
void ipb_gateway_requests_forget_client(IpbGatewayKernel *kernel, const IpbGatewayClient *client);
void ipb_gateway_requests_clear(IpbGatewayKernel *kernel);

/* Cells (cell.c). */
void ipb_gateway_cell_start(IpbGatewayKernel *kernel);
void ipb_gateway_cell_clear(IpbGatewayKernel *kernel);

/* {"status": "ok" */
IpbJsonWriter *ipb_gateway_content_new(void);
