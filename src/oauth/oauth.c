/* SPDX-License-Identifier: Apache-2.0
 *
 * The authorization of one server; see the header. Calls are answered in their order, one at a time, from a timer. A token is
 * renewed by one job at a time, under the record's lock; calls that come meanwhile wait for it.
 */
#include "oauth/oauth.h"

#include <string.h>

#include "base/error.h"
#include "base/file-lock.h"
#include "oauth/challenge.h"
#include "oauth/discovery.h"
#include "oauth/exchange.h"
#include "oauth/store.h"
#include "oauth/url.h"

/* How long another process may take to renew the same token. */
#define LOCK_TIMEOUT_MS 60000
/* So often is one request sent again because of challenges. */
#define MAX_RETRIES 2
#define MAX_SHOWN 300

typedef struct {
    bool is_running;
    char *stale; /* the access token that is to be replaced; NULL: there is none */
    char *wanted_scope, *resource_metadata;
    IpbFileLockWait *lock_wait;
    int lock;
    IpbOAuthDiscovery *discovery;
    IpbOAuthExchange *exchange;
} Job;

struct IpbOAuth {
    IpbLoop *loop;
    char *server_url; /* canonical; NULL: no tokens for this one */
    char *name;       /* for errors, as a shell takes it */
    char *ca_file;
    IpbOAuthSettings *settings; /* or NULL */
    IpbOAuthStore store;
    IpbOAuthRecord *record; /* NULL: not read yet */
    GQueue calls;           /* IpbOAuthCall without an answer */
    IpbTimer *timer;        /* of the next answer */
    Job job;
};

struct IpbOAuthCall {
    IpbOAuth *oauth;
    IpbOAuthFunc func;
    void *data;
    bool is_challenge; /* no answer without a token */
    bool is_ready;
    char *authorization;
    GError *error;
};

/* --- Calls ------------------------------------------------------------------------------------- */

static void
free_call(IpbOAuthCall *call)
{
    if (call->authorization != NULL)
        explicit_bzero(call->authorization, strlen(call->authorization));
    g_free(call->authorization);
    g_clear_error(&call->error);
    g_free(call);
}

static void on_answer_due(void *data);

static void
arm(IpbOAuth *oauth)
{
    IpbOAuthCall *head = g_queue_peek_head(&oauth->calls);
    g_clear_pointer(&oauth->timer, ipb_timer_free);
    if (head != NULL && head->is_ready)
        oauth->timer = ipb_timer_new(oauth->loop, 0, on_answer_due, oauth);
}

/* The callback comes last: it may free everything. */
static void
on_answer_due(void *data)
{
    IpbOAuth *oauth = data;
    IpbOAuthCall *call = g_queue_pop_head(&oauth->calls);
    arm(oauth);
    call->func(call->authorization, call->error, call->data);
    free_call(call);
}

static IpbOAuthCall *
add_call(IpbOAuth *oauth, IpbOAuthFunc func, void *data)
{
    IpbOAuthCall *call = g_new0(IpbOAuthCall, 1);
    call->oauth = oauth;
    call->func = func;
    call->data = data;
    g_queue_push_tail(&oauth->calls, call);
    return call;
}

/* With the token that is there now, if there is one; takes @error. */
static void
make_ready(IpbOAuthCall *call, GError *error)
{
    const IpbOAuthRecord *record = call->oauth->record;
    call->is_ready = true;
    call->error = error;
    if (error == NULL && record != NULL && record->token != NULL)
        call->authorization = ipb_oauth_token_header(record->token);
}

void
ipb_oauth_call_cancel(IpbOAuthCall *call)
{
    IpbOAuth *oauth = call->oauth;
    g_queue_remove(&oauth->calls, call);
    free_call(call);
    arm(oauth);
}

/* --- Life -------------------------------------------------------------------------------------- */

/* What a person would type. */
static char *
quote(const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if (!g_ascii_isalnum(*c) && strchr("_@%+=:,./-", *c) == NULL)
            return g_shell_quote(name);
    return g_strdup(name);
}

/* False with @error only if somebody asked for OAuth there. */
static bool
set_url(IpbOAuth *oauth, const IpbOAuthOptions *options, GError **error)
{
    const IpbOAuthSettings *settings = options->settings;
    g_autoptr(GError) failure = NULL;
    if (settings != NULL && settings->is_off)
        return true;
    g_autoptr(IpbOAuthUrl) url =
        ipb_oauth_url_parse(options->server_url, "the URL of the MCP server", &failure);
    if (url != NULL && ipb_oauth_url_is_safe(url, true)) {
        oauth->server_url = ipb_oauth_url_canonical(url);
        ipb_oauth_store_init(&oauth->store, options->state_dir, oauth->server_url);
        return true;
    }
    if (settings == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "server_params.oauth: no token can be sent to this server: %s",
                failure != NULL ? failure->message : "its URL has no https");
    return false;
}

IpbOAuth *
ipb_oauth_new(IpbLoop *loop, const IpbOAuthOptions *options, GError **error)
{
    g_autoptr(IpbOAuth) oauth = g_new0(IpbOAuth, 1);
    oauth->loop = ipb_loop_ref(loop);
    oauth->job.lock = -1;
    g_queue_init(&oauth->calls);
    oauth->name = quote(options->server_name != NULL ? options->server_name : options->server_url);
    oauth->ca_file = g_strdup(options->ca_file);
    if (options->settings != NULL)
        oauth->settings = ipb_oauth_settings_copy(options->settings);
    if (!set_url(oauth, options, error))
        return NULL;
    return g_steal_pointer(&oauth);
}

static void
clear_job(Job *job)
{
    g_clear_pointer(&job->lock_wait, ipb_file_lock_wait_cancel);
    g_clear_pointer(&job->discovery, ipb_oauth_discovery_cancel);
    g_clear_pointer(&job->exchange, ipb_oauth_exchange_cancel);
    ipb_fd_close(&job->lock);
    g_clear_pointer(&job->stale, g_free);
    g_clear_pointer(&job->wanted_scope, g_free);
    g_clear_pointer(&job->resource_metadata, g_free);
    job->is_running = false;
}

void
ipb_oauth_free(IpbOAuth *oauth)
{
    if (oauth == NULL)
        return;
    clear_job(&oauth->job);
    ipb_timer_free(oauth->timer);
    for (IpbOAuthCall *call; (call = g_queue_pop_head(&oauth->calls)) != NULL;)
        free_call(call);
    ipb_oauth_record_free(oauth->record);
    ipb_oauth_store_clear(&oauth->store);
    ipb_oauth_settings_free(oauth->settings);
    g_free(oauth->server_url);
    g_free(oauth->name);
    g_free(oauth->ca_file);
    ipb_loop_unref(oauth->loop);
    g_free(oauth);
}

/* --- Renewal ----------------------------------------------------------------------------------- */

static bool
has_credentials(const IpbOAuth *oauth)
{
    return oauth->settings != NULL && oauth->settings->grant == IPB_OAUTH_GRANT_CREDENTIALS;
}

static bool
reload(IpbOAuth *oauth, GError **error)
{
    IpbOAuthRecord *record = ipb_oauth_store_load(&oauth->store, error);
    if (record == NULL)
        return false;
    ipb_oauth_record_free(oauth->record);
    oauth->record = record;
    return true;
}

static GError *
make_login_error(const IpbOAuth *oauth, const char *why, const char *words)
{
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED, "%s%s: run \"ipybox login %s\"", why,
                       words, oauth->name);
}

static void
finish_job(IpbOAuth *oauth, const GError *error)
{
    bool has_token = oauth->record != NULL && oauth->record->token != NULL;
    clear_job(&oauth->job);
    for (GList *item = oauth->calls.head; item != NULL; item = item->next) {
        IpbOAuthCall *call = item->data;
        GError *own = error != NULL ? g_error_copy(error) : NULL;
        if (own == NULL && call->is_challenge && !has_token)
            own = make_login_error(oauth, "the MCP server wants a login", "");
        if (!call->is_ready)
            make_ready(call, own);
        else
            g_clear_error(&own);
    }
    arm(oauth);
}

static void
on_exchanged(IpbOAuthToken *token, bool is_final, const GError *error, void *data)
{
    IpbOAuth *oauth = data;
    IpbOAuthRecord *record = oauth->record;
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    oauth->job.exchange = NULL;
    if (token != NULL || (is_final && !has_credentials(oauth))) {
        ipb_oauth_token_free(record->token);
        record->token = token;
        if (token != NULL)
            ipb_oauth_record_clear_challenge(record);
        /* What cannot be saved is still good for this process. */
        ipb_oauth_store_save(&oauth->store, record, NULL);
    }
    if (failure != NULL && is_final && !has_credentials(oauth)) {
        g_autoptr(GError) cause = g_steal_pointer(&failure);
        failure = make_login_error(oauth, "the login is over: ", cause->message);
    }
    finish_job(oauth, failure);
}

/* The secret of the client that @token was given to. */
static const char *
find_secret(const IpbOAuth *oauth, const IpbOAuthToken *token)
{
    if (oauth->settings != NULL && g_strcmp0(oauth->settings->client_id, token->client_id) == 0)
        return oauth->settings->client_secret;
    const IpbOAuthClient *client = ipb_oauth_record_client(oauth->record, token->issuer);
    return client != NULL && g_str_equal(client->client_id, token->client_id)
               ? client->client_secret
               : NULL;
}

static void
start_exchange(IpbOAuth *oauth, GString *form, const IpbOAuthToken *pattern, const char *secret)
{
    ipb_oauth_form_add(form, "resource", pattern->resource);
    IpbOAuthExchangeRequest request = {
        .form = form,
        .pattern = pattern,
        .client_secret = secret,
        .ca_file = oauth->ca_file,
    };
    oauth->job.exchange = ipb_oauth_exchange(oauth->loop, &request, on_exchanged, oauth);
}

static void
start_refresh(IpbOAuth *oauth)
{
    const IpbOAuthToken *token = oauth->record->token;
    GString *form = g_string_new(NULL);
    ipb_oauth_form_add(form, "grant_type", "refresh_token");
    ipb_oauth_form_add(form, "refresh_token", token->refresh_token);
    start_exchange(oauth, form, token, find_secret(oauth, token));
}

static void
on_discovered(IpbOAuthResource *found_resource, IpbOAuthServer *found_server, const GError *error,
              void *data)
{
    IpbOAuth *oauth = data;
    const IpbOAuthSettings *settings = oauth->settings;
    g_autoptr(IpbOAuthResource) resource = found_resource;
    g_autoptr(IpbOAuthServer) server = found_server;
    oauth->job.discovery = NULL;
    if (error != NULL) {
        g_autoptr(GError) failure = g_error_copy(error);
        finish_job(oauth, failure);
        return;
    }
    const char *scope = settings->scope != NULL           ? settings->scope
                        : oauth->job.wanted_scope != NULL ? oauth->job.wanted_scope
                        : resource != NULL                ? resource->scopes_supported
                                                          : NULL;
    IpbOAuthToken pattern = {
        .issuer = server->issuer,
        .resource = resource != NULL ? resource->resource : oauth->server_url,
        .token_endpoint = server->token_endpoint,
        .revocation_endpoint = server->revocation_endpoint,
        .client_id = settings->client_id,
        .auth_method = settings->auth_method != IPB_OAUTH_AUTH_ANY
                           ? settings->auth_method
                           : ipb_oauth_choose_auth(server, true),
        .scope = (char *) scope,
    };
    GString *form = g_string_new(NULL);
    ipb_oauth_form_add(form, "grant_type", "client_credentials");
    ipb_oauth_form_add(form, "scope", scope);
    start_exchange(oauth, form, &pattern, settings->client_secret);
}

/* Another process may have renewed the token while we waited. */
static void
on_locked(int fd, const GError *error, void *data)
{
    IpbOAuth *oauth = data;
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    oauth->job.lock_wait = NULL;
    oauth->job.lock = fd;
    if (failure != NULL || !reload(oauth, &failure)) {
        finish_job(oauth, failure);
        return;
    }
    const IpbOAuthToken *token = oauth->record->token;
    bool is_other = token != NULL && g_strcmp0(token->access_token, oauth->job.stale) != 0;
    if (is_other || (!has_credentials(oauth) && (token == NULL || token->refresh_token == NULL))) {
        finish_job(oauth, NULL);
    } else if (!has_credentials(oauth)) {
        start_refresh(oauth);
    } else {
        IpbOAuthDiscoveryOptions options = {
            .server_url = oauth->server_url,
            .resource_metadata = oauth->job.resource_metadata,
            .issuer = oauth->settings->issuer,
            .ca_file = oauth->ca_file,
        };
        oauth->job.discovery = ipb_oauth_discover(oauth->loop, &options, on_discovered, oauth);
    }
}

static void
start_job(IpbOAuth *oauth, const char *wanted_scope, const char *resource_metadata)
{
    const IpbOAuthToken *token = oauth->record->token;
    oauth->job.is_running = true;
    oauth->job.stale = token != NULL ? g_strdup(token->access_token) : NULL;
    oauth->job.wanted_scope = g_strdup(wanted_scope);
    oauth->job.resource_metadata = g_strdup(resource_metadata);
    g_autoptr(GError) error = NULL;
    if (!ipb_oauth_store_make_directory(&oauth->store, &error)) {
        finish_job(oauth, error);
        return;
    }
    oauth->job.lock_wait =
        ipb_file_lock_wait(oauth->loop, oauth->store.lock_path, LOCK_TIMEOUT_MS, on_locked, oauth);
}

/* --- Questions --------------------------------------------------------------------------------- */

static bool
can_renew(const IpbOAuth *oauth)
{
    const IpbOAuthToken *token = oauth->record->token;
    return has_credentials(oauth) || (token != NULL && token->refresh_token != NULL);
}

static bool
is_expired(const IpbOAuthToken *token)
{
    return ipb_oauth_token_is_expired(token, g_get_real_time() / G_USEC_PER_SEC);
}

IpbOAuthCall *
ipb_oauth_get(IpbOAuth *oauth, IpbOAuthFunc func, void *data)
{
    IpbOAuthCall *call = add_call(oauth, func, data);
    GError *error = NULL;
    if (oauth->job.is_running)
        return call;
    if (oauth->server_url != NULL && oauth->record == NULL)
        reload(oauth, &error);
    const IpbOAuthToken *token = oauth->record != NULL ? oauth->record->token : NULL;
    if (token != NULL && is_expired(token) && can_renew(oauth))
        start_job(oauth, token->scope, NULL);
    else
        make_ready(call, error);
    arm(oauth);
    return call;
}

/* --- Challenges -------------------------------------------------------------------------------- */

/* For the next login. Not worth waiting for another process. */
static void
keep_challenge(IpbOAuth *oauth, const IpbOAuthBearer *bearer, bool is_step_up)
{
    if (!ipb_oauth_store_make_directory(&oauth->store, NULL))
        return;
    ipb_autofd lock = ipb_file_lock(oauth->store.lock_path, 0, NULL);
    if (lock < 0 || !reload(oauth, NULL))
        return;
    IpbOAuthRecord *record = oauth->record;
    ipb_oauth_record_clear_challenge(record);
    record->wanted_scope = g_strdup(bearer->scope);
    record->resource_metadata = g_strdup(bearer->resource_metadata);
    record->is_step_up = is_step_up;
    ipb_oauth_store_save(&oauth->store, record, NULL);
}

/* " (the server says: …)", or nothing. Caller frees. */
static char *
describe(const IpbOAuthBearer *bearer)
{
    const char *text =
        bearer->error_description != NULL ? bearer->error_description : bearer->error;
    return text != NULL ? g_strdup_printf(" (the server says: %.*s)", MAX_SHOWN, text)
                        : g_strdup("");
}

static GError *
make_refusal(const IpbOAuthChallenge *challenge, const IpbOAuthBearer *bearer, const char *why)
{
    g_autofree char *words = describe(bearer);
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                       "the MCP server refuses the request with status %u%s%s", challenge->status,
                       words, why);
}

static GError *
refuse_scope(IpbOAuth *oauth, const IpbOAuthBearer *bearer)
{
    g_autofree char *why =
        g_strdup_printf("the login does not allow this%s%.*s",
                        bearer->scope != NULL ? ", the server wants the scopes " : "", MAX_SHOWN,
                        bearer->scope != NULL ? bearer->scope : "");
    g_autofree char *words = describe(bearer);
    keep_challenge(oauth, bearer, /* is_step_up= */ true);
    return make_login_error(oauth, why, words);
}

/* The error that ends the request; NULL: @call has an answer, or waits for one. */
static GError *
decide(IpbOAuth *oauth, const IpbOAuthChallenge *challenge, const IpbOAuthBearer *bearer,
       IpbOAuthCall *call)
{
    GError *error = NULL;
    bool lacks_scope =
        challenge->status == 403 && g_strcmp0(bearer->error, "insufficient_scope") == 0;
    if (oauth->server_url == NULL)
        return make_refusal(challenge, bearer,
                            ": give it what it wants in \"headers\" of its parameters");
    if (challenge->status != 401 && !lacks_scope)
        return make_refusal(challenge, bearer, "");
    if (!reload(oauth, &error))
        return error;
    const IpbOAuthToken *token = oauth->record->token;
    g_autofree char *header = token != NULL ? ipb_oauth_token_header(token) : NULL;
    bool is_new = header != NULL && g_strcmp0(header, challenge->authorization) != 0;
    if (is_new && !is_expired(token) && challenge->n_retries < MAX_RETRIES) {
        make_ready(call, NULL);
        return NULL;
    }
    bool can_be_renewed = has_credentials(oauth) || (!lacks_scope && can_renew(oauth));
    unsigned max_retries = has_credentials(oauth) ? MAX_RETRIES : 1;
    if (can_be_renewed && challenge->n_retries < max_retries) {
        g_autofree char *scope =
            ipb_oauth_scope_union(token != NULL ? token->scope : NULL, bearer->scope);
        start_job(oauth, scope, bearer->resource_metadata);
        return NULL;
    }
    if (has_credentials(oauth))
        return make_refusal(challenge, bearer, ", with a new token too");
    if (lacks_scope)
        return refuse_scope(oauth, bearer);
    bool had_token = token != NULL;
    keep_challenge(oauth, bearer, /* is_step_up= */ false);
    g_autofree char *words = describe(bearer);
    return make_login_error(oauth,
                            had_token ? "the MCP server does not take the stored token any more"
                                      : "the MCP server wants a login",
                            words);
}

IpbOAuthCall *
ipb_oauth_challenge(IpbOAuth *oauth, const IpbOAuthChallenge *challenge, IpbOAuthFunc func,
                    void *data)
{
    IpbOAuthCall *call = add_call(oauth, func, data);
    g_auto(IpbOAuthBearer) bearer = {0};
    ipb_oauth_bearer_parse(challenge->www_authenticate, &bearer);
    call->is_challenge = true;
    if (!oauth->job.is_running || challenge->n_retries >= MAX_RETRIES) {
        GError *error = decide(oauth, challenge, &bearer, call);
        if (error != NULL)
            make_ready(call, error);
    }
    arm(oauth);
    return call;
}
