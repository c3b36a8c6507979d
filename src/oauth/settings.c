/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads "oauth" of server_params; see the header. Some members have a second name that other
 * programs use.
 */
#include "oauth/settings.h"

#include <string.h>

#include "base/error.h"

#define MAX_TEXT 4096
#define MAX_SCOPES 100

G_GNUC_PRINTF(3, 4)
static bool
set_invalid(GError **error, const char *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s%s", path, text);
    return false;
}

/* The member; NULL if it is missing or null. */
static const IpbJson *
get_member(const IpbJson *object, const char *name)
{
    const IpbJson *value = ipb_json_get(object, name);
    return ipb_json_is(value, IPB_JSON_NULL) ? NULL : value;
}

/* The text of @value, the value of the member @name; NULL with @error. */
static const char *
check_text(const IpbJson *value, const char *path, const char *name, GError **error)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL || size == 0 || memchr(text, '\0', size) != NULL)
        set_invalid(error, path, ".%s must be a string that is not empty", name);
    else if (size > MAX_TEXT)
        set_invalid(error, path, ".%s has %zu bytes; at most %d are allowed", name, size, MAX_TEXT);
    else if (!g_utf8_validate_len(text, size, NULL))
        set_invalid(error, path, ".%s contains a lone surrogate, which is not a character", name);
    else
        return text;
    return NULL;
}

static bool
read_text(const IpbJson *object, const char *path, const char *name, char **ret_text,
          GError **error)
{
    const IpbJson *value = get_member(object, name);
    if (value == NULL)
        return true;
    *ret_text = g_strdup(check_text(value, path, name, error));
    return *ret_text != NULL;
}

/* Reads "scopes" or "scope": a list, or one text with spaces. */
static bool
read_scope(const IpbJson *object, const char *path, IpbOAuthSettings *settings, GError **error)
{
    const char *name = get_member(object, "scopes") != NULL ? "scopes" : "scope";
    const IpbJson *value = get_member(object, name);
    if (value == NULL || !ipb_json_is(value, IPB_JSON_ARRAY))
        return read_text(object, path, name, &settings->scope, error);
    if (ipb_json_length(value) > MAX_SCOPES)
        return set_invalid(error, path, ".%s has more than %d items", name, MAX_SCOPES);
    g_autoptr(GString) all = g_string_new(NULL);
    IPB_JSON_FOREACH (item, value) {
        const char *text = check_text(item, path, "scopes[]", error);
        if (text == NULL)
            return false;
        g_string_append_printf(all, "%s%s", all->len > 0 ? " " : "", text);
    }
    settings->scope = g_strdup(all->str);
    return true;
}

static bool
read_port(const IpbJson *object, const char *path, IpbOAuthSettings *settings, GError **error)
{
    int64_t port;
    const char *name = get_member(object, "callbackPort") != NULL ? "callbackPort" : "redirectPort";
    if (get_member(object, name) == NULL)
        return true;
    if (!ipb_json_get_int64(object, name, &port) || port < 1 || port > 65535)
        return set_invalid(error, path, ".%s must be a port, 1 to 65535", name);
    settings->callback_port = (unsigned) port;
    return true;
}

static bool
read_grant(const IpbJson *object, const char *path, IpbOAuthSettings *settings, GError **error)
{
    g_autofree char *grant = NULL;
    if (!read_text(object, path, "grantType", &grant, error))
        return false;
    if (grant == NULL || g_str_equal(grant, "authorization_code"))
        return true;
    if (!g_str_equal(grant, "client_credentials"))
        return set_invalid(error, path,
                           ".grantType must be \"authorization_code\" or \"client_credentials\"");
    settings->grant = IPB_OAUTH_GRANT_CREDENTIALS;
    if (settings->client_id != NULL && settings->client_secret != NULL)
        return true;
    return set_invalid(error, path,
                       ".grantType \"client_credentials\" needs \"clientId\" and \"clientSecret\"");
}

static bool
read_auth_method(const IpbJson *object, const char *path, IpbOAuthSettings *settings,
                 GError **error)
{
    g_autofree char *method = NULL;
    if (!read_text(object, path, "tokenEndpointAuthMethod", &method, error))
        return false;
    if (method == NULL)
        return true;
    if (!ipb_oauth_auth_method_parse(method, &settings->auth_method))
        return set_invalid(error, path,
                           ".tokenEndpointAuthMethod must be \"none\", \"client_secret_basic\" or "
                           "\"client_secret_post\"");
    if (settings->auth_method == IPB_OAUTH_AUTH_NONE || settings->client_secret != NULL)
        return true;
    return set_invalid(error, path, ".tokenEndpointAuthMethod \"%s\" needs \"clientSecret\"",
                       method);
}

static const char *const AUTH_METHODS[] = {
    [IPB_OAUTH_AUTH_NONE] = "none",
    [IPB_OAUTH_AUTH_SECRET_BASIC] = "client_secret_basic",
    [IPB_OAUTH_AUTH_SECRET_POST] = "client_secret_post",
};

bool
ipb_oauth_auth_method_parse(const char *name, IpbOAuthAuthMethod *ret_method)
{
    for (size_t i = IPB_OAUTH_AUTH_NONE; i < G_N_ELEMENTS(AUTH_METHODS); i++) {
        if (g_str_equal(name, AUTH_METHODS[i])) {
            *ret_method = (IpbOAuthAuthMethod) i;
            return true;
        }
    }
    return false;
}

const char *
ipb_oauth_auth_method_name(IpbOAuthAuthMethod method)
{
    return AUTH_METHODS[method];
}

static bool
read_members(const IpbJson *object, const char *path, IpbOAuthSettings *settings, GError **error)
{
    return read_text(object, path, "clientId", &settings->client_id, error) &&
           read_text(object, path, "clientSecret", &settings->client_secret, error) &&
           read_text(object, path, "clientMetadataUrl", &settings->client_metadata_url, error) &&
           read_text(object, path, "issuer", &settings->issuer, error) &&
           read_scope(object, path, settings, error) && read_port(object, path, settings, error) &&
           read_grant(object, path, settings, error) &&
           read_auth_method(object, path, settings, error);
}

IpbOAuthSettings *
ipb_oauth_settings_parse(const IpbJson *value, const char *path, GError **error)
{
    g_autoptr(IpbOAuthSettings) settings = g_new0(IpbOAuthSettings, 1);
    if (ipb_json_is(value, IPB_JSON_BOOL)) {
        settings->is_off = !ipb_json_bool(value, true);
        return g_steal_pointer(&settings);
    }
    if (!ipb_json_is(value, IPB_JSON_OBJECT)) {
        set_invalid(error, path, " must be an object, or false");
        return NULL;
    }
    if (!read_members(value, path, settings, error))
        return NULL;
    if (settings->client_secret != NULL && settings->client_id == NULL) {
        set_invalid(error, path, ".clientSecret needs \"clientId\"");
        return NULL;
    }
    return g_steal_pointer(&settings);
}

IpbOAuthSettings *
ipb_oauth_settings_copy(const IpbOAuthSettings *settings)
{
    IpbOAuthSettings *copy = g_memdup2(settings, sizeof *settings);
    copy->client_id = g_strdup(settings->client_id);
    copy->client_secret = g_strdup(settings->client_secret);
    copy->scope = g_strdup(settings->scope);
    copy->client_metadata_url = g_strdup(settings->client_metadata_url);
    copy->issuer = g_strdup(settings->issuer);
    return copy;
}

void
ipb_oauth_settings_free(IpbOAuthSettings *settings)
{
    if (settings == NULL)
        return;
    g_free(settings->client_id);
    g_free(settings->client_secret);
    g_free(settings->scope);
    g_free(settings->client_metadata_url);
    g_free(settings->issuer);
    g_free(settings);
}
