/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServedCall: one tools/call request, from its arrival until the session has reported its end,
 * even if it was cancelled in between. It has the call's answer and its progress.
 *
 * Ownership: a call belongs to the array that it was created for. Ending the call removes it from
 * the array, which frees it.
 */
#pragma once

#include "json/rpc-peer.h"
#include "serve/mcp/elicitation.h"
#include "session/cell-text.h"

/* The beginning of a failed call's text, as in ipybox 0.9. */
#define IPB_TOOL_ERROR_PREFIX "Error executing tool "

typedef struct IpbServedCall IpbServedCall;
/* serve/mcp/cell-results.h */
typedef struct IpbCellResults IpbCellResults;

struct IpbServedCall {
    IpbLoop *loop;
    IpbSession *session;
    GPtrArray *calls;
    IpbRpcRequest *request;
    /* The tool's name */
    const char *tool;
    /* NULL: the call cannot be cancelled. It continues, but is not answered. */
    void (*cancel)(IpbServedCall *call);
    /* Of the cell or the registration, for @cancel */
    uint64_t number;
    bool is_cancelled;
    /* Cells: */
    bool is_running;
    IpbElicitation *elicitation;
    uint64_t input; /* that was asked for; 0: none */
    IpbCellText *text;
    size_t max_output_chars;
    /* What cells answered is kept here; NULL: it is not kept */
    IpbCellResults *results;
    /* The number of the cell that the answer is of, which the answer has in "_meta"; 0: none */
    uint64_t cell;
    /* Installations: the package, and the queue. Only the first in the queue runs. */
    char *package;
    GQueue *installs;
    /* Progress: the client's token, or NULL */
    char *token_json;
    int64_t progress;
    GString *news;
    IpbTimer *progress_timer;
    void (*on_progress)(const IpbRpcRequest *request, const char *token_json, int64_t progress,
                        const char *message, void *data);
    void *progress_data;
};

/* The caller sets the session and the function for progress. */
IpbServedCall *ipb_served_call_new(IpbLoop *loop, GPtrArray *calls, IpbRpcRequest *request,
                                   const char *tool);
void ipb_served_call_free(IpbServedCall *call);

/* These three answer, unless the call was cancelled, and end the call. The answer is one text
 * block, because some hosts read only the first block. */
void ipb_served_call_finish(IpbServedCall *call, const char *text, bool is_error);
void ipb_served_call_fail(IpbServedCall *call, const char *message);
/* The argument @name is not @wanted. */
void ipb_served_call_refuse(IpbServedCall *call, const char *name, const char *wanted);

/* New output, if the client asked for progress: _add_news sends it together with what follows soon,
 * _send_news sends it at once. */
void ipb_served_call_add_news(IpbServedCall *call, const char *text);
void ipb_served_call_send_news(IpbServedCall *call);
