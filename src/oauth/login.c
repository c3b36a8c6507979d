/* SPDX-License-Identifier: Apache-2.0
 *
 * A login, step by step; see the header. Each step ends with the next one or with end().
 */
#include "oauth/login.h"

#include <string.h>

#include "base/error.h"
#include "base/file-lock.h"
#include "oauth/callback.h"
#include "oauth/challenge.h"
#include "oauth/discovery.h"
#include "oauth/token-request.h"
#include "oauth/pkce.h"
#include "oauth/registration.h"
#include "oauth/url.h"

#define LOCK_TIMEOUT_MS 60000
#define MAX_SHOWN 500
/* Most servers ask for a token before they read the request. */
#define PROBE "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}"

struct IpbOAuthLogin {
    IpbLoop *loop;
    IpbOAuthLoginFuncs funcs;
    void *data;
    IpbHttpClient *http;
    char *server_url, *own_scope;
    unsigned port;
    IpbOAuthSettings *settings;
    IpbOAuthStore store;
    IpbOAuthRecord *record;
    char *challenged_scope, *resource_metadata;
    IpbOAuthResource *resource; /* NULL: the server has none */
    IpbOAuthServer *server;
    IpbOAuthClient *client;
    char *scope, *state, *verifier;
    bool is_waiting; /* the redirect is awaited */
    char *code;
    IpbOAuthToken *token;
    /* The operation under way: */
    IpbTimer *timer;
    IpbOAuthFetch *probe;
    IpbOAuthDiscovery *discovery;
    IpbOAuthCallback *callback;
    IpbOAuthRegistration *registration;
    IpbOAuthTokenRequest *exchange;
    IpbFileLockWait *lock_wait;
    GError *error;
};

static void
on_end(void *data)
{
    IpbOAuthLogin *login = data;
    login->funcs.on_done(login->token, login->error, login->data);
}

/* Takes @error; NULL: the login succeeded. */
static void
end(IpbOAuthLogin *login, GError *error)
{
    login->error = error;
    ipb_timer_free(login->timer);
    login->timer = ipb_timer_new(login->loop, 0, on_end, login);
}

/* --- the token --- */

static void
on_locked(int fd, const GError *error, void *data)
{
    IpbOAuthLogin *login = data;
    ipb_autofd lock = fd;
    GError *failure = error != NULL ? g_error_copy(error) : NULL;
    login->lock_wait = NULL;
    g_autoptr(IpbOAuthRecord) record =
        failure == NULL ? ipb_oauth_store_load(&login->store, &failure) : NULL;
    if (record != NULL) {
        ipb_oauth_token_free(record->token);
        record->token = ipb_oauth_token_copy(login->token);
        ipb_oauth_record_clear_challenge(record);
        if (login->client->redirect_uri != NULL)
            ipb_oauth_record_set_client(record, ipb_oauth_client_copy(login->client));
        ipb_oauth_store_save(&login->store, record, &failure);
    }
    end(login, failure);
}

static void
on_exchanged(IpbOAuthToken *token, bool is_final, const GError *error, void *data)
{
    IpbOAuthLogin *login = data;
    GError *failure = error != NULL ? g_error_copy(error) : NULL;
    login->exchange = NULL;
    login->token = token;
    if (failure != NULL || !ipb_oauth_store_make_directory(&login->store, &failure))
        end(login, failure);
    else
        login->lock_wait = ipb_file_lock_wait(login->loop, login->store.lock_path, LOCK_TIMEOUT_MS,
                                              on_locked, login);
}

static const char *
get_resource(const IpbOAuthLogin *login)
{
    return login->resource != NULL ? login->resource->resource : login->server_url;
}

static void
redeem(IpbOAuthLogin *login)
{
    IpbOAuthToken pattern = {
        .issuer = login->server->issuer,
        .resource = (char *) get_resource(login),
        .token_endpoint = login->server->token_endpoint,
        .revocation_endpoint = login->server->revocation_endpoint,
        .client_id = login->client->client_id,
        .auth_method = login->client->auth_method,
        .scope = login->scope,
    };
    GString *form = g_string_new(NULL);
    ipb_oauth_form_add(form, "grant_type", "authorization_code");
    ipb_oauth_form_add(form, "code", login->code);
    ipb_oauth_form_add(form, "redirect_uri", ipb_oauth_callback_uri(login->callback));
    ipb_oauth_form_add(form, "code_verifier", login->verifier);
    ipb_oauth_form_add(form, "resource", pattern.resource);
    IpbOAuthTokenRequestOptions request = {
        .form = form,
        .pattern = &pattern,
        .client_secret = login->client->client_secret,
    };
    login->exchange = ipb_oauth_token_request_new(login->http, &request, on_exchanged, login);
}

/* --- the answer of the browser --- */

/* Whether the answer comes from the server that was asked (RFC 9207). If not, nothing of it is
 * shown. */
static bool
check_issuer(const IpbOAuthLogin *login, const char *issuer, GError **error)
{
    if (issuer == NULL ? !login->server->promises_iss : g_str_equal(issuer, login->server->issuer))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "the answer %s, so it may be from another authorization server: it is not used. "
                "Log in again, and if this happens again, do not trust this server",
                issuer != NULL ? "names an issuer that is not the one that was asked"
                               : "names no issuer, though the server promises one");
    return false;
}

static bool
read_answer(IpbOAuthLogin *login, GHashTable *answer, GError **error)
{
    const char *code = g_hash_table_lookup(answer, "code");
    const char *refusal = g_hash_table_lookup(answer, "error");
    const char *description = g_hash_table_lookup(answer, "error_description");
    if (!check_issuer(login, g_hash_table_lookup(answer, "iss"), error))
        return false;
    if (refusal != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "the authorization server %s refused the login: %.100s%s%.*s",
                    login->server->issuer, refusal, description != NULL ? ": " : "", MAX_SHOWN,
                    description != NULL ? description : "");
        return false;
    }
    if (code == NULL || *code == '\0') {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "the answer of the authorization server has no code: log in again");
        return false;
    }
    login->code = g_strdup(code);
    return true;
}

static void
on_answer_due(void *data)
{
    redeem(data);
}

/* False: the answer does not have our state. A guess can neither log us in nor end the login. */
static bool
on_redirect(const char *query, void *data)
{
    IpbOAuthLogin *login = data;
    g_autoptr(GHashTable) answer = ipb_oauth_form_parse(query);
    const char *state = answer != NULL ? g_hash_table_lookup(answer, "state") : NULL;
    if (!login->is_waiting || g_strcmp0(state, login->state) != 0)
        return false;
    login->is_waiting = false;
    GError *error = NULL;
    if (!read_answer(login, answer, &error))
        end(login, error);
    else
        login->timer = ipb_timer_new(login->loop, 0, on_answer_due, login);
    return true;
}

bool
ipb_oauth_login_paste(IpbOAuthLogin *login, const char *text, GError **error)
{
    g_autofree char *line = g_strstrip(g_strdup(text));
    const char *mark = strchr(line, '?');
    line[strcspn(line, "#")] = '\0';
    if (mark != NULL && on_redirect(mark + 1, login))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "this is not the address of this login: it begins with %s?",
                login->callback != NULL ? ipb_oauth_callback_uri(login->callback) : "http");
    return false;
}

/* --- the URL for the browser --- */

static char *
make_url(const IpbOAuthLogin *login)
{
    g_autofree char *challenge = ipb_oauth_pkce_challenge(login->verifier);
    const char *endpoint = login->server->authorization_endpoint;
    g_autoptr(GString) query = g_string_new(NULL);
    ipb_oauth_form_add(query, "response_type", "code");
    ipb_oauth_form_add(query, "client_id", login->client->client_id);
    ipb_oauth_form_add(query, "redirect_uri", ipb_oauth_callback_uri(login->callback));
    ipb_oauth_form_add(query, "code_challenge", challenge);
    ipb_oauth_form_add(query, "code_challenge_method", "S256");
    ipb_oauth_form_add(query, "state", login->state);
    ipb_oauth_form_add(query, "resource", get_resource(login));
    ipb_oauth_form_add(query, "scope", login->scope);
    if (ipb_oauth_scope_has(login->scope, "offline_access"))
        ipb_oauth_form_add(query, "prompt", "consent"); /* required by OpenID Connect */
    return g_strconcat(endpoint, strchr(endpoint, '?') != NULL ? "&" : "?", query->str, NULL);
}

static void
on_client(IpbOAuthClient *client, const GError *error, void *data)
{
    IpbOAuthLogin *login = data;
    GError *failure = error != NULL ? g_error_copy(error) : NULL;
    login->registration = NULL;
    login->client = client;
    if (failure == NULL)
        login->state = ipb_oauth_random_word(&failure);
    if (failure == NULL)
        login->verifier = ipb_oauth_random_word(&failure);
    if (failure != NULL) {
        end(login, failure);
        return;
    }
    login->is_waiting = true;
    g_autofree char *url = make_url(login);
    login->funcs.on_url(url, login->data);
}

/* The port of an earlier registration; 0: there is none. */
static unsigned
get_registered_port(const IpbOAuthClient *client)
{
    const char *colon = client != NULL ? strrchr(client->redirect_uri, ':') : NULL;
    return colon != NULL ? (unsigned) g_ascii_strtoull(colon + 1, NULL, 10) & 0xffff : 0;
}

static bool
listen_for_answer(IpbOAuthLogin *login, GError **error)
{
    unsigned wanted = login->port != 0          ? login->port
                      : login->settings != NULL ? login->settings->callback_port
                                                : 0;
    const IpbOAuthClient *client = ipb_oauth_record_client(login->record, login->server->issuer);
    unsigned registered = get_registered_port(client);
    if (wanted == 0 && registered != 0)
        login->callback = ipb_oauth_callback_new(login->loop, registered, on_redirect, login, NULL);
    if (login->callback == NULL)
        login->callback = ipb_oauth_callback_new(login->loop, wanted, on_redirect, login, error);
    return login->callback != NULL;
}

/* Chooses the scope in the order of the specification: the user, the challenge, the server's list.
 * Scopes that were granted before are kept. A refresh token is requested if the server has a scope
 * for it. */
static void
choose_scope(IpbOAuthLogin *login)
{
    const IpbOAuthRecord *record = login->record;
    const IpbOAuthToken *token = record->token;
    const char *own = login->own_scope != NULL  ? login->own_scope
                      : login->settings != NULL ? login->settings->scope
                                                : NULL;
    const char *offered = login->resource != NULL ? login->resource->scopes_supported : NULL;
    const char *wanted = own != NULL                       ? own
                         : login->challenged_scope != NULL ? login->challenged_scope
                         : record->wanted_scope != NULL    ? record->wanted_scope
                                                           : offered;
    bool is_same = token != NULL && g_str_equal(token->issuer, login->server->issuer);
    g_autofree char *scope = ipb_oauth_scope_union(is_same ? token->scope : NULL, wanted);
    g_autofree char *raised =
        ipb_oauth_scope_union(scope, record->is_step_up ? record->wanted_scope : NULL);
    bool has_offline = own == NULL && raised != NULL &&
                       ipb_oauth_scope_has(login->server->scopes_supported, "offline_access");
    login->scope = ipb_oauth_scope_union(raised, has_offline ? "offline_access" : NULL);
}

static bool
check_server(const IpbOAuthLogin *login, GError **error)
{
    const IpbOAuthServer *server = login->server;
    const char *what = server->authorization_endpoint == NULL ? "has no authorization_endpoint"
                       : !server->has_s256 ? "does not say that it supports PKCE with S256"
                                           : NULL;
    if (what == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "the authorization server %s %s: a login there would not be safe", server->issuer,
                what);
    return false;
}

static void
on_discovered(IpbOAuthResource *resource, IpbOAuthServer *server, const GError *error, void *data)
{
    IpbOAuthLogin *login = data;
    GError *failure = error != NULL ? g_error_copy(error) : NULL;
    login->discovery = NULL;
    login->resource = resource;
    login->server = server;
    if (failure != NULL || !check_server(login, &failure) || !listen_for_answer(login, &failure)) {
        end(login, failure);
        return;
    }
    choose_scope(login);
    IpbOAuthRegistrationOptions options = {
        .server = login->server,
        .settings = login->settings,
        .known = ipb_oauth_record_client(login->record, login->server->issuer),
        .redirect_uri = ipb_oauth_callback_uri(login->callback),
        .scope = login->scope,
    };
    login->registration = ipb_oauth_register(login->loop, login->http, &options, on_client, login);
}

static void
start_discovery(IpbOAuthLogin *login)
{
    const char *metadata = login->resource_metadata != NULL ? login->resource_metadata
                                                            : login->record->resource_metadata;
    IpbOAuthDiscoveryOptions options = {
        .server_url = login->server_url,
        .resource_metadata = metadata,
        .issuer = login->settings != NULL ? login->settings->issuer : NULL,
    };
    login->discovery = ipb_oauth_discover(login->loop, login->http, &options, on_discovered, login);
}

/* A server that does not answer in time may still have metadata. */
static void
on_probed(const IpbOAuthReply *reply, const GError *error, void *data)
{
    IpbOAuthLogin *login = data;
    login->probe = NULL;
    if (error != NULL && !g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT) &&
        !g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT)) {
        end(login, g_error_copy(error));
        return;
    }
    g_auto(IpbOAuthChallenge) challenge = {0};
    if (error == NULL && (reply->status == 401 || reply->status == 403))
        ipb_oauth_challenge_parse(reply->www_authenticate, &challenge);
    login->challenged_scope = g_steal_pointer(&challenge.scope);
    login->resource_metadata = g_steal_pointer(&challenge.resource_metadata);
    start_discovery(login);
}

/* --- life --- */

static bool
set_url(IpbOAuthLogin *login, const char *text, GError **error)
{
    g_autoptr(IpbOAuthUrl) url = ipb_oauth_url_parse(text, "the URL of the MCP server", error);
    if (url == NULL || !ipb_oauth_url_check(text, "the MCP server", true, error))
        return false;
    login->server_url = ipb_oauth_url_canonical(url);
    return true;
}

IpbOAuthLogin *
ipb_oauth_login_new(IpbLoop *loop, const IpbOAuthLoginOptions *options,
                    const IpbOAuthLoginFuncs *funcs, void *data, GError **error)
{
    g_autoptr(IpbOAuthLogin) login = g_new0(IpbOAuthLogin, 1);
    login->loop = ipb_loop_ref(loop);
    login->funcs = *funcs;
    login->data = data;
    login->http = options->http;
    login->own_scope = g_strdup(options->scope);
    login->port = options->port;
    if (options->settings != NULL)
        login->settings = ipb_oauth_settings_copy(options->settings);
    if (!set_url(login, options->server_url, error))
        return NULL;
    ipb_oauth_store_init(&login->store, options->state_dir, login->server_url);
    login->record = ipb_oauth_store_load(&login->store, error);
    if (login->record == NULL)
        return NULL;
    IpbOAuthFetchRequest request = {
        .url = login->server_url,
        .json = PROBE,
        .accept = "application/json, text/event-stream",
    };
    login->probe = ipb_oauth_fetch(login->http, &request, on_probed, login);
    return g_steal_pointer(&login);
}

void
ipb_oauth_login_free(IpbOAuthLogin *login)
{
    if (login == NULL)
        return;
    ipb_timer_free(login->timer);
    ipb_oauth_fetch_cancel(login->probe);
    ipb_oauth_discovery_cancel(login->discovery);
    ipb_oauth_callback_free(login->callback);
    ipb_oauth_registration_cancel(login->registration);
    ipb_oauth_token_request_cancel(login->exchange);
    ipb_file_lock_wait_cancel(login->lock_wait);
    ipb_oauth_record_free(login->record);
    ipb_oauth_store_clear(&login->store);
    ipb_oauth_resource_free(login->resource);
    ipb_oauth_server_free(login->server);
    ipb_oauth_client_free(login->client);
    ipb_oauth_token_free(login->token);
    ipb_oauth_settings_free(login->settings);
    g_free(login->server_url);
    g_free(login->own_scope);
    g_free(login->challenged_scope);
    g_free(login->resource_metadata);
    g_free(login->scope);
    g_free(login->state);
    g_free(login->verifier);
    g_free(login->code);
    g_clear_error(&login->error);
    ipb_loop_unref(login->loop);
    g_free(login);
}
