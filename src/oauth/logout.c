/* SPDX-License-Identifier: Apache-2.0
 *
 * A logout; see the header. The record is removed first, so that a server that does not answer
 * cannot prevent it.
 */
#include "oauth/logout.h"

#include "base/error.h"
#include "base/file-lock.h"
#include "oauth/token-request.h"
#include "oauth/store.h"
#include "oauth/url.h"

#define LOCK_TIMEOUT_MS 60000

struct IpbOAuthLogout {
    IpbLoop *loop;
    IpbOAuthLogoutFunc func;
    void *data;
    IpbHttpClient *http;
    IpbOAuthSettings *settings;
    IpbOAuthStore store;
    IpbOAuthRecord *record;
    bool is_forgotten;
    unsigned next; /* the next token to be revoked */
    IpbFileLockWait *lock_wait;
    IpbOAuthFetch *fetch;
    IpbTimer *timer;
    GError *error;
};

static void
on_end(void *data)
{
    IpbOAuthLogout *logout = data;
    bool had_token = logout->record != NULL && logout->record->token != NULL;
    logout->func(had_token, logout->is_forgotten, logout->error, logout->data);
}

static void
end(IpbOAuthLogout *logout)
{
    ipb_timer_free(logout->timer);
    logout->timer = ipb_timer_new(logout->loop, 0, on_end, logout);
}

static const char *
find_secret(const IpbOAuthLogout *logout, const IpbOAuthToken *token)
{
    if (logout->settings != NULL && g_strcmp0(logout->settings->client_id, token->client_id) == 0)
        return logout->settings->client_secret;
    const IpbOAuthClient *client = ipb_oauth_record_client(logout->record, token->issuer);
    return client != NULL ? client->client_secret : NULL;
}

static void revoke_next(IpbOAuthLogout *logout);

static void
on_revoked(const IpbOAuthReply *reply, const GError *error, void *data)
{
    IpbOAuthLogout *logout = data;
    logout->fetch = NULL;
    if (logout->error == NULL && error != NULL)
        logout->error = g_error_copy(error);
    else if (logout->error == NULL && reply->status != 200)
        logout->error =
            g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                        "the revocation endpoint answers with status %u", reply->status);
    revoke_next(logout);
}

/* Revokes the refresh token, then the access token. */
static void
revoke_next(IpbOAuthLogout *logout)
{
    const IpbOAuthToken *token = logout->record->token;
    const char *const texts[] = {token->refresh_token, token->access_token};
    static const char *const HINTS[] = {"refresh_token", "access_token"};
    while (logout->next < G_N_ELEMENTS(texts) && texts[logout->next] == NULL)
        logout->next++;
    if (logout->next == G_N_ELEMENTS(texts)) {
        end(logout);
        return;
    }
    GString *form = g_string_new(NULL);
    ipb_oauth_form_add(form, "token", texts[logout->next]);
    ipb_oauth_form_add(form, "token_type_hint", HINTS[logout->next++]);
    g_autofree char *authorization = ipb_oauth_token_request_authenticate(
        form, token->auth_method, token->client_id, find_secret(logout, token));
    IpbOAuthFetchRequest request = {
        .url = token->revocation_endpoint,
        .form = form->str,
        .authorization = authorization,
    };
    logout->fetch = ipb_oauth_fetch(logout->http, &request, on_revoked, logout);
    g_string_free(form, true);
}

static void
on_locked(int fd, const GError *error, void *data)
{
    IpbOAuthLogout *logout = data;
    ipb_autofd lock = fd;
    logout->lock_wait = NULL;
    if (error != NULL)
        logout->error = g_error_copy(error);
    else
        logout->record = ipb_oauth_store_load(&logout->store, &logout->error);
    if (logout->error == NULL || !g_error_matches(logout->error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY))
        logout->is_forgotten =
            ipb_oauth_store_remove(&logout->store, logout->error == NULL ? &logout->error : NULL);
    const IpbOAuthToken *token = logout->record != NULL ? logout->record->token : NULL;
    if (logout->error == NULL && token != NULL && token->revocation_endpoint != NULL &&
        logout->http != NULL)
        revoke_next(logout);
    else
        end(logout);
}

IpbOAuthLogout *
ipb_oauth_logout_new(IpbLoop *loop, const IpbOAuthLogoutOptions *options, IpbOAuthLogoutFunc func,
                     void *data, GError **error)
{
    g_autoptr(IpbOAuthUrl) url =
        ipb_oauth_url_parse(options->server_url, "the URL of the MCP server", error);
    if (url == NULL)
        return NULL;
    g_autofree char *canonical = ipb_oauth_url_canonical(url);
    g_autoptr(IpbOAuthLogout) logout = g_new0(IpbOAuthLogout, 1);
    logout->loop = ipb_loop_ref(loop);
    logout->func = func;
    logout->data = data;
    logout->http = options->http;
    if (options->settings != NULL)
        logout->settings = ipb_oauth_settings_copy(options->settings);
    ipb_oauth_store_init(&logout->store, options->state_dir, canonical);
    if (!ipb_oauth_store_make_directory(&logout->store, error))
        return NULL;
    logout->lock_wait =
        ipb_file_lock_wait(loop, logout->store.lock_path, LOCK_TIMEOUT_MS, on_locked, logout);
    return g_steal_pointer(&logout);
}

void
ipb_oauth_logout_free(IpbOAuthLogout *logout)
{
    if (logout == NULL)
        return;
    ipb_file_lock_wait_cancel(logout->lock_wait);
    ipb_oauth_fetch_cancel(logout->fetch);
    ipb_timer_free(logout->timer);
    ipb_oauth_record_free(logout->record);
    ipb_oauth_store_clear(&logout->store);
    ipb_oauth_settings_free(logout->settings);
    g_clear_error(&logout->error);
    ipb_loop_unref(logout->loop);
    g_free(logout);
}
