/* SPDX-License-Identifier: Apache-2.0
 *
 * One request whose answer is small and needed as a whole; see the header.
 */
#include "oauth/fetch.h"

#include <string.h>

#include "oauth/metadata.h"

#define CONNECT_TIMEOUT_MS 15000
#define TOTAL_TIMEOUT_MS 30000
#define MAX_HEAD (64 * 1024)
#define MAX_CHALLENGES 16

struct IpbOAuthFetch {
    IpbHttpCall *call;
    GString *body;
    IpbOAuthFetchFunc func;
    void *data;
};

void
ipb_oauth_fetch_cancel(IpbOAuthFetch *fetch)
{
    if (fetch == NULL)
        return;
    ipb_http_call_free(fetch->call);
    explicit_bzero(fetch->body->str, fetch->body->len);
    g_string_free(fetch->body, true);
    g_free(fetch);
}

static void
on_body(IpbHttpCall *call, const char *bytes, size_t size, void *data)
{
    IpbOAuthFetch *fetch = data;
    g_string_append_len(fetch->body, bytes, (gssize) size);
}

static char **
copy_challenges(const IpbHttpCall *call)
{
    g_autoptr(GStrvBuilder) list = g_strv_builder_new();
    const char *value;
    for (unsigned i = 0; i < MAX_CHALLENGES; i++)
        if ((value = ipb_http_call_header(call, "WWW-Authenticate", i)) != NULL)
            g_strv_builder_add(list, value);
    return g_strv_builder_end(list);
}

/* The receiver may free the owner of the request, so everything is taken out before it is
 * called. */
static void
on_end(IpbHttpCall *call, const GError *error, void *data)
{
    IpbOAuthFetch *fetch = data;
    g_auto(GStrv) challenges = copy_challenges(call);
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    GString *body = fetch->body;
    IpbOAuthReply reply = {
        .status = ipb_http_call_status(call),
        .body = body->str,
        .size = body->len,
        .www_authenticate = (const char *const *) challenges,
    };
    IpbOAuthFetchFunc func = fetch->func;
    void *receiver = fetch->data;
    fetch->body = g_string_new(NULL);
    ipb_oauth_fetch_cancel(fetch);
    func(failure == NULL ? &reply : NULL, failure, receiver);
    explicit_bzero(body->str, body->len);
    g_string_free(body, true);
}

IpbOAuthFetch *
ipb_oauth_fetch(IpbHttpClient *http, const IpbOAuthFetchRequest *request, IpbOAuthFetchFunc func,
                void *data)
{
    IpbOAuthFetch *fetch = g_new0(IpbOAuthFetch, 1);
    fetch->func = func;
    fetch->data = data;
    fetch->body = g_string_new(NULL);
    const char *body = request->form != NULL ? request->form : request->json;
    g_autofree char *authorization =
        request->authorization != NULL
            ? g_strconcat("Authorization: ", request->authorization, NULL)
            : NULL;
    g_autofree char *accept = g_strconcat(
        "Accept: ", request->accept != NULL ? request->accept : "application/json", NULL);
    const char *headers[4] = {accept};
    size_t n_headers = 1;
    if (body != NULL)
        headers[n_headers++] = request->form != NULL
                                   ? "Content-Type: application/x-www-form-urlencoded"
                                   : "Content-Type: application/json";
    if (authorization != NULL)
        headers[n_headers++] = authorization;
    IpbHttpCallOptions options = {
        .method = body != NULL ? "POST" : "GET",
        .url = request->url,
        .headers = headers,
        .body = body,
        .body_size = body != NULL ? strlen(body) : 0,
        .limits = {.head_size = MAX_HEAD, .body_size = IPB_OAUTH_MAX_DOCUMENT},
        .deadlines = {.connect_ms = CONNECT_TIMEOUT_MS, .total_ms = TOTAL_TIMEOUT_MS},
        .on_body = on_body,
        .on_end = on_end,
        .data = fetch,
    };
    fetch->call = ipb_http_client_send(http, &options);
    return fetch;
}
