/* SPDX-License-Identifier: Apache-2.0 */
#include "oauth/challenge.h"

typedef struct {
    const char *header, *scope, *error, *metadata;
} Case;

static const Case CASES[] = {
    {"Bearer", NULL, NULL, NULL},
    {"bearer scope=\"a  b a\"", "a b", NULL, NULL},
    {"Bearer error=\"insufficient_scope\", scope=\"files:write\", "
     "resource_metadata=\"https://mcp.example.com/.well-known/oauth-protected-resource\"",
     "files:write", "insufficient_scope",
     "https://mcp.example.com/.well-known/oauth-protected-resource"},
    {"Basic realm=\"x, Bearer scope=\\\"no\\\"\", Bearer scope=yes", "yes", NULL, NULL},
    {"Negotiate abc==, Bearer error=invalid_token", NULL, "invalid_token", NULL},
    {"Basic, Bearer error=invalid_token", NULL, "invalid_token", NULL},
    {"Bearer resource_metadata=https://a.example/x?y=1, error = \"e\"", NULL, "e",
     "https://a.example/x?y=1"},
    /* The first challenge counts, and the first of equal members. */
    {"Bearer scope=\"a\", scope=\"b\", Bearer error=\"e\"", "a", NULL, NULL},
    /* A value that a header cannot have is treated as missing. */
    {"Bearer error=\"a\tb\", scope=\"c\"", "c", NULL, NULL},
    {"Bearer scope=\"a \xc3\xa4 b\"", NULL, NULL, NULL},
    {"Bearer scope=\"a\\\\ b\"", "b", NULL, NULL},
    {"Bearer scope=\"unterminated", NULL, NULL, NULL},
    {"Bearer scope=\"\\", NULL, NULL, NULL},
    {"Bearer error=\"\"", NULL, NULL, NULL},
};

static void
test_cases(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        const char *const headers[] = {CASES[i].header, NULL};
        g_auto(IpbOAuthChallenge) challenge = {0};
        g_test_message("%s", CASES[i].header);
        ipb_oauth_challenge_parse(headers, &challenge);
        g_assert_true(challenge.is_bearer);
        g_assert_cmpstr(challenge.scope, ==, CASES[i].scope);
        g_assert_cmpstr(challenge.error, ==, CASES[i].error);
        g_assert_cmpstr(challenge.resource_metadata, ==, CASES[i].metadata);
    }
}

static void
test_none(void)
{
    static const char *const HEADERS[] = {
        "",      "Basic realm=\"Bearer\"", ",,,", "=", "\"Bearer\"",
        "Basic", "BearerX scope=\"a\"",    NULL};
    g_auto(IpbOAuthChallenge) challenge = {0};
    ipb_oauth_challenge_parse(HEADERS, &challenge);
    g_assert_false(challenge.is_bearer);
    ipb_oauth_challenge_parse(NULL, &challenge);
    g_assert_false(challenge.is_bearer);
}

static void
test_second_header(void)
{
    static const char *const HEADERS[] = {"Basic realm=\"x\"", "Bearer scope=\"a\"", NULL};
    g_auto(IpbOAuthChallenge) challenge = {0};
    ipb_oauth_challenge_parse(HEADERS, &challenge);
    g_assert_cmpstr(challenge.scope, ==, "a");
}

static void
test_scopes(void)
{
    g_autofree char *both = ipb_oauth_scope_union("a b", "b c");
    g_autofree char *none = ipb_oauth_scope_union("", " ");
    g_autofree char *bad = ipb_oauth_scope_union("a\"b c\nd", "e");
    g_assert_cmpstr(both, ==, "a b c");
    g_assert_null(none);
    g_assert_cmpstr(bad, ==, "e");
    g_assert_true(ipb_oauth_scope_has("a b", "b"));
    g_assert_false(ipb_oauth_scope_has("ab", "b"));
    g_assert_false(ipb_oauth_scope_has(NULL, "b"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/oauth/challenge/cases", test_cases);
    g_test_add_func("/oauth/challenge/none", test_none);
    g_test_add_func("/oauth/challenge/second-header", test_second_header);
    g_test_add_func("/oauth/challenge/scopes", test_scopes);
    return g_test_run();
}
