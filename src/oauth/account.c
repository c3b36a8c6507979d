/* SPDX-License-Identifier: Apache-2.0
 *
 * The account at one MCP server; see the header.
 */
#include "oauth/account.h"

#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file-lock.h"
#include "oauth/url.h"

/* The name as a person would type it in a shell. */
static char *
quote(const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if (!g_ascii_isalnum(*c) && strchr("_@%+=:,./-", *c) == NULL)
            return g_shell_quote(name);
    return g_strdup(name);
}

/* Fails only if the settings ask for OAuth at this URL. */
static bool
set_url(IpbOAuthAccount *account, const IpbOAuthOptions *options, GError **error)
{
    const IpbOAuthSettings *settings = options->settings;
    g_autoptr(GError) failure = NULL;
    if (settings != NULL && settings->is_off)
        return true;
    g_autoptr(IpbOAuthUrl) url =
        ipb_oauth_url_parse(options->server_url, "the URL of the MCP server", &failure);
    if (url != NULL && ipb_oauth_url_is_safe(url, true)) {
        account->server_url = ipb_oauth_url_canonical(url);
        ipb_oauth_store_init(&account->store, options->state_dir, account->server_url);
        return true;
    }
    if (settings == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "server_params.oauth: no token can be sent to this server: %s",
                failure != NULL ? failure->message : "its URL is not https");
    return false;
}

bool
ipb_oauth_account_init(IpbOAuthAccount *account, const IpbOAuthOptions *options, GError **error)
{
    account->name =
        quote(options->server_name != NULL ? options->server_name : options->server_url);
    account->http = options->http;
    account->on_warning = options->on_warning;
    account->data = options->data;
    account->is_saved = true;
    if (options->settings != NULL)
        account->settings = ipb_oauth_settings_copy(options->settings);
    return set_url(account, options, error);
}

void
ipb_oauth_account_clear(IpbOAuthAccount *account)
{
    ipb_oauth_record_free(account->record);
    ipb_oauth_store_clear(&account->store);
    ipb_oauth_settings_free(account->settings);
    g_free(account->server_url);
    g_free(account->replaced);
    g_free(account->name);
}

static void
set_saved(IpbOAuthAccount *account)
{
    account->is_saved = true;
    g_clear_pointer(&account->replaced, g_free);
}

static bool
save(IpbOAuthAccount *account, GError **error)
{
    if (!ipb_oauth_store_save(&account->store, account->record, error))
        return false;
    set_saved(account);
    return true;
}

static const char *
access_token(const IpbOAuthRecord *record)
{
    return record->token != NULL ? record->token->access_token : NULL;
}

bool
ipb_oauth_account_reload(IpbOAuthAccount *account, GError **error)
{
    g_autoptr(GError) failure = NULL;
    IpbOAuthRecord *record = ipb_oauth_store_load(&account->store, &failure);
    if (record == NULL && !account->is_saved)
        return true; /* a store that cannot be written may not be readable either */
    if (record == NULL) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return false;
    }
    if (!account->is_saved && g_strcmp0(access_token(record), account->replaced) == 0) {
        ipb_oauth_token_free(record->token);
        record->token = g_steal_pointer(&account->record->token);
    } else {
        set_saved(account);
    }
    ipb_oauth_record_free(account->record);
    account->record = record;
    return true;
}

char *
ipb_oauth_account_set_token(IpbOAuthAccount *account, IpbOAuthToken *token)
{
    IpbOAuthRecord *record = account->record;
    g_autoptr(GError) error = NULL;
    if (account->is_saved)
        account->replaced = g_strdup(access_token(record));
    account->is_saved = false;
    ipb_oauth_token_free(record->token);
    record->token = token;
    if (token != NULL)
        ipb_oauth_record_clear_challenge(record);
    /* A token that credentials can get again is not lost. */
    if (save(account, &error) || token == NULL || ipb_oauth_account_has_credentials(account))
        return NULL;
    return g_strdup_printf("the new token of the login could not be saved, and is lost when this "
                           "process ends: %s. Correct this, then run \"ipybox login %s\"",
                           error->message, account->name);
}

const IpbOAuthToken *
ipb_oauth_account_token(const IpbOAuthAccount *account)
{
    return account->record != NULL ? account->record->token : NULL;
}

bool
ipb_oauth_account_has_credentials(const IpbOAuthAccount *account)
{
    return account->settings != NULL && account->settings->grant == IPB_OAUTH_GRANT_CREDENTIALS;
}

bool
ipb_oauth_account_can_renew(const IpbOAuthAccount *account)
{
    const IpbOAuthToken *token = ipb_oauth_account_token(account);
    return ipb_oauth_account_has_credentials(account) ||
           (token != NULL && token->refresh_token != NULL);
}

void
ipb_oauth_account_keep_challenge(IpbOAuthAccount *account, const IpbOAuthChallenge *challenge,
                                 bool is_step_up)
{
    if (!ipb_oauth_store_make_directory(&account->store, NULL))
        return;
    ipb_autofd lock = ipb_file_lock(account->store.lock_path, 0, NULL);
    if (lock < 0 || !ipb_oauth_account_reload(account, NULL))
        return;
    IpbOAuthRecord *record = account->record;
    ipb_oauth_record_clear_challenge(record);
    record->wanted_scope = g_strdup(challenge->scope);
    record->resource_metadata = g_strdup(challenge->resource_metadata);
    record->is_step_up = is_step_up;
    save(account, NULL);
}

GError *
ipb_oauth_account_login_error(const IpbOAuthAccount *account, const char *why, const char *words)
{
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED, "%s%s: run \"ipybox login %s\"", why,
                       words, account->name);
}
