/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the Streamable HTTP transport share: streamable-http-transport.c (the connection, its session),
 * streamable-post.c (one message and its answer).
 */
#pragma once

#include "http/event-stream.h"
#include "mcp/streamable-http-transport.h"

typedef struct IpbPost IpbPost;

typedef struct {
    IpbTransport base;
    unsigned refs; /* the owner's, and one for each function that calls back */
    bool is_freed, is_closing;
    IpbEndpoint *endpoint;
    GQueue waiting;      /* of IpbPost: not sent yet */
    GHashTable *posts;   /* set of IpbPost: under way */
    unsigned n_requests; /* of them, requests without an answer yet */
    unsigned n_notes;    /* of them, answers to the server and notifications */
    size_t queued;       /* bytes of all */
    char *session;       /* id; NULL: none */
    char *revision;      /* of the last message; NULL: not known */
    bool is_modern;
    /* As they were sent first, to begin a new session with. */
    char *initialize, *initialized;
    bool is_held; /* nothing is sent before the session is there, and knows that we are ready */
    IpbPost *listener; /* the GET among them; NULL: none */
    bool wants_events;
    IpbTimer *timer; /* what is to be told from the loop */
    GError *failure;
    void (*close_done)(void *data);
    void *close_data;
} IpbStreamable;

typedef enum {
    IPB_POST_MESSAGE,
    IPB_POST_INITIALIZED,   /* a message, after which others may go */
    IPB_POST_REINITIALIZE,  /* initialize, for a new session in place of one that is gone */
    IPB_POST_REINITIALIZED, /* the notification after it */
    IPB_POST_LISTEN,        /* GET: what the server tells unasked */
    IPB_POST_DELETE,        /* of the session, at the end */
} IpbPostKind;

struct IpbPost {
    unsigned refs;
    IpbStreamable *http; /* NULL: freed */
    IpbPostKind kind;
    int64_t id; /* of the request; 0: it is none */
    bool is_initialize, is_subscription;
    char *text;
    size_t size;
    char **headers; /* of this message: Mcp-Method, … */
    char *session;  /* that it was sent with */
    bool is_started, is_answered, has_renewed;
    bool is_resumed; /* its stream broke: it may have been executed */
    IpbExchange *exchange;
    unsigned status;
    bool is_json;
    GString *body;          /* of JSON, or of an error */
    IpbEventStream *events; /* or NULL */
    char *last_event_id;
    int64_t retry_ms;
    unsigned resumptions; /* in vain */
    IpbTimer *timer;      /* before a resumption, or after the answer */
};

/* streamable-post.c */
IpbPost *ipb_post_new(IpbStreamable *http, IpbPostKind kind, const char *text, size_t size);
void ipb_post_start(IpbPost *post);
/* Cuts it off and forgets it. */
void ipb_post_free(IpbPost *post);

/* streamable-http-transport.c: what becomes of a post that ends. All may free the transport. */
void ipb_streamable_deliver(IpbStreamable *http, const char *text, size_t size);
/* The request @id has failed, if it has no answer yet. */
void ipb_streamable_tell_failed(IpbStreamable *http, int64_t id, unsigned status,
                                const GError *why);
/* The request has failed; frees @post, takes @error. */
void ipb_streamable_fail(IpbPost *post, GError *error);
/* It is over, well or not; frees @post. */
void ipb_streamable_done(IpbPost *post);
/* The answer is there, and is about to be told. */
void ipb_streamable_answered(IpbPost *post);
/* The server does not know the session: the post is sent again in a new one. False: that was tried. */
bool ipb_streamable_renew(IpbPost *post);
/* The answer to initialize names a session, or none. False: not a valid one; the connection fails. */
bool ipb_streamable_take_session(IpbPost *post, const char *id);

IpbStreamable *ipb_streamable_hold(IpbStreamable *http);
void ipb_streamable_unhold(IpbStreamable *http);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbStreamable, ipb_streamable_unhold)
