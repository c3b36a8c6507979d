/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the server share: server.c (listening, who may connect, memory that is held), server-connection.c (one
 * connection: states, deadlines), server-request.c (what a handler sees), server-output.c (an answer on its way).
 */
#pragma once

#include "http/server.h"

/* Reference-counted: the server holds one, whoever works with it another. */
typedef struct IpbHttpConnection IpbHttpConnection;

/* An answer, and how much of it is written. The body is written from where it lies: it may be large, and is not copied. Plain
 * struct, owned by value; all zero is none. */
typedef struct {
    char *head;
    GBytes *body;
    IpbSpan parts[4]; /* the head, prefix, body, suffix */
    size_t at;        /* bytes written */
    size_t size;      /* of all parts */
} IpbHttpOutput;

/* @origin: of the web page that may see it, or NULL. */
void ipb_http_output_set(IpbHttpOutput *output, const IpbHttpAnswer *answer, const char *allow,
                         const char *origin);
/* Writes what @fd takes now; false when it never will. */
bool ipb_http_output_write(IpbHttpOutput *output, int fd);
void ipb_http_output_clear(IpbHttpOutput *output);

/* server.c */

const IpbHttpServerOptions *ipb_http_server_options(const IpbHttpServer *server);
IpbLoop *ipb_http_server_loop(IpbHttpServer *server);
bool ipb_http_server_claim_body(IpbHttpServer *server, size_t size);
void ipb_http_server_release_body(IpbHttpServer *server, size_t size);
bool ipb_http_server_claim_answer(IpbHttpServer *server, size_t size);
void ipb_http_server_release_answer(IpbHttpServer *server, size_t size);
/* The connection is over: the server lets go of it. */
void ipb_http_server_forget(IpbHttpServer *server, IpbHttpConnection *connection);
IpbHttpPlace *ipb_http_server_new_place(IpbHttpServer *server);
/* {"error": @message} in the server's words; the caller's. */
GBytes *ipb_http_server_describe(const IpbHttpServer *server, const char *message);

/* server-connection.c */

/* Takes @fd, which is non-blocking. */
IpbHttpConnection *ipb_http_connection_new(IpbHttpServer *server, int fd, GError **error);
/* Closes it, and tells who is handling its request; then the reference is gone. */
void ipb_http_connection_end(IpbHttpConnection *connection);
/* Has it sent a request that the gate admitted? */
bool ipb_http_connection_is_admitted(const IpbHttpConnection *connection);
/* Have bytes come that were not read yet? */
bool ipb_http_connection_has_unread(const IpbHttpConnection *connection);
/* Is it waiting for a request of which no byte was read? Since when, in µs of monotonic time? */
bool ipb_http_connection_is_idle(const IpbHttpConnection *connection);
int64_t ipb_http_connection_idle_since(const IpbHttpConnection *connection);
/* For server-request.c: the answer to the request that is being handled, whose claim on held answers is @claimed. */
void ipb_http_connection_answer(IpbHttpConnection *connection, const IpbHttpAnswer *answer,
                                const char *allow, size_t claimed);
IpbSpan ipb_http_connection_body(const IpbHttpConnection *connection);
IpbHttpServer *ipb_http_connection_server(const IpbHttpConnection *connection);
int ipb_http_connection_steal(IpbHttpConnection *connection, GBytes **ret_unread);

/* server-request.c */

/* What is wrong with a request that the gate admitted, and what is said about it. */
typedef struct {
    unsigned status;
    char *reason;
    const char *allow; /* of a 405 */
} IpbHttpRefusal;

/* Finds the route of @head and checks what it demands; NULL: @ret_refusal is filled. */
const IpbHttpRoute *ipb_http_route_find(const IpbHttpServer *server, const IpbHttpHead *head,
                                        unsigned role, IpbHttpRefusal *ret_refusal);
/* Copies the head. */
IpbHttpRequest *ipb_http_request_new(IpbHttpConnection *connection, const IpbHttpRoute *route,
                                     const char *head, size_t size, unsigned role);
void ipb_http_request_handle(IpbHttpRequest *request);
/* Its peer has gone. */
void ipb_http_request_end(IpbHttpRequest *request);
const IpbHttpHead *ipb_http_request_head(const IpbHttpRequest *request);
const IpbHttpServer *ipb_http_request_server(const IpbHttpRequest *request);
