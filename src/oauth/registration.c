/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses or registers a client; see the header.
 */
#include "oauth/registration.h"

#include "base/error.h"
#include "oauth/challenge.h"
#include "oauth/url.h"

struct IpbOAuthRegistration {
    IpbOAuthRegistrationFunc func;
    void *data;
    IpbOAuthFetch *fetch;
    IpbTimer *timer;
    /* The answer, if no request is needed: */
    IpbOAuthClient *client;
    GError *error;
    /* Values that the reply does not have: */
    IpbOAuthServer *server; /* issuer only */
    char *redirect_uri;
    IpbOAuthAuthMethod asked;
};

void
ipb_oauth_registration_cancel(IpbOAuthRegistration *registration)
{
    if (registration == NULL)
        return;
    ipb_oauth_fetch_cancel(registration->fetch);
    ipb_timer_free(registration->timer);
    ipb_oauth_client_free(registration->client);
    g_clear_error(&registration->error);
    ipb_oauth_server_free(registration->server);
    g_free(registration->redirect_uri);
    g_free(registration);
}

static void
finish(void *data)
{
    IpbOAuthRegistration *registration = data;
    IpbOAuthRegistrationFunc func = registration->func;
    void *receiver = registration->data;
    IpbOAuthClient *client = g_steal_pointer(&registration->client);
    g_autoptr(GError) error = g_steal_pointer(&registration->error);
    ipb_oauth_registration_cancel(registration);
    func(client, error, receiver);
}

static void
on_reply(const IpbOAuthReply *reply, const GError *error, void *data)
{
    IpbOAuthRegistration *registration = data;
    registration->fetch = NULL;
    if (error != NULL) {
        registration->error = g_error_copy(error);
    } else if (reply->status == 201 || reply->status == 200) {
        registration->client =
            ipb_oauth_client_parse(reply->body, reply->size, registration->server,
                                   registration->asked, &registration->error);
        if (registration->client != NULL)
            registration->client->redirect_uri = g_steal_pointer(&registration->redirect_uri);
    } else {
        g_autofree char *code = NULL;
        g_autofree char *refusal = ipb_oauth_error_parse(reply->body, reply->size, &code);
        g_set_error(
            &registration->error, IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
            "the authorization server %s refused to register a client (status %u): %s. Register "
            "one there yourself, and set it as \"oauth\": {\"clientId\": …} in the server's "
            "parameters",
            registration->server->issuer, reply->status, refusal);
    }
    finish(registration);
}

/* A method that both support. None is best, because a program on the user's machine cannot keep a
 * secret from the user. */
static IpbOAuthAuthMethod
choose_method(const IpbOAuthServer *server)
{
    if (server->auth_methods == NULL || ipb_oauth_scope_has(server->auth_methods, "none"))
        return IPB_OAUTH_AUTH_NONE;
    return ipb_oauth_choose_auth(server, /* has_secret= */ true);
}

static void
write_list(IpbJsonWriter *writer, const char *name, const char *first, const char *second)
{
    ipb_json_key(writer, name);
    ipb_json_begin_array(writer);
    ipb_json_write_string(writer, first);
    if (second != NULL)
        ipb_json_write_string(writer, second);
    ipb_json_end_array(writer);
}

static char *
make_body(const IpbOAuthRegistrationOptions *options, IpbOAuthAuthMethod method)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "client_name", "ipybox");
    ipb_json_member_string(writer, "application_type", "native");
    write_list(writer, "redirect_uris", options->redirect_uri, NULL);
    write_list(writer, "grant_types", "authorization_code", "refresh_token");
    write_list(writer, "response_types", "code", NULL);
    ipb_json_member_string(writer, "token_endpoint_auth_method",
                           ipb_oauth_auth_method_name(method));
    if (options->scope != NULL)
        ipb_json_member_string(writer, "scope", options->scope);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

/* A client that was not registered dynamically, so it is not saved. */
static IpbOAuthClient *
make_client(const IpbOAuthServer *server, const char *id, const char *secret,
            IpbOAuthAuthMethod method)
{
    IpbOAuthClient *client = g_new0(IpbOAuthClient, 1);
    client->issuer = g_strdup(server->issuer);
    client->client_id = g_strdup(id);
    client->client_secret = g_strdup(secret);
    client->auth_method =
        method != IPB_OAUTH_AUTH_ANY ? method : ipb_oauth_choose_auth(server, secret != NULL);
    return client;
}

static bool
is_usable(const IpbOAuthRegistrationOptions *options)
{
    const IpbOAuthClient *known = options->known;
    return known != NULL && g_str_equal(known->redirect_uri, options->redirect_uri) &&
           (known->secret_expires == 0 ||
            known->secret_expires > g_get_real_time() / G_USEC_PER_SEC);
}

/* A client that needs no request; NULL: there is none. */
static IpbOAuthClient *
choose_client(const IpbOAuthRegistrationOptions *options, GError **error)
{
    const IpbOAuthSettings *settings = options->settings;
    if (settings != NULL && settings->client_id != NULL)
        return make_client(options->server, settings->client_id, settings->client_secret,
                           settings->auth_method);
    bool has_url = settings != NULL && settings->client_metadata_url != NULL;
    if (has_url && options->server->takes_client_urls)
        return ipb_oauth_url_check(settings->client_metadata_url, "oauth.clientMetadataUrl", false,
                                   error)
                   ? make_client(options->server, settings->client_metadata_url, NULL,
                                 IPB_OAUTH_AUTH_NONE)
                   : NULL;
    if (is_usable(options))
        return ipb_oauth_client_copy(options->known);
    if (options->server->registration_endpoint == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                    "the authorization server %s registers no clients: register one there "
                    "yourself, and give it as \"oauth\": {\"clientId\": …} in the server's "
                    "parameters",
                    options->server->issuer);
    return NULL;
}

IpbOAuthRegistration *
ipb_oauth_register(IpbLoop *loop, IpbHttpClient *http, const IpbOAuthRegistrationOptions *options,
                   IpbOAuthRegistrationFunc func, void *data)
{
    IpbOAuthRegistration *registration = g_new0(IpbOAuthRegistration, 1);
    registration->func = func;
    registration->data = data;
    registration->client = choose_client(options, &registration->error);
    if (registration->client != NULL || registration->error != NULL) {
        registration->timer = ipb_timer_new(loop, 0, finish, registration);
        return registration;
    }
    registration->server = g_new0(IpbOAuthServer, 1);
    registration->server->issuer = g_strdup(options->server->issuer);
    registration->redirect_uri = g_strdup(options->redirect_uri);
    registration->asked = choose_method(options->server);
    g_autofree char *body = make_body(options, registration->asked);
    IpbOAuthFetchRequest request = {
        .url = options->server->registration_endpoint,
        .json = body,
    };
    registration->fetch = ipb_oauth_fetch(http, &request, on_reply, registration);
    return registration;
}
