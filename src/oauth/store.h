/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthStore: the token store. Each server has one file (0600) in the directory "oauth" (0700)
 * of the state directory. The file's name is the SHA-256 of the server's URL. Its content is a
 * record:
 *
 *     {"version": 1, "server": URL, "challenge": {…}, "clients": [{…}], "token": {…}}
 *
 * A record is read and written as a whole. A process that changes it holds its lock from reading to
 * writing, even while it refreshes a token: many authorization servers take a refresh token that is
 * used twice for a stolen one.
 */
#pragma once

#include "oauth/token.h"

typedef struct {
    char *server; /* canonical URL */
    /* What the next login must ask for, from the last challenge that could not be met. */
    char *wanted_scope;      /* or NULL */
    char *resource_metadata; /* or NULL */
    bool is_step_up;         /* the scopes are added to those of the token */
    GPtrArray *clients;      /* IpbOAuthClient, owned, one for each issuer */
    IpbOAuthToken *token;    /* or NULL */
} IpbOAuthRecord;

typedef struct {
    char *directory;
    char *path;
    char *lock_path;
    char *server;
} IpbOAuthStore;

/* @state_dir: NULL for $XDG_STATE_HOME/ipybox. @server_url: canonical. Opens nothing. */
void ipb_oauth_store_init(IpbOAuthStore *store, const char *state_dir, const char *server_url);
void ipb_oauth_store_clear(IpbOAuthStore *store);
/* Reads the record; an empty one if there is no file. REFUSED: it is malformed, or others can read
 * it. */
IpbOAuthRecord *ipb_oauth_store_load(const IpbOAuthStore *store, GError **error);
/* Writes the record, and makes the directories. The caller holds the lock. */
bool ipb_oauth_store_save(const IpbOAuthStore *store, const IpbOAuthRecord *record, GError **error);
bool ipb_oauth_store_make_directory(const IpbOAuthStore *store, GError **error);
/* Removes the record, which may be missing. The caller holds the lock. */
bool ipb_oauth_store_remove(const IpbOAuthStore *store, GError **error);
/* The URLs of the servers that have records. */
char **ipb_oauth_store_list(const char *state_dir);

/* The client at @issuer; NULL: there is none. */
IpbOAuthClient *ipb_oauth_record_client(const IpbOAuthRecord *record, const char *issuer);
/* Adds @client, which replaces the one of its issuer. Takes @client. */
void ipb_oauth_record_set_client(IpbOAuthRecord *record, IpbOAuthClient *client);
void ipb_oauth_record_clear_challenge(IpbOAuthRecord *record);
void ipb_oauth_record_free(IpbOAuthRecord *record);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthRecord, ipb_oauth_record_free)
