/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthAccount: what we are to one MCP server: its URL, the settings, and the record of the token store as it was read last.
 * A token that could not be saved stays in that record, also when it is read again: the one in the store is worth nothing any
 * more where refresh tokens are used up. Who logs in or out elsewhere wins.
 *
 * Ownership: of its IpbOAuth; what renews the token borrows it.
 */
#pragma once

#include "oauth/challenge.h"
#include "oauth/oauth.h"
#include "oauth/store.h"

typedef struct {
    char *server_url;           /* canonical; NULL: no tokens for this one */
    char *name;                 /* for errors, as a shell takes it */
    IpbHttpClient *http;        /* borrowed */
    IpbOAuthSettings *settings; /* or NULL */
    IpbOAuthStore store;
    IpbOAuthRecord *record; /* NULL: not read yet */
    bool is_unsaved;        /* the record's token */
    char *replaced;         /* the access token in the store then; NULL: none */
    IpbOAuthWarningFunc on_warning;
    void *data;
} IpbOAuthAccount;

/* INVALID: settings ask for OAuth at a URL that can have no tokens. */
bool ipb_oauth_account_init(IpbOAuthAccount *account, const IpbOAuthOptions *options,
                            GError **error);
void ipb_oauth_account_clear(IpbOAuthAccount *account);

/* Reads the record again. */
bool ipb_oauth_account_reload(IpbOAuthAccount *account, GError **error);
/* Puts @token (NULL: there is none any more) into the record, and that into the store. Returns what is to be told if that
 * fails, or NULL. Caller frees. */
char *ipb_oauth_account_set_token(IpbOAuthAccount *account, IpbOAuthToken *token);
/* Of the record that was read, NULL: none. */
const IpbOAuthToken *ipb_oauth_account_token(const IpbOAuthAccount *account);
/* Do the settings have a client's credentials, which need no person? */
bool ipb_oauth_account_has_credentials(const IpbOAuthAccount *account);
bool ipb_oauth_account_can_renew(const IpbOAuthAccount *account);
/* Keeps a challenge that could not be met, for the next login. Not worth waiting for another process. */
void ipb_oauth_account_keep_challenge(IpbOAuthAccount *account, const IpbOAuthChallenge *challenge,
                                      bool is_step_up);
/* "@why@words: run "ipybox login NAME"". */
GError *ipb_oauth_account_login_error(const IpbOAuthAccount *account, const char *why,
                                      const char *words);
