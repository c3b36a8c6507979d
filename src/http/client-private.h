/* SPDX-License-Identifier: Apache-2.0
 *
 * What client.c (connections, the loop) and call.c (one request and its answer) share.
 */
#pragma once

#include "http/client.h"
#include "http/curl.h"

struct IpbHttpClient {
    IpbCurl *curl;
    IpbLoop *loop;
    CURLM *multi;
    IpbTimer *timer;      /* libcurl's */
    IpbTimer *work_timer; /* tells the calls in @ended, and begins those in @waiting */
    char *ca_file, *ca_dir;
    char **env;        /* or NULL: the process's */
    GHashTable *calls; /* set of all IpbHttpCall */
    GQueue waiting;    /* borrowed: to be given to libcurl */
    GQueue ended;      /* borrowed: on_end is to be called */
    unsigned in_curl;  /* libcurl is running: it cannot be called */
    bool is_freed;     /* within a function of a call */
    unsigned telling;  /* functions under way, after which a freed client goes */
};

struct IpbHttpCall {
    IpbHttpClient *client;
    CURL *easy;
    bool is_added; /* to the multi handle */
    bool is_freed; /* by the owner, while libcurl was running */
    bool is_queued, has_ended;
    char *origin; /* for messages */
    struct curl_slist *headers;
    char *body;
    size_t body_size, body_sent;
    char details[CURL_ERROR_SIZE];
    IpbHttpLimits limits;
    IpbHttpDeadlines deadlines;
    IpbHttpHeadFunc on_head;
    IpbHttpBodyFunc on_body;
    IpbHttpEndFunc on_end;
    void *data;

    IpbTimer *timer;
    int64_t began, last_byte; /* monotonic, µs */
    unsigned status;          /* told */
    unsigned head_status;     /* of the head that is being read */
    bool has_head;
    size_t head_size, body_received;
    unsigned n_head_lines;
    GPtrArray *names, *values; /* of the answer's headers */
    GError *error;             /* what ended it */
};

/* Makes the easy handle; NULL and the call's error if that fails. */
void ipb_http_call_prepare(IpbHttpCall *call, const IpbHttpCallOptions *options);
/* The call has come to its end, as libcurl says or by its own error; on_end comes from the loop. */
void ipb_http_call_finish(IpbHttpCall *call, CURLcode code);
void ipb_http_call_start_timer(IpbHttpCall *call);
/* Frees what is left; it is not in libcurl any more. */
void ipb_http_call_destroy(IpbHttpCall *call);

/* Has the loop do what waits. */
void ipb_http_client_schedule(IpbHttpClient *client);
/* The value of an environment variable as the client's options have it; NULL: not set, or empty. */
const char *ipb_http_client_env(const IpbHttpClient *client, const char *name);
