/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes tokens and clients; see the header.
 */
#include "oauth/token.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "oauth/challenge.h"
#include "oauth/json-document.h"

#define ANSWER "the answer of the token endpoint"
#define REGISTRATION "the answer of the registration endpoint"
#define MAX_SHOWN 500
/* No token lasts longer, and the sum cannot overflow. */
#define MAX_LIFETIME_S (INT64_C(10) * 365 * 86400)

/* Some servers write a number as a string. */
static bool
read_number(const IpbJson *object, const char *name, int64_t *ret_number)
{
    if (ipb_json_get_int64(object, name, ret_number))
        return true;
    const char *text = ipb_json_get_string(object, name);
    if (text == NULL || *text == '\0' || strspn(text, "0123456789") != strlen(text) ||
        strlen(text) > 15)
        return false;
    *ret_number = strtoll(text, NULL, 10);
    return true;
}

/* The token becomes a part of a header line. b64token of RFC 6750 allows even fewer characters. */
static bool
is_token_text(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    return true;
}

static bool
set_bad(GError **error, const char *what)
{
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, what);
    return false;
}

static bool
check_answer(const IpbJson *root, const IpbOAuthToken *token, GError **error)
{
    g_autofree char *type = ipb_oauth_json_document_text(root, "token_type");
    if (token->access_token == NULL || !is_token_text(token->access_token))
        return set_bad(error, ANSWER " has no access_token that fits into a header");
    if (type == NULL || g_ascii_strcasecmp(type, "Bearer") != 0)
        return set_bad(error, ANSWER " has a token_type that ipybox cannot use: it must be Bearer");
    return true;
}

IpbOAuthToken *
ipb_oauth_token_parse(const char *text, size_t size, int64_t now, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_oauth_json_document_parse(text, size, ANSWER, error);
    if (document == NULL)
        return NULL;
    const IpbJson *root = ipb_json_root(document);
    g_autoptr(IpbOAuthToken) token = g_new0(IpbOAuthToken, 1);
    token->access_token = ipb_oauth_json_document_text(root, "access_token");
    token->refresh_token = ipb_oauth_json_document_text(root, "refresh_token");
    if (!check_answer(root, token, error))
        return NULL;
    g_autofree char *scope = ipb_oauth_json_document_text(root, "scope");
    token->scope = ipb_oauth_scope_union(scope, NULL);
    int64_t seconds;
    if (read_number(root, "expires_in", &seconds))
        token->expires = now + CLAMP(seconds, 0, MAX_LIFETIME_S);
    return g_steal_pointer(&token);
}

char *
ipb_oauth_error_parse(const char *text, size_t size, char **ret_code)
{
    g_autoptr(IpbJsonDoc) document = ipb_oauth_json_document_parse(text, size, ANSWER, NULL);
    const IpbJson *root = document != NULL ? ipb_json_root(document) : NULL;
    g_autofree char *description = ipb_oauth_json_document_text(root, "error_description");
    *ret_code = ipb_oauth_json_document_text(root, "error");
    if (*ret_code == NULL)
        return g_strdup("no reason is given");
    if (description == NULL)
        return g_strndup(*ret_code, MAX_SHOWN);
    return g_strdup_printf("%.100s: %.*s", *ret_code, MAX_SHOWN, description);
}

bool
ipb_oauth_token_is_expired(const IpbOAuthToken *token, int64_t now)
{
    return token->expires != 0 && token->expires <= now + IPB_OAUTH_TOKEN_MARGIN_S;
}

char *
ipb_oauth_token_header(const IpbOAuthToken *token)
{
    return g_strconcat("Bearer ", token->access_token, NULL);
}

static void
free_secret(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    g_free(text);
}

void
ipb_oauth_token_free(IpbOAuthToken *token)
{
    if (token == NULL)
        return;
    free_secret(token->access_token);
    free_secret(token->refresh_token);
    g_free(token->scope);
    g_free(token->issuer);
    g_free(token->resource);
    g_free(token->token_endpoint);
    g_free(token->revocation_endpoint);
    g_free(token->client_id);
    g_free(token);
}

IpbOAuthToken *
ipb_oauth_token_copy(const IpbOAuthToken *token)
{
    IpbOAuthToken *copy = g_memdup2(token, sizeof *token);
    copy->access_token = g_strdup(token->access_token);
    copy->refresh_token = g_strdup(token->refresh_token);
    copy->scope = g_strdup(token->scope);
    copy->issuer = g_strdup(token->issuer);
    copy->resource = g_strdup(token->resource);
    copy->token_endpoint = g_strdup(token->token_endpoint);
    copy->revocation_endpoint = g_strdup(token->revocation_endpoint);
    copy->client_id = g_strdup(token->client_id);
    return copy;
}

/* --- clients --- */

IpbOAuthAuthMethod
ipb_oauth_choose_auth(const IpbOAuthServer *server, bool has_secret)
{
    if (!has_secret)
        return IPB_OAUTH_AUTH_NONE;
    if (server->auth_methods != NULL &&
        !ipb_oauth_scope_has(server->auth_methods, "client_secret_basic") &&
        ipb_oauth_scope_has(server->auth_methods, "client_secret_post"))
        return IPB_OAUTH_AUTH_SECRET_POST;
    return IPB_OAUTH_AUTH_SECRET_BASIC; /* the default of RFC 8414 */
}

IpbOAuthClient *
ipb_oauth_client_parse(const char *text, size_t size, const IpbOAuthServer *server,
                       IpbOAuthAuthMethod asked, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_oauth_json_document_parse(text, size, REGISTRATION, error);
    if (document == NULL)
        return NULL;
    const IpbJson *root = ipb_json_root(document);
    g_autoptr(IpbOAuthClient) client = g_new0(IpbOAuthClient, 1);
    client->issuer = g_strdup(server->issuer);
    client->client_id = ipb_oauth_json_document_text(root, "client_id");
    client->client_secret = ipb_oauth_json_document_text(root, "client_secret");
    if (client->client_id == NULL) {
        set_bad(error, REGISTRATION " has no client_id");
        return NULL;
    }
    read_number(root, "client_secret_expires_at", &client->secret_expires);
    g_autofree char *method = ipb_oauth_json_document_text(root, "token_endpoint_auth_method");
    if (method == NULL || !ipb_oauth_auth_method_parse(method, &client->auth_method))
        client->auth_method = asked;
    if (client->client_secret == NULL)
        client->auth_method = IPB_OAUTH_AUTH_NONE;
    return g_steal_pointer(&client);
}

IpbOAuthClient *
ipb_oauth_client_copy(const IpbOAuthClient *client)
{
    IpbOAuthClient *copy = g_memdup2(client, sizeof *client);
    copy->issuer = g_strdup(client->issuer);
    copy->client_id = g_strdup(client->client_id);
    copy->client_secret = g_strdup(client->client_secret);
    copy->redirect_uri = g_strdup(client->redirect_uri);
    return copy;
}

void
ipb_oauth_client_free(IpbOAuthClient *client)
{
    if (client == NULL)
        return;
    g_free(client->issuer);
    g_free(client->client_id);
    free_secret(client->client_secret);
    g_free(client->redirect_uri);
    g_free(client);
}

/* --- objects of the store --- */

static IpbOAuthAuthMethod
read_method(const IpbJson *object)
{
    IpbOAuthAuthMethod method = IPB_OAUTH_AUTH_NONE;
    const char *name = ipb_json_get_string(object, "auth_method");
    if (name != NULL)
        ipb_oauth_auth_method_parse(name, &method);
    return method;
}

IpbOAuthToken *
ipb_oauth_token_from_json(const IpbJson *object)
{
    g_autoptr(IpbOAuthToken) token = g_new0(IpbOAuthToken, 1);
    token->access_token = ipb_oauth_json_document_text(object, "access_token");
    token->refresh_token = ipb_oauth_json_document_text(object, "refresh_token");
    token->scope = ipb_oauth_json_document_text(object, "scope");
    token->issuer = ipb_oauth_json_document_text(object, "issuer");
    token->resource = ipb_oauth_json_document_text(object, "resource");
    token->token_endpoint = ipb_oauth_json_document_text(object, "token_endpoint");
    token->revocation_endpoint = ipb_oauth_json_document_text(object, "revocation_endpoint");
    token->client_id = ipb_oauth_json_document_text(object, "client_id");
    token->auth_method = read_method(object);
    ipb_json_get_int64(object, "expires", &token->expires);
    if (token->access_token == NULL || !is_token_text(token->access_token) ||
        token->issuer == NULL || token->resource == NULL || token->token_endpoint == NULL ||
        token->client_id == NULL)
        return NULL;
    return g_steal_pointer(&token);
}

static void
write_optional(IpbJsonWriter *writer, const char *name, const char *text)
{
    if (text != NULL)
        ipb_json_member_string(writer, name, text);
}

void
ipb_oauth_token_write(IpbJsonWriter *writer, const IpbOAuthToken *token)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "issuer", token->issuer);
    ipb_json_member_string(writer, "resource", token->resource);
    ipb_json_member_string(writer, "token_endpoint", token->token_endpoint);
    write_optional(writer, "revocation_endpoint", token->revocation_endpoint);
    ipb_json_member_string(writer, "client_id", token->client_id);
    ipb_json_member_string(writer, "auth_method", ipb_oauth_auth_method_name(token->auth_method));
    ipb_json_member_string(writer, "access_token", token->access_token);
    write_optional(writer, "refresh_token", token->refresh_token);
    ipb_json_member_int(writer, "expires", token->expires);
    write_optional(writer, "scope", token->scope);
    ipb_json_end_object(writer);
}

IpbOAuthClient *
ipb_oauth_client_from_json(const IpbJson *object)
{
    g_autoptr(IpbOAuthClient) client = g_new0(IpbOAuthClient, 1);
    client->issuer = ipb_oauth_json_document_text(object, "issuer");
    client->client_id = ipb_oauth_json_document_text(object, "client_id");
    client->client_secret = ipb_oauth_json_document_text(object, "client_secret");
    client->redirect_uri = ipb_oauth_json_document_text(object, "redirect_uri");
    client->auth_method = read_method(object);
    ipb_json_get_int64(object, "secret_expires", &client->secret_expires);
    if (client->issuer == NULL || client->client_id == NULL || client->redirect_uri == NULL)
        return NULL;
    return g_steal_pointer(&client);
}

void
ipb_oauth_client_write(IpbJsonWriter *writer, const IpbOAuthClient *client)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "issuer", client->issuer);
    ipb_json_member_string(writer, "client_id", client->client_id);
    write_optional(writer, "client_secret", client->client_secret);
    ipb_json_member_int(writer, "secret_expires", client->secret_expires);
    ipb_json_member_string(writer, "auth_method", ipb_oauth_auth_method_name(client->auth_method));
    ipb_json_member_string(writer, "redirect_uri", client->redirect_uri);
    ipb_json_end_object(writer);
}
