/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuth: the authorization of one MCP server over HTTP. It provides the Authorization header of
 * each request, and handles 401 and 403. Tokens come from the token store, where `ipybox login`
 * puts them. They are refreshed in time, and sent to this server's URL only. It never asks a
 * person: if one is needed, the error names the command to run.
 *
 * Ownership: the transport owns its IpbOAuth. Thread: that of the loop.
 */
#pragma once

#include "http/client.h"
#include "oauth/settings.h"

typedef struct IpbOAuth IpbOAuth;
typedef struct IpbOAuthCall IpbOAuthCall;

/* Reports a problem that does not stop the request. Called from the loop; may free the IpbOAuth. */
typedef void (*IpbOAuthWarningFunc)(const char *text, void *data);

typedef struct {
    const char *server_url; /* ${NAME} replaced */
    /* The argument of `ipybox login` in errors: the registered name; NULL: the URL. */
    const char *server_name;
    const IpbOAuthSettings *settings; /* "oauth" in server_params, ${NAME} replaced; NULL: none */
    const char *state_dir;            /* see ipb_registry_new() */
    IpbHttpClient *http;              /* for token requests: that of the MCP server; borrowed */
    IpbOAuthWarningFunc on_warning;   /* may be NULL */
    void *data;
} IpbOAuthOptions;

/* @options is copied. Opens nothing yet. INVALID: @settings ask for OAuth, but the URL cannot get
 * tokens (neither https nor this machine). Without settings, such a server gets an object that
 * never has a header. */
IpbOAuth *ipb_oauth_new(IpbLoop *loop, const IpbOAuthOptions *options, GError **error);
/* Its calls end without an answer. */
void ipb_oauth_free(IpbOAuth *oauth);

/* Called once for each call, from the loop. @authorization: the value of the Authorization header
 * ("Bearer …"). It is borrowed and secret: use it in the request and nowhere else. NULL without
 * @error: send no header. @error: the request cannot continue. May free the IpbOAuth. */
typedef void (*IpbOAuthFunc)(const char *authorization, const GError *error, void *data);

/* Gets the header for a request. Calls are answered in order. Without a stored token there is no
 * header and no error, because the server may not need one. An expired token is refreshed, or
 * fetched with client_credentials, which may take seconds. */
IpbOAuthCall *ipb_oauth_get(IpbOAuth *oauth, IpbOAuthFunc func, void *data);

typedef struct {
    unsigned status; /* 401 or 403 */
    /* The values of all WWW-Authenticate headers, NULL-terminated; NULL: none. They are hostile. */
    const char *const *www_authenticate;
    /* The beginning of the answer's body, made harmless; NULL or "": none. */
    const char *body;
    /* The header of the refused request, as ipb_oauth_get() gave it; NULL: it had none. */
    const char *authorization;
    /* How often this request was already sent again because of a refusal. */
    unsigned n_retries;
} IpbOAuthRefusal;

/* Handles 401 or 403. With @authorization: send the request once more with it. With @error
 * (REFUSED): the request has failed; the message gives the reason, the server's words and the
 * command to run. One of them is always set. What the challenge asks for (scopes, URL of the
 * metadata) is saved for the next login. */
IpbOAuthCall *ipb_oauth_handle_refusal(IpbOAuth *oauth, const IpbOAuthRefusal *challenge,
                                       IpbOAuthFunc func, void *data);

/* Cancels a call: its function is not called any more. Do not call it from within that function. A
 * token request under way continues, for the next call. */
void ipb_oauth_call_cancel(IpbOAuthCall *call);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuth, ipb_oauth_free)
