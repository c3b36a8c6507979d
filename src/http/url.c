/* SPDX-License-Identifier: Apache-2.0
 *
 * URLs as the HTTP client understands them: libcurl's own parser, so that what is checked here is what
 * is connected to. See client.h.
 */
#include "http/client-private.h"

#include "base/error.h"

static void
cleanup_url(IpbHttpClient *client, CURLU *url)
{
    if (url != NULL)
        client->curl->url_cleanup(url);
}

static bool
has_part(IpbHttpClient *client, CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = client->curl->url_get(url, part, &text, 0) == CURLUE_OK;
    client->curl->free(text);
    return has;
}

/* A part as a string of GLib's; NULL if there is none. */
static char *
get_part(IpbHttpClient *client, CURLU *url, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    char *copy =
        client->curl->url_get(url, part, &text, flags) == CURLUE_OK ? g_strdup(text) : NULL;
    client->curl->free(text);
    return copy;
}

static bool
check(IpbHttpClient *client, CURLU *url, GError **error)
{
    g_autofree char *scheme = get_part(client, url, CURLUPART_SCHEME, 0);
    const char *wrong = NULL;
    if (g_strcmp0(scheme, "http") != 0 && g_strcmp0(scheme, "https") != 0)
        wrong = "it must begin with http:// or https://";
    else if (has_part(client, url, CURLUPART_USER) || has_part(client, url, CURLUPART_PASSWORD))
        wrong =
            "it must hold no user and no password: put an Authorization header into \"headers\"";
    if (wrong == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong: %s", wrong);
    return false;
}

/* NULL and INVALID unless it is a URL that we go to. */
static CURLU *
parse(IpbHttpClient *client, const char *base, const char *reference, GError **error)
{
    const IpbCurl *curl = client->curl;
    CURLU *url = curl->url();
    CURLUcode code = url == NULL ? CURLUE_OUT_OF_MEMORY : CURLUE_OK;
    if (code == CURLUE_OK && base != NULL)
        code = curl->url_set(url, CURLUPART_URL, base, 0);
    if (code == CURLUE_OK)
        code = curl->url_set(url, CURLUPART_URL, reference, 0);
    if (code != CURLUE_OK)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong: %s",
                    curl->url_strerror(code));
    else if (check(client, url, error))
        return url;
    cleanup_url(client, url);
    return NULL;
}

char *
ipb_http_client_origin(IpbHttpClient *client, const char *text, GError **error)
{
    CURLU *url = parse(client, NULL, text, error);
    if (url == NULL)
        return NULL;
    g_autofree char *scheme = get_part(client, url, CURLUPART_SCHEME, 0);
    g_autofree char *host = get_part(client, url, CURLUPART_HOST, 0);
    g_autofree char *port = get_part(client, url, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
    cleanup_url(client, url);
    if (host == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong: it has no host");
        return NULL;
    }
    g_autofree char *lower = g_ascii_strdown(host, -1);
    return g_strconcat(scheme, "://", lower, port != NULL ? ":" : NULL, port, NULL);
}

char *
ipb_http_client_resolve(IpbHttpClient *client, const char *base, const char *reference,
                        GError **error)
{
    CURLU *url = parse(client, base, reference, error);
    if (url == NULL)
        return NULL;
    client->curl->url_set(url, CURLUPART_FRAGMENT, NULL, 0);
    char *text = get_part(client, url, CURLUPART_URL, 0);
    cleanup_url(client, url);
    if (text == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong");
    return text;
}
