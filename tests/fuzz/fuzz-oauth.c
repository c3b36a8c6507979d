/* SPDX-License-Identifier: Apache-2.0
 *
 * Input of servers and browsers: challenges, documents of discovery, answers of endpoints,
 * redirects, URLs. The values that are read must be as their headers promise.
 */
#include <string.h>

#include "oauth/challenge.h"
#include "oauth/metadata.h"
#include "oauth/token.h"
#include "oauth/url.h"

#define SERVER "https://mcp.example.com/mcp"
#define ISSUER "https://as.example.com"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_printable(const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        g_assert(*text >= ' ' && *text < 0x7f);
}

static void
fuzz_challenge(const char *text)
{
    const char *const headers[] = {text, NULL};
    g_auto(IpbOAuthChallenge) challenge = {0};
    ipb_oauth_challenge_parse(headers, &challenge);
    check_printable(challenge.scope);
    check_printable(challenge.error);
    check_printable(challenge.error_description);
    check_printable(challenge.resource_metadata);
}

static void
fuzz_url(const char *text)
{
    g_autoptr(IpbOAuthUrl) url = ipb_oauth_url_parse(text, "it", NULL);
    if (url == NULL)
        return;
    g_autofree char *once = ipb_oauth_url_canonical(url);
    g_autoptr(IpbOAuthUrl) again = ipb_oauth_url_parse(once, "it", NULL);
    g_assert(again != NULL);
    g_autofree char *twice = ipb_oauth_url_canonical(again);
    g_assert(g_str_equal(once, twice));
    check_printable(once);
}

static void
fuzz_documents(const char *text, size_t size)
{
    g_autofree char *code = NULL;
    g_autofree char *refusal = ipb_oauth_error_parse(text, size, &code);
    check_printable(refusal);
    g_autoptr(IpbOAuthResource) resource = ipb_oauth_resource_parse(text, size, SERVER, NULL);
    if (resource != NULL)
        g_assert(ipb_oauth_resource_covers(resource->resource, SERVER));
    g_autoptr(IpbOAuthServer) server = ipb_oauth_server_parse(text, size, ISSUER, false, NULL);
    if (server != NULL)
        g_assert(g_ascii_strncasecmp(server->token_endpoint, "http", 4) == 0);
    g_autoptr(IpbOAuthToken) token = ipb_oauth_token_parse(text, size, 1000, NULL);
    if (token != NULL)
        check_printable(token->access_token);
    g_autoptr(IpbOAuthServer) legacy = ipb_oauth_server_new_legacy(ISSUER);
    g_autoptr(IpbOAuthClient) client =
        ipb_oauth_client_parse(text, size, legacy, IPB_OAUTH_AUTH_NONE, NULL);
    if (client != NULL)
        check_printable(client->client_id);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > IPB_OAUTH_MAX_DOCUMENT)
        return 0;
    g_autofree char *text = g_strndup((const char *) data, size);
    fuzz_challenge(text);
    fuzz_url(text);
    g_autoptr(GHashTable) form = ipb_oauth_form_parse(text);
    fuzz_documents((const char *) data, size);
    return 0;
}
