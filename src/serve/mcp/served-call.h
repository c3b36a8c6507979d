/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServedCall: one tools/call request, from its arrival until the session has reported its end,
 * even if it was cancelled in between. It has the call's answer and its progress.
 *
 * Ownership: a call belongs to the array that it was created for. Ending the call removes it from
 * the array, which frees it.
 */
#pragma once

#include "serve/mcp/answer-images.h"
#include "serve/mcp/elicitation.h"
#include "serve/mcp/structured-cell.h"
#include "session/cell-text.h"

/* The beginning of a failed call's text, as in ipybox 0.9. */
#define IPB_TOOL_ERROR_PREFIX "Error executing tool "

typedef struct IpbServedCall IpbServedCall;
/* serve/mcp/cell-results.h */
typedef struct IpbCellResults IpbCellResults;
/* serve/mcp/named-sessions.h */
typedef struct IpbNamedSession IpbNamedSession;
typedef struct IpbNamedSessions IpbNamedSessions;

struct IpbServedCall {
    IpbLoop *loop;
    /* The session that the call is of. NULL: of none; then `session` is one without a kernel */
    IpbNamedSession *named;
    IpbSession *session;
    /* Those that the client can use, and the one that calls without an id use, or NULL */
    IpbNamedSessions *sessions;
    const IpbNamedSession *default_session;
    GPtrArray *calls;
    IpbMcpRequest *request;
    /* The answer has it in "_meta". NULL: the client need not know it */
    char *session_id;
    /* A text of its own at the end of the answer; NULL: none */
    char *note;
    /* The tool's name */
    const char *tool;
    /* NULL: the call cannot be cancelled. It continues, but is not answered. */
    void (*cancel)(IpbServedCall *call);
    /* Of the cell or the registration, for @cancel */
    uint64_t number;
    bool is_cancelled;
    /* Where its pointer is to become NULL when it is freed; or NULL */
    IpbServedCall **slot;
    /* It cannot be cancelled any more. */
    bool is_answered;
    /* Cells: */
    IpbElicitation *elicitation;
    uint64_t input; /* that was asked for; 0: none */
    IpbCellText *text;
    size_t max_output_chars;
    /* Where its images are: not AUTO. @shown: NULL if they are not in the answer */
    IpbMcpImages images;
    IpbAnswerImages *shown;
    /* Of a cell with a structured result; else NULL */
    IpbStructuredCell *cell;
    /* Any tool: its answer has a structured result. The tool sets it: a JSON object */
    bool is_structured;
    char *structured;
    /* Registrations: the client has the tool describe_tools. */
    bool offers_describe;
    /* What cells answered is kept here; NULL: it is not kept */
    IpbCellResults *results;
    /* The number of the cell that the answer is of, which the answer has in "_meta"; 0: none */
    uint64_t cell_id;
    /* Installations: the package, and the queue. Only the first in the queue runs. */
    char *package;
    GQueue *installs;
    int64_t progress;
    GString *news;
    IpbTimer *progress_timer;
    IpbTimer *waiting_timer;
    unsigned n_waits;
};

/* The caller sets the session. */
IpbServedCall *ipb_served_call_new(IpbLoop *loop, GPtrArray *calls, IpbMcpRequest *request,
                                   const char *tool);
void ipb_served_call_free(IpbServedCall *call);

/* These three answer, unless the call was cancelled, and end the call. The first block of the
 * answer is one text, because some hosts read only the first block. Images follow. */
void ipb_served_call_finish(IpbServedCall *call, const char *text, bool is_error);
/* The same for a success whose structured result is {@name: @text}. */
void ipb_served_call_finish_named(IpbServedCall *call, const char *name, const char *text);
void ipb_served_call_fail(IpbServedCall *call, const char *message);
/* The argument @name is not @wanted. */
void ipb_served_call_refuse(IpbServedCall *call, const char *name, const char *wanted);

/* Answers with an error, but does not end the call: the session has yet to report its end. */
void ipb_served_call_answer_early(IpbServedCall *call, const char *message);

/* New output, if the client asked for progress: _add_news sends it together with what follows soon,
 * _send_news sends it at once. */
void ipb_served_call_add_news(IpbServedCall *call, const char *text);
void ipb_served_call_send_news(IpbServedCall *call);
/* Reports from time to time, if the client asked for progress, that the call waits for its turn:
 * hosts give up calls of which they hear nothing. @is_behind: it waits for another cell, so this is
 * reported at once. Until _stop_waiting. */
void ipb_served_call_start_waiting(IpbServedCall *call, bool is_behind);
void ipb_served_call_stop_waiting(IpbServedCall *call);
