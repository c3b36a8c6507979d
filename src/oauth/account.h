/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthAccount: what we are to one MCP server: its URL, the settings, and the record of the
 * token store as it was last read. A token that could not be saved stays in this record, even when
 * the record is read again: where refresh tokens are used only once, the one in the store is
 * useless. A login or logout by another process takes precedence.
 *
 * Ownership: its IpbOAuth owns it. A renewal borrows it.
 */
#pragma once

#include "oauth/challenge.h"
#include "oauth/oauth.h"
#include "oauth/store.h"

typedef struct {
    char *server_url;           /* canonical; NULL: the server gets no tokens */
    char *name;                 /* for errors, quoted for a shell */
    IpbHttpClient *http;        /* borrowed */
    IpbOAuthSettings *settings; /* or NULL */
    IpbOAuthStore store;
    IpbOAuthRecord *record; /* NULL: not read yet */
    bool is_saved;          /* the store has the record's token */
    char *replaced;         /* if not, the access token that the store had; NULL: none */
    IpbOAuthWarningFunc on_warning;
    void *data;
} IpbOAuthAccount;

/* INVALID: the settings ask for OAuth, but the URL cannot get tokens. */
bool ipb_oauth_account_init(IpbOAuthAccount *account, const IpbOAuthOptions *options,
                            GError **error);
void ipb_oauth_account_clear(IpbOAuthAccount *account);

/* Reads the record again. */
bool ipb_oauth_account_reload(IpbOAuthAccount *account, GError **error);
/* Puts @token into the record (NULL: there is none any more) and saves the record. Returns a
 * warning if that fails, else NULL. Caller frees. */
char *ipb_oauth_account_set_token(IpbOAuthAccount *account, IpbOAuthToken *token);
/* The token of the record; NULL: there is none. */
const IpbOAuthToken *ipb_oauth_account_token(const IpbOAuthAccount *account);
/* Whether the settings have client credentials, which need no person. */
bool ipb_oauth_account_has_credentials(const IpbOAuthAccount *account);
bool ipb_oauth_account_can_renew(const IpbOAuthAccount *account);
/* Saves a challenge that could not be met, for the next login. It is skipped if another process
 * holds the lock. */
void ipb_oauth_account_keep_challenge(IpbOAuthAccount *account, const IpbOAuthChallenge *challenge,
                                      bool is_step_up);
/* An error "@why@words: run "ipybox login NAME"". */
GError *ipb_oauth_account_login_error(const IpbOAuthAccount *account, const char *why,
                                      const char *words);
