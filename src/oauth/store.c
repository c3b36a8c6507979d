/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of the token store; see the header.
 */
#include "oauth/store.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "oauth/json-document.h"

#define VERSION 1
#define MAX_FILE (256 * 1024)
#define MAX_CLIENTS 16

static char *
make_directory_path(const char *state_dir)
{
    if (state_dir != NULL)
        return g_build_filename(state_dir, "oauth", NULL);
    return g_build_filename(g_get_user_state_dir(), "ipybox", "oauth", NULL);
}

void
ipb_oauth_store_init(IpbOAuthStore *store, const char *state_dir, const char *server_url)
{
    g_autofree char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, server_url, -1);
    store->directory = make_directory_path(state_dir);
    store->path = g_strdup_printf("%s/%s.json", store->directory, hash);
    store->lock_path = g_strdup_printf("%s/%s.lock", store->directory, hash);
    store->server = g_strdup(server_url);
}

void
ipb_oauth_store_clear(IpbOAuthStore *store)
{
    g_clear_pointer(&store->directory, g_free);
    g_clear_pointer(&store->path, g_free);
    g_clear_pointer(&store->lock_path, g_free);
    g_clear_pointer(&store->server, g_free);
}

static IpbOAuthRecord *
new_record(const IpbOAuthStore *store)
{
    IpbOAuthRecord *record = g_new0(IpbOAuthRecord, 1);
    record->server = g_strdup(store->server);
    record->clients = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_oauth_client_free);
    return record;
}

void
ipb_oauth_record_clear_challenge(IpbOAuthRecord *record)
{
    g_clear_pointer(&record->wanted_scope, g_free);
    g_clear_pointer(&record->resource_metadata, g_free);
    record->is_step_up = false;
}

void
ipb_oauth_record_free(IpbOAuthRecord *record)
{
    if (record == NULL)
        return;
    ipb_oauth_record_clear_challenge(record);
    g_free(record->server);
    g_ptr_array_unref(record->clients);
    ipb_oauth_token_free(record->token);
    g_free(record);
}

IpbOAuthClient *
ipb_oauth_record_client(const IpbOAuthRecord *record, const char *issuer)
{
    for (guint i = 0; i < record->clients->len; i++) {
        IpbOAuthClient *client = g_ptr_array_index(record->clients, i);
        if (g_str_equal(client->issuer, issuer))
            return client;
    }
    return NULL;
}

void
ipb_oauth_record_set_client(IpbOAuthRecord *record, IpbOAuthClient *client)
{
    IpbOAuthClient *old = ipb_oauth_record_client(record, client->issuer);
    if (old != NULL)
        g_ptr_array_remove(record->clients, old);
    if (record->clients->len == MAX_CLIENTS)
        g_ptr_array_remove_index(record->clients, 0);
    g_ptr_array_add(record->clients, client);
}

/* --- reading --- */

static bool
set_bad(GError **error, const IpbOAuthStore *store, const char *what)
{
    g_set_error(
        error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
        "the stored login %s cannot be read: %s. Remove it (\"ipybox logout\" does) and log in "
        "again",
        store->path, what);
    return false;
}

/* The record says where secrets are sent, so no other user may read or write it. */
static bool
check_mode(const IpbOAuthStore *store, GError **error)
{
    struct stat info;
    if (lstat(store->path, &info) < 0) {
        if (errno == ENOENT)
            return true;
        return ipb_error_set_errno(error, errno, "cannot read the attributes of %s", store->path);
    }
    if (S_ISREG(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                "the stored login %s is not a file that only you can access: remove it (\"ipybox "
                "logout\" does) and log in again",
                store->path);
    return false;
}

static bool
read_record(const IpbOAuthStore *store, const IpbJson *root, IpbOAuthRecord *record, GError **error)
{
    int64_t version;
    const IpbJson *challenge = ipb_json_get(root, "challenge");
    const IpbJson *token = ipb_json_get(root, "token");
    if (!ipb_json_get_int64(root, "version", &version) || version != VERSION)
        return set_bad(error, store,
                       "another version of ipybox wrote it: its format is not version 1");
    if (g_strcmp0(ipb_json_get_string(root, "server"), store->server) != 0)
        return set_bad(error, store, "it belongs to another server");
    record->wanted_scope = ipb_oauth_json_document_text(challenge, "scope");
    record->resource_metadata = ipb_oauth_json_document_text(challenge, "resource_metadata");
    record->is_step_up = ipb_json_get_bool(challenge, "step_up", false);
    IPB_JSON_FOREACH (item, ipb_json_get(root, "clients")) {
        IpbOAuthClient *client = ipb_oauth_client_from_json(item);
        if (client == NULL)
            return set_bad(error, store, "a client in it is malformed");
        ipb_oauth_record_set_client(record, client);
    }
    record->token = ipb_oauth_token_from_json(token);
    if (token != NULL && record->token == NULL)
        return set_bad(error, store, "its token is malformed");
    return true;
}

IpbOAuthRecord *
ipb_oauth_store_load(const IpbOAuthStore *store, GError **error)
{
    g_autoptr(IpbOAuthRecord) record = new_record(store);
    g_autofree char *text = NULL;
    g_autoptr(GError) failure = NULL;
    size_t size;
    if (!check_mode(store, error))
        return NULL;
    if (!ipb_file_read(store->path, MAX_FILE, &text, &size, &failure)) {
        if (g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
            return g_steal_pointer(&record);
        g_propagate_error(error, g_steal_pointer(&failure));
        return NULL;
    }
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, &failure);
    explicit_bzero(text, size);
    if (document == NULL) {
        set_bad(error, store, failure->message);
        return NULL;
    }
    if (!read_record(store, ipb_json_root(document), record, error))
        return NULL;
    return g_steal_pointer(&record);
}

/* The "server" of a record; NULL: the file is not a record. Caller frees. */
static char *
read_server(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autofree char *text = NULL;
    size_t size;
    if (!g_str_has_suffix(name, ".json") || !ipb_file_read(path, MAX_FILE, &text, &size, NULL))
        return NULL;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL);
    explicit_bzero(text, size);
    return document != NULL ? ipb_oauth_json_document_text(ipb_json_root(document), "server")
                            : NULL;
}

char **
ipb_oauth_store_list(const char *state_dir)
{
    g_autofree char *path = make_directory_path(state_dir);
    g_autoptr(GStrvBuilder) servers = g_strv_builder_new();
    g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
    const char *name;
    while (directory != NULL && (name = g_dir_read_name(directory)) != NULL) {
        g_autofree char *server = read_server(path, name);
        if (server != NULL)
            g_strv_builder_add(servers, server);
    }
    return g_strv_builder_end(servers);
}

/* --- writing --- */

static void
write_challenge(IpbJsonWriter *writer, const IpbOAuthRecord *record)
{
    if (record->wanted_scope == NULL && record->resource_metadata == NULL)
        return;
    ipb_json_key(writer, "challenge");
    ipb_json_begin_object(writer);
    if (record->wanted_scope != NULL)
        ipb_json_member_string(writer, "scope", record->wanted_scope);
    if (record->resource_metadata != NULL)
        ipb_json_member_string(writer, "resource_metadata", record->resource_metadata);
    ipb_json_member_bool(writer, "step_up", record->is_step_up);
    ipb_json_end_object(writer);
}

bool
ipb_oauth_store_make_directory(const IpbOAuthStore *store, GError **error)
{
    return ipb_file_make_directories(store->directory, 0700, error);
}

bool
ipb_oauth_store_remove(const IpbOAuthStore *store, GError **error)
{
    if (unlink(store->path) == 0 || errno == ENOENT)
        return true;
    return ipb_error_set_errno(error, errno, "cannot remove %s", store->path);
}

bool
ipb_oauth_store_save(const IpbOAuthStore *store, const IpbOAuthRecord *record, GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "version", VERSION);
    ipb_json_member_string(writer, "server", record->server);
    write_challenge(writer, record);
    ipb_json_key(writer, "clients");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < record->clients->len; i++)
        ipb_oauth_client_write(writer, g_ptr_array_index(record->clients, i));
    ipb_json_end_array(writer);
    if (record->token != NULL) {
        ipb_json_key(writer, "token");
        ipb_oauth_token_write(writer, record->token);
    }
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    bool is_written = ipb_oauth_store_make_directory(store, error) &&
                      ipb_file_write_atomic(store->path, text, size, 0600, error);
    explicit_bzero(text, size);
    return is_written;
}
