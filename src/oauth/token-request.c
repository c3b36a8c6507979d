/* SPDX-License-Identifier: Apache-2.0
 *
 * Token requests; see the header.
 */
#include "oauth/token-request.h"

#include <string.h>

#include "base/error.h"
#include "oauth/url.h"

struct IpbOAuthTokenRequest {
    IpbOAuthFetch *fetch;
    IpbOAuthToken *pattern;
    IpbOAuthTokenRequestFunc func;
    void *data;
};

static void
free_form(GString *form)
{
    explicit_bzero(form->str, form->len);
    g_string_free(form, true);
}

char *
ipb_oauth_token_request_authenticate(GString *form, IpbOAuthAuthMethod method,
                                     const char *client_id, const char *client_secret)
{
    if (method != IPB_OAUTH_AUTH_SECRET_BASIC || client_secret == NULL) {
        ipb_oauth_form_add(form, "client_id", client_id);
        if (method == IPB_OAUTH_AUTH_SECRET_POST)
            ipb_oauth_form_add(form, "client_secret", client_secret);
        return NULL;
    }
    g_autofree char *id = g_uri_escape_string(client_id, NULL, false);
    g_autofree char *secret = g_uri_escape_string(client_secret, NULL, false);
    g_autofree char *pair = g_strconcat(id, ":", secret, NULL);
    g_autofree char *encoded = g_base64_encode((const guchar *) pair, strlen(pair));
    return g_strconcat("Basic ", encoded, NULL);
}

void
ipb_oauth_token_request_cancel(IpbOAuthTokenRequest *exchange)
{
    if (exchange == NULL)
        return;
    ipb_oauth_fetch_cancel(exchange->fetch);
    ipb_oauth_token_free(exchange->pattern);
    g_free(exchange);
}

/* Adds the members that the answer does not have. */
static void
complete(IpbOAuthToken *token, const IpbOAuthToken *pattern)
{
    token->issuer = g_strdup(pattern->issuer);
    token->resource = g_strdup(pattern->resource);
    token->token_endpoint = g_strdup(pattern->token_endpoint);
    token->revocation_endpoint = g_strdup(pattern->revocation_endpoint);
    token->client_id = g_strdup(pattern->client_id);
    token->auth_method = pattern->auth_method;
    if (token->scope == NULL)
        token->scope = g_strdup(pattern->scope);
    if (token->refresh_token == NULL)
        token->refresh_token = g_strdup(pattern->refresh_token);
}

static IpbOAuthToken *
read_reply(const IpbOAuthTokenRequest *exchange, const IpbOAuthReply *reply, bool *ret_is_final,
           GError **error)
{
    if (reply->status == 200) {
        IpbOAuthToken *token = ipb_oauth_token_parse(reply->body, reply->size,
                                                     g_get_real_time() / G_USEC_PER_SEC, error);
        if (token != NULL)
            complete(token, exchange->pattern);
        return token;
    }
    g_autofree char *code = NULL;
    g_autofree char *refusal = ipb_oauth_error_parse(reply->body, reply->size, &code);
    /* A status without a reason may come from any hop on the way, so it ends no login. */
    *ret_is_final = code != NULL && reply->status >= 400 && reply->status < 500 &&
                    reply->status != 429 && reply->status != 408;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                "the authorization server %s gives no token (status %u): %s",
                exchange->pattern->issuer, reply->status, refusal);
    return NULL;
}

static void
on_reply(const IpbOAuthReply *reply, const GError *error, void *data)
{
    IpbOAuthTokenRequest *exchange = data;
    g_autoptr(GError) failure = NULL;
    bool is_final = false;
    IpbOAuthToken *token = NULL;
    if (error == NULL)
        token = read_reply(exchange, reply, &is_final, &failure);
    else
        failure = g_error_copy(error);
    exchange->fetch = NULL;
    IpbOAuthTokenRequestFunc func = exchange->func;
    void *receiver = exchange->data;
    ipb_oauth_token_request_cancel(exchange);
    func(token, is_final, failure, receiver);
}

IpbOAuthTokenRequest *
ipb_oauth_token_request_new(IpbHttpClient *http, const IpbOAuthTokenRequestOptions *request,
                            IpbOAuthTokenRequestFunc func, void *data)
{
    IpbOAuthTokenRequest *exchange = g_new0(IpbOAuthTokenRequest, 1);
    const IpbOAuthToken *pattern = request->pattern;
    exchange->pattern = ipb_oauth_token_copy(pattern);
    exchange->func = func;
    exchange->data = data;
    g_autofree char *authorization = ipb_oauth_token_request_authenticate(
        request->form, pattern->auth_method, pattern->client_id, request->client_secret);
    IpbOAuthFetchRequest fetch = {
        .url = pattern->token_endpoint,
        .form = request->form->str,
        .authorization = authorization,
    };
    exchange->fetch = ipb_oauth_fetch(http, &fetch, on_reply, exchange);
    free_form(request->form);
    return exchange;
}
