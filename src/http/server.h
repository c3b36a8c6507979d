/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpServer: our HTTP/1.1 server, for hostile peers: a strict head parser
 * (http/request-head.h), bodies by Content-Length, or chunked where a route takes them in pieces,
 * bounds on everything, deadlines for
 * everything that a peer does. Kernels reach it (tools/tool-channel.h), and applications do
 * (`ipybox tool-server`, `ipybox gateway`).
 *
 * A gate decides who may send requests (http/gate.h), and a table of routes says which requests
 * there are. A handler gets whole requests, and answers now or later, at once or in pieces.
 * Requests of one connection are answered one after the other. A peer that closes its end while its
 * request is being handled, even only the sending half, is gone: the handler is notified.
 *
 * Ownership: the owner frees the server, not from within a handler. All connections are closed
 * then, and the handlers of their requests are notified that the peers are gone.
 */
#pragma once

#include "base/loop.h"
#include "http/gate.h"
#include "http/peer-list.h"
#include "http/request-head.h"
#include "http/tls.h"

/* Sockets that a server listens on. */
#define IPB_HTTP_MAX_LISTENERS 4

typedef struct IpbHttpServer IpbHttpServer;
/* A whole request. It exists from the call of its handler until it is answered or its peer is gone.
 */
typedef struct IpbHttpRequest IpbHttpRequest;

/* Must answer the request, take over its connection (ipb_http_request_steal), or keep it and do so
 * later. A handler that keeps it must call ipb_http_request_set_gone. */
typedef void (*IpbHttpHandler)(IpbHttpRequest *request, void *data);

typedef enum {
    /* A request with a body is refused. */
    IPB_HTTP_BODY_NONE,
    /* There must be a body, with the Content-Type application/json. */
    IPB_HTTP_BODY_JSON,
    /* If there is a body, it is JSON. */
    IPB_HTTP_BODY_OPTIONAL,
    /* The handler is called after the head, and takes the body, of any type and size, in pieces:
     * ipb_http_request_read_body(). It may be chunked. */
    IPB_HTTP_BODY_STREAM,
} IpbHttpBodyKind;

typedef struct {
    const char *method;
    /* "/api/kernels/@/interrupt": each "@" is a segment of the path that is not empty, see
     * ipb_http_request_parameter. The rest is compared as it is sent. A "*" at the end stands for
     * anything, also nothing. */
    const char *path;
    IpbHttpBodyKind body;
    /* Bits of the roles that may send it (http/gate.h) */
    unsigned roles;
    IpbHttpHandler handler;
} IpbHttpRoute;

/* How long a peer may take. */
typedef struct {
    /* From the first byte of a head, or the start of the connection, to its end; also for the
     * handshake of TLS */
    unsigned head_ms;
    /* For the whole body; of one that is read in pieces, for each MiB */
    unsigned body_ms;
    /* To accept another MiB of an answer, or its rest */
    unsigned write_ms;
    /* Between an answer and the next request */
    unsigned idle_ms;
    /* To close after an answer that ends the connection */
    unsigned drain_ms;
} IpbHttpTimeouts;

/* What answers say to browsers, in the headers Access-Control-…. NULL: the header is not sent; the
 * answer to a preflight request has a default for it. Each text is valid in a header. */
typedef struct {
    /* Allow-Origin where the request names no Origin. Otherwise it is the request's, if the gate
     * allows that. */
    const char *origin;
    const char *credentials;
    const char *headers;
    const char *methods;
    /* Expose-Headers. With an Origin the default is Location. */
    const char *exposed;
    const char *max_age;
} IpbHttpCors;

typedef struct {
    /* Static, as all texts here. */
    const IpbHttpRoute *routes;
    size_t n_routes;
    /* Of the handlers */
    void *data;
    /* The member of the JSON object that carries the server's own errors: "error". */
    const char *error_member;
    /* Errors have a member "reason", too: the phrase of the status. */
    bool has_reason;
    /* The paths of requests are those of routes with this before it: "/some/path". NULL: nothing.
     */
    const char *base_path;
    /* The request OPTIONS for a path that there is gets 200 and the header Allow. */
    bool answers_options;
    IpbHttpCors cors;
    /* The error for a path that no route has; NULL: a general one. */
    const char *not_found;
    /* With a token in the header Authorization, bodies may have any Content-Type or none. The check
     * of the type is the guard against web pages, and these cannot send that header without a
     * preflight request. */
    bool takes_any_type_with_token;
    /* Including those that were taken over */
    unsigned max_connections;
    size_t max_body;
    /* Bytes of all requests together, until they are answered; at least max_body */
    size_t max_held_bodies;
    /* Bytes of all whole answers together, until they are written */
    size_t max_held_answers;
    /* Large requests are handled one after the other, with pauses: http/turns.h */
    bool paces_large_requests;
    IpbHttpTimeouts timeouts;
} IpbHttpServerOptions;

/* Defaults: 64 connections, bodies of 64 MiB, 256 MiB and 512 MiB of held bodies and answers; 10 s
 * for a head, 60 s for a body and for a MiB of an answer, 5 min of idling. */
extern const IpbHttpServerOptions IPB_HTTP_SERVER_OPTIONS;

/* Takes @gate. */
IpbHttpServer *ipb_http_server_new(IpbLoop *loop, const IpbHttpServerOptions *options,
                                   IpbHttpGate *gate);
/* Listens on @host (a name or an address; "localhost" is both loopback addresses) and @port; 0: any
 * free one. Resolves a name, which may block, unless it is localhost or an address. The gate allows
 * the host's name from then on. */
bool ipb_http_server_listen(IpbHttpServer *server, const char *host, unsigned port, GError **error);
/* Listens on sockets that another program opened, or on a Unix socket; they are non-blocking. They
 * are taken, even on failure. At most IPB_HTTP_MAX_LISTENERS. On a Unix socket the gate allows the
 * host "localhost". INVALID: one is no listening socket. */
bool ipb_http_server_adopt(IpbHttpServer *server, const int *fds, size_t n_fds, GError **error);
/* Listens on @fd (taken, even on failure), which is bound to @port, instead of the previous socket;
 * connections from there are closed. */
bool ipb_http_server_take_listener(IpbHttpServer *server, int fd, unsigned port, GError **error);
/* Only peers with these addresses may connect by TCP; the connections of others are closed at once.
 * Takes @peers. @on_refused (may be NULL) gets the address of such a peer, once a minute at most.
 */
void ipb_http_server_set_peers(IpbHttpServer *server, IpbPeerList *peers,
                               void (*on_refused)(const char *address, void *data), void *data);
/* New connections use TLS with @keys, of which the server takes a reference; NULL: they do not.
 * There may be no upgrades then: no handler may call ipb_http_request_steal. A peer that speaks
 * plain HTTP gets 400. */
void ipb_http_server_set_tls(IpbHttpServer *server, IpbTlsKeys *keys);
/* 0: it does not listen. */
unsigned ipb_http_server_port(const IpbHttpServer *server);
IpbHttpGate *ipb_http_server_gate(IpbHttpServer *server);
/* For tests. */
void ipb_http_server_set_timeouts(IpbHttpServer *server, const IpbHttpTimeouts *timeouts);
void ipb_http_server_free(IpbHttpServer *server);

/* --- the request: what is returned lives as long as it does, unless stated otherwise ---------- */

const IpbHttpHead *ipb_http_request_head(const IpbHttpRequest *request);
/* The segment of the path at the @index-th "@" of its route, decoded; valid UTF-8 without control
 * characters. */
const char *ipb_http_request_parameter(const IpbHttpRequest *request, size_t index);
/* Valid until the handler returns or answers, whichever is first. */
IpbSpan ipb_http_request_body(const IpbHttpRequest *request);
/* The role that the gate gave it. */
unsigned ipb_http_request_role(const IpbHttpRequest *request);
/* @on_gone: the peer left before the answer, and the request does not exist any more. */
void ipb_http_request_set_gone(IpbHttpRequest *request, void (*on_gone)(void *data), void *data);

/* --- a body in pieces (IPB_HTTP_BODY_STREAM) -------------------------------------------------- */

/* Called from the loop. They may pause the body, or answer the request. */
typedef struct {
    void (*on_piece)(const char *bytes, size_t size, void *data);
    /* The body is complete. Otherwise the peer leaves, is too slow or sends malformed chunks:
     * then on_gone of the request is called. */
    void (*on_end)(void *data);
} IpbHttpBodyFuncs;

/* Begins to read the body; a peer that waits for "100 Continue" gets it. Call
 * ipb_http_request_set_gone() before. Both functions may be called before this returns. An answer
 * before the end of the body ends the connection. */
void ipb_http_request_read_body(IpbHttpRequest *request, const IpbHttpBodyFuncs *funcs, void *data);
/* While it is paused, nothing is read, and the peer may take as long as it likes. */
void ipb_http_request_pause_body(IpbHttpRequest *request, bool is_paused);

/* With each 503: clients that honour it try again after a second. */
#define IPB_HTTP_RETRY_AFTER "Retry-After: 1\r\n"

/* --- the answer: each of these ends the request. To a HEAD request only the head is sent ------ */

typedef struct {
    unsigned status;
    /* Static; NULL: application/json */
    const char *content_type;
    /* Further headers, each ending in "\r\n", or NULL */
    const char *headers;
    /* These three are sent in a row; each may be NULL. @prefix and @suffix are static. @body is
     * borrowed and not copied. */
    const char *prefix;
    GBytes *body;
    const char *suffix;
    /* Of ipb_http_request_answer_stream(): exactly so many bytes follow */
    bool has_stream_size;
    uint64_t stream_size;
    /* Close the connection then */
    bool is_last;
} IpbHttpAnswer;

/* False: nothing was done, because all answers together would exceed their maximum. An answer
 * without @body never fails. */
bool ipb_http_request_answer(IpbHttpRequest *request, const IpbHttpAnswer *answer);
/* Answers with a short text, which is taken and not counted. NULL: no body. */
void ipb_http_request_answer_text(IpbHttpRequest *request, unsigned status, char *text);
/* The same, and the connection is closed then. */
void ipb_http_request_refuse(IpbHttpRequest *request, unsigned status, char *text);
/* {"error": @message}, with the server's name for the member. */
void ipb_http_request_answer_error(IpbHttpRequest *request, unsigned status, const char *message);
/* The same with further headers (as in IpbHttpAnswer), and the connection is closed then. */
void ipb_http_request_refuse_error(IpbHttpRequest *request, unsigned status, const char *message,
                                   const char *headers);

/* --- an answer in pieces ---------------------------------------------------------------------- */

/* Bytes of one stream that wait for its peer. */
#define IPB_HTTP_STREAM_MAX_WAITING (256 * 1024)

/* An answer whose body is written in pieces over time, for example server-sent events. HTTP/1.1
 * peers get it chunked; for HTTP/1.0 the connection ends with it. */
typedef struct IpbHttpStream IpbHttpStream;

/* Called from the loop (on_gone also from ipb_http_server_free), never from within a function of
 * the stream. */
typedef struct {
    /* A write took less than it was given; now there is room again. */
    void (*on_writable)(void *data);
    /* The peer is gone, or did not accept what waited within write_ms. The stream does not exist
     * any more. Once. */
    void (*on_gone)(void *data);
} IpbHttpStreamFuncs;

/* Sends the head of @answer, whose body must be empty. NULL: it was a HEAD request; nothing
 * follows. */
IpbHttpStream *ipb_http_request_answer_stream(IpbHttpRequest *request, const IpbHttpAnswer *answer,
                                              const IpbHttpStreamFuncs *funcs, void *data);
/* Returns how many bytes were taken. If these are fewer than @size, IPB_HTTP_STREAM_MAX_WAITING
 * bytes wait for the peer: write the rest after on_writable. */
size_t ipb_http_stream_write(IpbHttpStream *stream, const char *bytes, size_t size);
/* Ends the body. What waits is still sent; the stream does not exist any more. */
void ipb_http_stream_end(IpbHttpStream *stream);
/* The answer cannot be completed: closes the connection, so that the peer notices it. The stream
 * does not exist any more. */
void ipb_http_stream_abort(IpbHttpStream *stream);

/* --- taking over ------------------------------------------------------------------------------ */

/* A place among the connections of a server, of one that was taken over. */
typedef struct IpbHttpPlace IpbHttpPlace;
/* Takes over the connection: its fd (non-blocking) and the bytes that were read and belong to no
 * request. It counts as one of the server's connections until the place is freed, which may be
 * after the server. */
int ipb_http_request_steal(IpbHttpRequest *request, GBytes **ret_unread, IpbHttpPlace **ret_place);
void ipb_http_place_free(IpbHttpPlace *place);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpServer, ipb_http_server_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbHttpPlace, ipb_http_place_free)
