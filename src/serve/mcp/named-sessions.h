/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbNamedSession: a Python session that clients of MCP use by its id. It is not bound to a
 * connection: hosts open a new connection for each call, lose connections, and 2026-07-28 has none.
 * IpbNamedSessions has the sessions of one principal; others cannot use their ids.
 *
 * A client with a handshake has a session from the start, its default session. When the client
 * leaves, that session is kept if the client knows its id, and ends otherwise. A session that no
 * connected client has as its default ends when nothing used it for the idle time, and the oldest
 * such session ends when there are too many. Ids of sessions that ended are remembered for a while,
 * so that the next call says why.
 *
 * There may be a maximum lifetime, which no use extends. A session with calls when it is reached
 * ends with the last of them, or after a grace period.
 *
 * Ownership: the table owns the sessions.
 */
#pragma once

#include "serve/mcp/cell-results.h"
#include "session/session-pool.h"

/* How many sessions all tables together have, and may have. */
typedef struct {
    unsigned n;
    unsigned max;
} IpbSessionBudget;

typedef struct {
    IpbRuntime *runtime;
    /* Of each session. The table sets the functions and their data. */
    IpbSessionOptions session;
    /* Gives ready sessions of this owner; NULL: each session is made when it is needed. */
    IpbSessionPool *pool;
    size_t pool_owner;
    /* Answers of cells are kept for clients that lost them. */
    bool keeps_results;
    /* Of this table */
    unsigned max;
    IpbSessionBudget *budget;
    /* 0: sessions do not end by themselves */
    unsigned idle_ms;
    /* The maximum age of a session; a branch is as old as its forerunner. 0: none */
    int64_t max_lifetime_ms;
    /* What calls may take beyond it; with max_lifetime_ms */
    int64_t lifetime_grace_ms;
    /* A new session, before it is used. False with @error: it cannot be. */
    bool (*on_new)(IpbNamedSession *session, void *data, GError **error);
    /* Nothing of the session is left; it is freed next. */
    void (*on_closed)(IpbNamedSession *session, void *data);
    /* May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbNamedSessionsOptions;

struct IpbNamedSession {
    IpbNamedSessions *table;
    char *id;
    IpbSession *session;
    IpbElicitation *elicitation;
    /* NULL: they are not kept */
    IpbCellResults *results;
    /* IpbServedCall */
    GPtrArray *calls;
    /* Those of them that install, in the order of their arrival */
    GQueue installs;
    /* The one that commits or discards changes; NULL: none does */
    IpbServedCall *changing;
    /* The client whose default session this is, which gets late events and questions that belong to
     * no request; NULL: none */
    IpbMcpServer *client;
    IpbEventFunc on_late;
    void *late_data;
    /* A client got the id. */
    bool is_told;
    unsigned n_cells;
    int64_t used_at; /* µs of monotonic time */
    IpbTimer *timer;
    int64_t born_at; /* likewise */
    IpbTimer *lifetime_timer;
    /* It has reached the maximum lifetime, and ends with its calls: it takes no further cell. A
     * clause for people; NULL: it has not */
    char *expiry;
    bool is_closing;
    /* Of its branching, freed with it; or NULL */
    void *branching;
    GDestroyNotify free_branching;
};

IpbNamedSessions *ipb_named_sessions_new(const IpbNamedSessionsOptions *options);
/* Without an orderly end of sessions that are left. Not in a callback of a session. */
void ipb_named_sessions_free(IpbNamedSessions *sessions);
/* A new session; its kernel starts when it is needed. Errors: LIMIT, and those of
 * ipb_session_new. */
IpbNamedSession *ipb_named_sessions_add(IpbNamedSessions *sessions, GError **error);
/* A new session that continues from the state of @forerunner, or of a @checkpoint of it (0: none).
 * It is in the table at once. @func: as of ipb_session_fork(); if it gets an error, close the
 * session. */
IpbNamedSession *ipb_named_sessions_branch(IpbNamedSessions *sessions,
                                           const IpbNamedSession *forerunner, uint64_t checkpoint,
                                           IpbBranchedFunc func, void *data, GError **error);
/* NULL with @error: NOT_FOUND, which says how the session ended, if that is known. */
IpbNamedSession *ipb_named_sessions_find(IpbNamedSessions *sessions, const char *id,
                                         GError **error);
/* The sessions, the oldest first; borrowed. */
const GPtrArray *ipb_named_sessions_list(const IpbNamedSessions *sessions);
/* Ends all sessions in order; @done from the loop when none is left. Once. */
void ipb_named_sessions_close(IpbNamedSessions *sessions, void (*done)(void *data), void *data);

/* @client has it as its default session from now on. @on_late: gets late events; may be NULL. */
void ipb_named_session_attach(IpbNamedSession *session, IpbMcpServer *client, IpbEventFunc on_late,
                              void *data);
/* The client leaves. */
void ipb_named_session_detach(IpbNamedSession *session);
/* Something used it. */
void ipb_named_session_touch(IpbNamedSession *session);
/* The call whose cell runs now; NULL: none. */
IpbServedCall *ipb_named_session_running_call(const IpbNamedSession *session);
/* Ends it in order. @why: for the next call that uses its id, "was closed". */
void ipb_named_session_close(IpbNamedSession *session, const char *why);
