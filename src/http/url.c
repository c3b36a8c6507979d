/* SPDX-License-Identifier: Apache-2.0
 *
 * URLs; see the header.
 */
#include "http/url.h"

#include "base/error.h"

static void
cleanup_url(const IpbCurl *curl, CURLU *url)
{
    if (url != NULL)
        curl->url_cleanup(url);
}

static bool
has_part(const IpbCurl *curl, CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = curl->url_get(url, part, &text, 0) == CURLUE_OK;
    curl->free(text);
    return has;
}

/* A copy of the part; NULL if there is none. Caller frees. */
static char *
get_part(const IpbCurl *curl, CURLU *url, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    char *copy = curl->url_get(url, part, &text, flags) == CURLUE_OK ? g_strdup(text) : NULL;
    curl->free(text);
    return copy;
}

static bool
check(const IpbCurl *curl, CURLU *url, GError **error)
{
    g_autofree char *scheme = get_part(curl, url, CURLUPART_SCHEME, 0);
    const char *wrong = NULL;
    if (g_strcmp0(scheme, "http") != 0 && g_strcmp0(scheme, "https") != 0)
        wrong = "it must begin with http:// or https://";
    else if (has_part(curl, url, CURLUPART_USER) || has_part(curl, url, CURLUPART_PASSWORD))
        wrong = "it must not contain a user or a password: put an Authorization header into "
                "\"headers\"";
    if (wrong == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong: %s", wrong);
    return false;
}

/* NULL with INVALID unless it is an http or https URL without a user. */
static CURLU *
parse(const IpbCurl *curl, const char *base, const char *reference, GError **error)
{
    CURLU *url = curl->url();
    CURLUcode code = url == NULL ? CURLUE_OUT_OF_MEMORY : CURLUE_OK;
    if (code == CURLUE_OK && base != NULL)
        code = curl->url_set(url, CURLUPART_URL, base, 0);
    if (code == CURLUE_OK)
        code = curl->url_set(url, CURLUPART_URL, reference, 0);
    if (code != CURLUE_OK)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong: %s",
                    curl->url_strerror(code));
    else if (check(curl, url, error))
        return url;
    cleanup_url(curl, url);
    return NULL;
}

char *
ipb_http_url_origin(const IpbCurl *curl, const char *text, GError **error)
{
    CURLU *url = parse(curl, NULL, text, error);
    if (url == NULL)
        return NULL;
    g_autofree char *scheme = get_part(curl, url, CURLUPART_SCHEME, 0);
    g_autofree char *host = get_part(curl, url, CURLUPART_HOST, 0);
    g_autofree char *port = get_part(curl, url, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
    cleanup_url(curl, url);
    if (host == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong: it has no host");
        return NULL;
    }
    g_autofree char *lower = g_ascii_strdown(host, -1);
    return g_strconcat(scheme, "://", lower, port != NULL ? ":" : NULL, port, NULL);
}

char *
ipb_http_url_resolve(const IpbCurl *curl, const char *base, const char *reference, GError **error)
{
    CURLU *url = parse(curl, base, reference, error);
    if (url == NULL)
        return NULL;
    curl->url_set(url, CURLUPART_FRAGMENT, NULL, 0);
    char *text = get_part(curl, url, CURLUPART_URL, 0);
    cleanup_url(curl, url);
    if (text == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the URL is wrong");
    return text;
}
