/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuth: the authorization of one MCP server over HTTP: which Authorization header goes with a
 * request now, and what becomes of a 401 or 403. Tokens come from the token store, where `ipybox
 * login` puts them, are refreshed in time, and go to this server's URL only. It never talks to a
 * person: where one is needed, the error names the command.
 *
 * Ownership: the transport owns its IpbOAuth. Thread: the loop's.
 */
#pragma once

#include "http/client.h"
#include "oauth/settings.h"

typedef struct IpbOAuth IpbOAuth;
typedef struct IpbOAuthCall IpbOAuthCall;

/* Something that does not stop the request, but that somebody should know. From the loop; may free the IpbOAuth. */
typedef void (*IpbOAuthWarningFunc)(const char *text, void *data);

typedef struct {
    const char *server_url; /* ${NAME} replaced */
    /* What `ipybox login` is told in errors: the registered name; NULL: the URL. */
    const char *server_name;
    const IpbOAuthSettings *settings; /* "oauth" in server_params, ${NAME} replaced; NULL: none */
    const char *state_dir;            /* as ipb_registry_new() */
    IpbHttpClient *http;              /* for the token requests: the MCP server's own; borrowed */
    IpbOAuthWarningFunc on_warning;   /* may be NULL */
    void *data;
} IpbOAuthOptions;

/* @options is copied. Opens nothing yet. INVALID: @settings ask for OAuth, but the URL cannot have tokens (neither https nor this
 * machine); without settings such a server gets an object that never has a header. */
IpbOAuth *ipb_oauth_new(IpbLoop *loop, const IpbOAuthOptions *options, GError **error);
/* Ends its calls without an answer. */
void ipb_oauth_free(IpbOAuth *oauth);

/* The one answer to a call, always from the loop, never before the call has returned.
 * @authorization: the value of the Authorization header ("Bearer …"), borrowed, secret: into the
 * request and nowhere else; NULL with neither error: send none. @error: the request cannot go on.
 * May free the IpbOAuth. */
typedef void (*IpbOAuthFunc)(const char *authorization, const GError *error, void *data);

/* What belongs to a request now. Answers in the order of the calls. Without a stored token there is no header, and no
 * error: the server may not want one. May refresh an expired token, or fetch one by client_credentials, which takes
 * seconds at worst. */
IpbOAuthCall *ipb_oauth_get(IpbOAuth *oauth, IpbOAuthFunc func, void *data);

typedef struct {
    unsigned status; /* 401 or 403 */
    /* The values of all WWW-Authenticate headers, NULL-terminated; NULL: none. Hostile. */
    const char *const *www_authenticate;
    /* The beginning of the answer's body, made harmless; NULL or "": none. */
    const char *body;
    /* What the refused request carried, as ipb_oauth_get() gave it; NULL: no header. */
    const char *authorization;
    /* How often this same request has been sent again already because of a challenge. */
    unsigned n_retries;
} IpbOAuthRefusal;

/* The server answered with 401 or 403. With an authorization: send the same request once more with it. With an error
 * (REFUSED): the request has failed; the message says why, with the server's own words, and which command to run.
 * Never both NULL. What the challenge asks for (scopes, place of the metadata) is kept for the next login. */
IpbOAuthCall *ipb_oauth_handle_refusal(IpbOAuth *oauth, const IpbOAuthRefusal *challenge,
                                       IpbOAuthFunc func, void *data);

/* No answer comes any more. Not from within its own answer. A token request that is under way goes on, for the next call. */
void ipb_oauth_call_cancel(IpbOAuthCall *call);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuth, ipb_oauth_free)
