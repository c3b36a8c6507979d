/* SPDX-License-Identifier: Apache-2.0
 *
 * The layouts that the files of the library share.
 *
 * A public session is a shell around an IpbSession, its core. The core ends before the shell when the session was closed, when its
 * runtime was freed, or when the shell was freed from within a callback: then the core, on whose stack the callback is, goes in
 * the context's next turn. What has no core answers BUSY. No event of a core that is on its way out is told.
 */
#pragma once

#include <ipybox/ipybox.h>

#include "lib/call.h"
#include "session/session.h"

/* An orderly end takes no longer; what is left then is killed. */
#define IPB_LIB_CLOSE_TIMEOUT_MS 15000

struct IpyboxRuntime {
    GMainContext *context;
    IpbRuntime *core;
    GPtrArray *sessions; /* IpyboxSession with a core; borrowed */
    bool is_closed;      /* or being closed */
    IpbCall *closing;
    unsigned n_closing; /* parts that are not closed yet */
    IpbTimer *close_timer;
};

struct IpyboxSession {
    unsigned references;
    IpyboxRuntime *runtime; /* NULL when that is freed, or the core has ended */
    GMainContext *context;
    IpbSession *core; /* NULL when it has ended */
    char *workspace;
    IpyboxApprovalFunc on_approval;
    IpyboxWithdrawnFunc on_withdrawn;
    IpyboxLogFunc on_log;
    gpointer user_data;
    bool can_register;
    bool is_closed;          /* or being closed */
    bool is_freed;           /* by the program: it is told nothing any more */
    bool is_runtime_waiting; /* for this one to close */
    IpbCall *closing;
    IpbTimer *close_timer;
    GPtrArray *calls;     /* IpbCall that the core has not ended */
    GPtrArray *approvals; /* IpyboxApproval that may wait; borrowed */
};

/* options.c: the version of a struct of options. */
bool ipb_lib_check_version(unsigned version, unsigned newest, const char *name, GError **error);

/* runtime.c: a session of it has closed, or is gone. */
void ipb_lib_runtime_session_closed(IpyboxRuntime *runtime);

/* session.c */
bool ipb_lib_session_is_open(const IpyboxSession *session);
void ipb_lib_session_unref(IpyboxSession *session);
/* A call that the core is asked for: kept until _forget. BUSY, told to the call, if there is no open core: false. */
bool ipb_lib_session_begin(IpyboxSession *session, IpbCall *call);
void ipb_lib_session_forget(IpyboxSession *session, IpbCall *call);

/* session-end.c: starts the end of the core in order. */
void ipb_lib_session_close(IpyboxSession *session);
/* Ends the core at once, or in the next turn from within a callback. The calls under way are told CANCELLED. */
void ipb_lib_session_end(IpyboxSession *session);
/* Calls @func in the context's next turn, and keeps the session until then. */
typedef void (*IpbLibTurnFunc)(IpyboxSession *session, void *data);
void ipb_lib_session_run_soon(IpyboxSession *session, IpbLibTurnFunc func, void *data,
                              GDestroyNotify free_data);

/* server.c: INVALID if it is no JSON. */
IpbJsonDoc *ipb_lib_parse_params(const char *params_json, GError **error);

/* approval.c */
void ipb_lib_on_approval(const IpbApprovalRequest *request, void *session);
void ipb_lib_on_withdrawn(uint64_t request, void *session);
void ipb_lib_drop_approvals(IpyboxSession *session);

/* event.c: tells @event to @func; nothing for DONE. */
void ipb_lib_tell_event(IpyboxSession *session, const IpbEvent *event, IpyboxEventFunc func,
                        gpointer user_data);
/* Text of the kernel, which may hold lone surrogates and NUL, as UTF-8 that C can hold. Caller frees. NULL if @text is fine as
 * it is. */
char *ipb_lib_make_valid(const char *text, size_t size);

/* result.c: collects the events of a cell; the last one, DONE, gives the result (NULL before). */
typedef struct IpbLibCollector IpbLibCollector;
IpbLibCollector *ipb_lib_collector_new(size_t max_text_chars);
void ipb_lib_collector_free(IpbLibCollector *collector);
IpyboxResult *ipb_lib_collector_add(IpbLibCollector *collector, const IpbEvent *event);
/* The result of a cell that never ran. */
IpyboxResult *ipb_lib_result_new_cancelled(void);
