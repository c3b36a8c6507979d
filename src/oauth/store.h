/* SPDX-License-Identifier: Apache-2.0
 *
 * The token store: one file (0600) for each server, in the directory oauth (0700) of the state directory; its name is the SHA-256
 * of the server's URL, its content a record:
 *
 *     {"version": 1, "server": URL, "challenge": {…}, "clients": [{…}], "token": {…}}
 *
 * A record is read and written as a whole. Who changes it holds its lock meanwhile, a refresh included: a refresh token that
 * is used twice is a stolen one to many authorization servers.
 */
#pragma once

#include "oauth/token.h"

typedef struct {
    char *server; /* canonical URL */
    /* What the next login is to ask for, from the last challenge that could not be met. */
    char *wanted_scope;      /* or NULL */
    char *resource_metadata; /* or NULL */
    bool is_step_up;         /* the scopes are to be added to those of the token */
    GPtrArray *clients;      /* IpbOAuthClient, owned, one for each issuer */
    IpbOAuthToken *token;    /* or NULL */
} IpbOAuthRecord;

typedef struct {
    char *directory;
    char *path;
    char *lock_path;
    char *server;
} IpbOAuthStore;

/* @state_dir: NULL: $XDG_STATE_HOME/ipybox. @server_url: canonical. Opens nothing. */
void ipb_oauth_store_init(IpbOAuthStore *store, const char *state_dir, const char *server_url);
void ipb_oauth_store_clear(IpbOAuthStore *store);
/* The record; an empty one if there is none. REFUSED: it is malformed, or others can read it. */
IpbOAuthRecord *ipb_oauth_store_load(const IpbOAuthStore *store, GError **error);
/* Makes the directories; the caller holds the lock. */
bool ipb_oauth_store_save(const IpbOAuthStore *store, const IpbOAuthRecord *record, GError **error);
bool ipb_oauth_store_make_directory(const IpbOAuthStore *store, GError **error);
/* A missing record is fine. The caller holds the lock. */
bool ipb_oauth_store_remove(const IpbOAuthStore *store, GError **error);
/* The servers that have records. */
char **ipb_oauth_store_list(const char *state_dir);

/* The client at @issuer; NULL: none. */
IpbOAuthClient *ipb_oauth_record_client(const IpbOAuthRecord *record, const char *issuer);
/* Replaces the one of its issuer. Takes @client. */
void ipb_oauth_record_set_client(IpbOAuthRecord *record, IpbOAuthClient *client);
void ipb_oauth_record_clear_challenge(IpbOAuthRecord *record);
void ipb_oauth_record_free(IpbOAuthRecord *record);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthRecord, ipb_oauth_record_free)
