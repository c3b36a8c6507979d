/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpServer: our HTTP/1.1 server, for hostile peers: the strict head parser (http/request-head.h), bodies by Content-Length
 * only, bounds on everything, deadlines for everything that a peer does. Kernels reach it (tools/tool-channel.h), and
 * applications do (`ipybox tool-server`, `ipybox gateway`).
 *
 * Who may ask is decided by a gate (http/gate.h), what can be asked for is a table of routes. A handler gets whole requests, and answers
 * now or later. Requests of one connection are answered one after the other. A peer that closes its end, even only the
 * sending half, while its request is being handled has gone: the handler is told.
 *
 * Ownership: the owner frees the server; then all connections are closed, and those who handle requests are told that their
 * peers have gone. Not from within a handler.
 */
#pragma once

#include "base/loop.h"
#include "http/gate.h"
#include "http/request-head.h"

typedef struct IpbHttpServer IpbHttpServer;
/* A whole request, from when the handler gets it until it is answered or its peer has gone; then it does not exist any more. */
typedef struct IpbHttpRequest IpbHttpRequest;

/* Must answer, or take over (ipb_http_request_steal), or keep @request and do so later, and then
 * ipb_http_request_set_gone must have been called. */
typedef void (*IpbHttpHandler)(IpbHttpRequest *request, void *data);

typedef enum {
    IPB_HTTP_BODY_NONE,     /* what has a body is refused */
    IPB_HTTP_BODY_JSON,     /* there must be one, with the Content-Type application/json */
    IPB_HTTP_BODY_OPTIONAL, /* if there is one, it is JSON */
} IpbHttpBodyKind;

typedef struct {
    const char *method;
    /* "/api/kernels/@/interrupt": each "@" is a segment of the path that is not empty, see ipb_http_request_parameter. The rest is
     * compared as it is sent. */
    const char *path;
    IpbHttpBodyKind body;
    unsigned roles; /* bits of those who may (http/gate.h) */
    IpbHttpHandler handler;
} IpbHttpRoute;

/* How long a peer may take. */
typedef struct {
    /* From the first byte of a head, or the start of the connection, to its end */
    unsigned head_ms;
    unsigned body_ms;  /* for the whole body */
    unsigned write_ms; /* to take another MiB of an answer, or its rest */
    unsigned idle_ms;  /* between an answer and the next request */
    unsigned drain_ms; /* to go after an answer that ends the connection */
} IpbHttpTimeouts;

typedef struct {
    /* Static, as all texts here. */
    const IpbHttpRoute *routes;
    size_t n_routes;
    void *data; /* of the handlers */
    /* The member of the JSON object that tells errors of the server itself: "error". */
    const char *error_member;
    /* What is said for a path that is no route's; NULL: that it is not here. */
    const char *not_found;
    /* With a token in the header Authorization, bodies may have any Content-Type or none. The check
     * of the type is the guard against web pages, and these cannot send that header without a
     * preflight request. */
    bool takes_any_type_with_token;
    unsigned max_connections; /* those that were taken over included */
    size_t max_body;
    /* Of all requests together, until they are answered; at least max_body */
    size_t max_held_bodies;
    size_t max_held_answers; /* of all answers together, until they are written */
    IpbHttpTimeouts timeouts;
} IpbHttpServerOptions;

/* What is good for most: 64 connections, bodies of 64 MiB, 256 MiB and 512 MiB of held bodies and answers; 10 s for a head, 60 s for a
 * body and for a MiB of an answer, 5 min of idling. */
extern const IpbHttpServerOptions IPB_HTTP_SERVER_OPTIONS;

/* @gate: the new server's. */
IpbHttpServer *ipb_http_server_new(IpbLoop *loop, const IpbHttpServerOptions *options,
                                   IpbHttpGate *gate);
/* Listens on @host (a name or an address; "localhost" is both loopback addresses) and @port; 0: any free one. Looks a name up, which
 * may take its time, unless it is localhost or an address. The gate takes the host's name from then on. */
bool ipb_http_server_listen(IpbHttpServer *server, const char *host, unsigned port, GError **error);
/* Listens on @fd (taken, also on failure), which is bound to @port, instead of what it listened on before; connections
 * from there are closed. */
bool ipb_http_server_take_listener(IpbHttpServer *server, int fd, unsigned port, GError **error);
/* 0: it does not listen. */
unsigned ipb_http_server_port(const IpbHttpServer *server);
IpbHttpGate *ipb_http_server_gate(IpbHttpServer *server);
/* For tests. */
void ipb_http_server_set_timeouts(IpbHttpServer *server, const IpbHttpTimeouts *timeouts);
void ipb_http_server_free(IpbHttpServer *server);

/* The request. What is returned lives as long as the request, if nothing else is said. */

/* The segment of the path at the @index-th "@" of its route, decoded; valid UTF-8 without control characters. */
const char *ipb_http_request_parameter(const IpbHttpRequest *request, size_t index);
/* Until the handler returns or answers, whatever is first. */
IpbSpan ipb_http_request_body(const IpbHttpRequest *request);
/* The role that the gate gave it. */
unsigned ipb_http_request_role(const IpbHttpRequest *request);
/* Called when the peer leaves before the answer: the request does not exist any more. */
void ipb_http_request_set_gone(IpbHttpRequest *request, void (*gone)(void *data), void *data);

/* The answer. Each of these ends the request. */

typedef struct {
    unsigned status;
    const char *content_type; /* static; NULL: application/json */
    const char *headers;      /* further ones, each ending in "\r\n", or NULL */
    /* What is sent is these in a row; each may be NULL. The body is not copied. */
    const char *prefix; /* static, as the suffix */
    GBytes *body;       /* borrowed */
    const char *suffix;
    bool is_last; /* close the connection then */
} IpbHttpAnswer;

/* False: what waits to be read by all peers together exceeds its maximum; then nothing was done. An answer without @body never fails. */
bool ipb_http_request_answer(IpbHttpRequest *request, const IpbHttpAnswer *answer);
/* The same with a text for a body, which is taken: small ones, that are not counted. NULL: no body. */
void ipb_http_request_answer_text(IpbHttpRequest *request, unsigned status, char *text);
/* The same, and the connection is closed then. */
void ipb_http_request_refuse(IpbHttpRequest *request, unsigned status, char *text);
/* {"error": @message}, or what the error member is. */
void ipb_http_request_answer_error(IpbHttpRequest *request, unsigned status, const char *message);

/* A place among the connections of a server, of one that was taken over. */
typedef struct IpbHttpPlace IpbHttpPlace;
/* Takes the connection over: its fd (non-blocking) and the bytes that were read and belong to no request. It counts as
 * one of the server's connections until the place is freed, which may be after the server. */
int ipb_http_request_steal(IpbHttpRequest *request, GBytes **ret_unread, IpbHttpPlace **ret_place);
void ipb_http_place_free(IpbHttpPlace *place);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpServer, ipb_http_server_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpPlace, ipb_http_place_free)
