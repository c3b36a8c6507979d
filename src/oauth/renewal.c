/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets a new token: takes the lock, reads the record again, discovers the server if we have client
 * credentials, requests the token, saves it.
 */
#include "oauth/renewal.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/file-lock.h"
#include "oauth/discovery.h"
#include "oauth/token-request.h"
#include "oauth/url.h"

/* The time that another process may take to renew the same token. */
#define LOCK_TIMEOUT_MS 60000

struct IpbOAuthRenewal {
    IpbLoop *loop;
    IpbOAuthAccount *account;
    IpbOAuthRenewalFunc done;
    void *data;
    char *stale; /* the access token to be replaced; NULL: there is none */
    char *wanted_scope, *resource_metadata;
    IpbFileLockWait *lock_wait;
    int lock;
    IpbOAuthDiscovery *discovery;
    IpbOAuthTokenRequest *exchange;
};

void
ipb_oauth_renewal_cancel(IpbOAuthRenewal *renewal)
{
    g_clear_pointer(&renewal->lock_wait, ipb_file_lock_wait_cancel);
    g_clear_pointer(&renewal->discovery, ipb_oauth_discovery_cancel);
    g_clear_pointer(&renewal->exchange, ipb_oauth_token_request_cancel);
    ipb_fd_close(&renewal->lock);
    g_free(renewal->stale);
    g_free(renewal->wanted_scope);
    g_free(renewal->resource_metadata);
    ipb_loop_unref(renewal->loop);
    g_free(renewal);
}

/* The lock is released before the result is reported. */
static void
finish(IpbOAuthRenewal *renewal, const GError *error)
{
    IpbOAuthRenewalFunc done = renewal->done;
    void *data = renewal->data;
    ipb_oauth_renewal_cancel(renewal);
    done(error, data);
}

static void
on_exchanged(IpbOAuthToken *token, bool is_final, const GError *error, void *data)
{
    IpbOAuthRenewal *renewal = data;
    IpbOAuthAccount *account = renewal->account;
    g_autofree char *warning = NULL;
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    renewal->exchange = NULL;
    if (token != NULL || (is_final && !ipb_oauth_account_has_credentials(account)))
        warning = ipb_oauth_account_set_token(account, token);
    if (failure != NULL && is_final && !ipb_oauth_account_has_credentials(account)) {
        g_autoptr(GError) cause = g_steal_pointer(&failure);
        failure = ipb_oauth_account_login_error(account, "the login is over: ", cause->message);
    }
    finish(renewal, failure);
    if (warning != NULL && account->on_warning != NULL)
        account->on_warning(warning, account->data); /* may free everything */
}

/* The secret of the client to which @token was issued. */
static const char *
find_secret(const IpbOAuthAccount *account, const IpbOAuthToken *token)
{
    if (account->settings != NULL && g_strcmp0(account->settings->client_id, token->client_id) == 0)
        return account->settings->client_secret;
    const IpbOAuthClient *client = ipb_oauth_record_client(account->record, token->issuer);
    return client != NULL && g_str_equal(client->client_id, token->client_id)
               ? client->client_secret
               : NULL;
}

static void
start_exchange(IpbOAuthRenewal *renewal, GString *form, const IpbOAuthToken *pattern,
               const char *secret)
{
    ipb_oauth_form_add(form, "resource", pattern->resource);
    IpbOAuthTokenRequestOptions request = {
        .form = form,
        .pattern = pattern,
        .client_secret = secret,
    };
    renewal->exchange =
        ipb_oauth_token_request_new(renewal->account->http, &request, on_exchanged, renewal);
}

static void
start_refresh(IpbOAuthRenewal *renewal)
{
    const IpbOAuthToken *token = renewal->account->record->token;
    GString *form = g_string_new(NULL);
    ipb_oauth_form_add(form, "grant_type", "refresh_token");
    ipb_oauth_form_add(form, "refresh_token", token->refresh_token);
    start_exchange(renewal, form, token, find_secret(renewal->account, token));
}

static void
on_discovered(IpbOAuthResource *found_resource, IpbOAuthServer *found_server, const GError *error,
              void *data)
{
    IpbOAuthRenewal *renewal = data;
    const IpbOAuthSettings *settings = renewal->account->settings;
    g_autoptr(IpbOAuthResource) resource = found_resource;
    g_autoptr(IpbOAuthServer) server = found_server;
    renewal->discovery = NULL;
    if (error != NULL) {
        g_autoptr(GError) failure = g_error_copy(error);
        finish(renewal, failure);
        return;
    }
    const char *scope = settings->scope != NULL         ? settings->scope
                        : renewal->wanted_scope != NULL ? renewal->wanted_scope
                        : resource != NULL              ? resource->scopes_supported
                                                        : NULL;
    IpbOAuthToken pattern = {
        .issuer = server->issuer,
        .resource = resource != NULL ? resource->resource : renewal->account->server_url,
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
    start_exchange(renewal, form, &pattern, settings->client_secret);
}

/* Another process may have renewed the token while we waited. */
static void
on_locked(int fd, const GError *error, void *data)
{
    IpbOAuthRenewal *renewal = data;
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    renewal->lock_wait = NULL;
    renewal->lock = fd;
    if (failure != NULL || !ipb_oauth_account_reload(renewal->account, &failure)) {
        finish(renewal, failure);
        return;
    }
    const IpbOAuthToken *token = renewal->account->record->token;
    bool is_other = token != NULL && g_strcmp0(token->access_token, renewal->stale) != 0;
    if (is_other || (!ipb_oauth_account_has_credentials(renewal->account) &&
                     (token == NULL || token->refresh_token == NULL))) {
        finish(renewal, NULL);
    } else if (!ipb_oauth_account_has_credentials(renewal->account)) {
        start_refresh(renewal);
    } else {
        IpbOAuthDiscoveryOptions options = {
            .server_url = renewal->account->server_url,
            .resource_metadata = renewal->resource_metadata,
            .issuer = renewal->account->settings->issuer,
        };
        renewal->discovery = ipb_oauth_discover(renewal->loop, renewal->account->http, &options,
                                                on_discovered, renewal);
    }
}

IpbOAuthRenewal *
ipb_oauth_renew(IpbLoop *loop, IpbOAuthAccount *account, const char *wanted_scope,
                const char *resource_metadata, IpbOAuthRenewalFunc done, void *data, GError **error)
{
    const IpbOAuthToken *token = ipb_oauth_account_token(account);
    if (!ipb_oauth_store_make_directory(&account->store, error))
        return NULL;
    IpbOAuthRenewal *renewal = g_new0(IpbOAuthRenewal, 1);
    renewal->loop = ipb_loop_ref(loop);
    renewal->account = account;
    renewal->done = done;
    renewal->data = data;
    renewal->stale = token != NULL ? g_strdup(token->access_token) : NULL;
    renewal->wanted_scope = g_strdup(wanted_scope);
    renewal->resource_metadata = g_strdup(resource_metadata);
    renewal->lock = -1;
    renewal->lock_wait =
        ipb_file_lock_wait(loop, account->store.lock_path, LOCK_TIMEOUT_MS, on_locked, renewal);
    return renewal;
}
