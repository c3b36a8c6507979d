/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServedCall: one tools/call request, from its arrival until the session has told its end, also when it was cancelled
 * meanwhile: its answer and its progress.
 *
 * Ownership: a call belongs to the array it was made for, which frees it; ending the call takes it out.
 */
#pragma once

#include "json/rpc-peer.h"
#include "session/cell-text.h"

/* What a failed call's text begins with, as the original's does. */
#define IPB_TOOL_ERROR_PREFIX "Error executing tool "

typedef struct IpbServedCall IpbServedCall;

struct IpbServedCall {
    IpbLoop *loop;
    IpbSession *session;
    GPtrArray *calls;
    IpbRpcRequest *request;
    const char *tool;                    /* its name */
    void (*cancel)(IpbServedCall *call); /* NULL: cannot be cancelled, is only not answered */
    uint64_t number;                     /* of the cell or the registration, for cancel */
    bool is_cancelled;
    /* Cells. */
    bool is_running; /* it has started */
    IpbCellText *text;
    size_t max_output_chars;
    /* Installations. */
    char *package;
    GQueue *installs; /* that it waits in: one runs at a time, the first */
    /* Progress. */
    char *token_json; /* or NULL */
    int64_t progress;
    GString *news;
    IpbTimer *progress_timer;
    void (*on_progress)(const IpbRpcRequest *request, const char *token_json, int64_t progress,
                        const char *message, void *data);
    void *progress_data;
};

/* The caller sets session and progress functions. */
IpbServedCall *ipb_served_call_new(IpbLoop *loop, GPtrArray *calls, IpbRpcRequest *request,
                                   const char *tool);
void ipb_served_call_free(IpbServedCall *call);

/* These three answer, unless the call was cancelled, and end the call. The answer is one text
 * block, because some hosts read the first block only. */
void ipb_served_call_finish(IpbServedCall *call, const char *text, bool is_error);
void ipb_served_call_fail(IpbServedCall *call, const char *message);
/* An argument is not as it must be. */
void ipb_served_call_refuse(IpbServedCall *call, const char *name, const char *wanted);

/* New output, sent with others of the same moment if the client asked for progress; and sent at once. */
void ipb_served_call_add_news(IpbServedCall *call, const char *text);
void ipb_served_call_send_news(IpbServedCall *call);
