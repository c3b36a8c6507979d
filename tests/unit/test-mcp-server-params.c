/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/server-params.h"

#include <string.h>

#include "base/error.h"
#include "mcp/server-env.h"

static IpbServerParams *
parse(const char *text, GError **error)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    g_assert_nonnull(document);
    return ipb_server_params_parse(ipb_json_root(document), error);
}

static void
assert_refused(const char *text, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbServerParams) params = parse(text, &error);
    g_assert_null(params);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    if (strstr(error->message, message) == NULL)
        g_error("%s: \"%s\" is not in \"%s\"", text, message, error->message);
}

static void
test_stdio(void)
{
    g_autoptr(IpbServerParams) params = parse(
        "{\"command\":\"npx\",\"args\":[\"-y\",\"\\u00e9\"],\"env\":{\"A\":\"1\",\"B\":\"x=y\","
        "\"A\":\"2\"},\"cwd\":\"/tmp\",\"disabled\":false,\"headers\":5}",
        NULL);
    g_assert_nonnull(params);
    g_assert_cmpint(params->kind, ==, IPB_SERVER_STDIO);
    g_assert_cmpstr(params->command, ==, "npx");
    const char *const args[] = {"-y", "é", NULL};
    const char *const env[] = {"B=x=y", "A=2", NULL};
    g_assert_cmpstrv(params->args, args);
    g_assert_cmpstrv(params->env, env);
    g_assert_cmpstr(params->cwd, ==, "/tmp");
    g_assert_null(params->url);

    g_autoptr(IpbServerParams) least =
        parse("{\"command\":\"x\",\"args\":null,\"env\":null,\"type\":\"stdio\"}", NULL);
    g_assert_nonnull(least);
    g_assert_cmpuint(g_strv_length(least->args), ==, 0);
    g_assert_null(least->cwd);
    g_assert_cmpuint(least->limits.call_timeout_ms, ==, 0);
}

static void
test_timeout(void)
{
    static const struct {
        const char *text;
        unsigned timeout_ms;
    } CASES[] = {{"1.5", 1500}, {"3600", 3600000}, {"1e300", 86400000}, {"null", 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *text =
            g_strdup_printf("{\"command\":\"x\",\"timeout\":%s}", CASES[i].text);
        g_autoptr(IpbServerParams) params = parse(text, NULL);
        g_assert_nonnull(params);
        g_autoptr(IpbServerParams) copy = ipb_server_params_copy(params);
        g_autoptr(IpbServerParams) expanded =
            ipb_server_params_expand(copy, (const char *const[]){NULL}, NULL);
        g_assert_cmpuint(expanded->limits.call_timeout_ms, ==, CASES[i].timeout_ms);
    }
}

static void
test_limits(void)
{
    g_autoptr(IpbServerParams) params =
        parse("{\"command\":\"x\",\"timeout\":2,\"limits\":{\"connect_timeout\":1.5,\"pages\":7,"
              "\"message_size\":4096,\"call_duration\":90}}",
              NULL);
    g_assert_nonnull(params);
    g_autoptr(IpbServerParams) copy = ipb_server_params_copy(params);
    g_autoptr(IpbServerParams) expanded =
        ipb_server_params_expand(copy, (const char *const[]){NULL}, NULL);
    IpbMcpLimits limits = expanded->limits;
    g_assert_cmpuint(limits.tools, ==, 0);
    ipb_mcp_limits_fill(&limits);
    g_assert_cmpuint(limits.connect_timeout_ms, ==, 1500);
    g_assert_cmpuint(limits.call_timeout_ms, ==, 2000);
    g_assert_cmpuint(limits.call_duration_ms, ==, 90000);
    g_assert_cmpuint(limits.pages, ==, 7);
    g_assert_cmpuint(limits.message_size, ==, 4096);
    g_assert_cmpuint(limits.tools, ==, 10000);
    g_assert_cmpuint(limits.depth, ==, 512);

    assert_refused("{\"command\":\"a\",\"limits\":5}", "server_params.limits must be an object");
    assert_refused("{\"command\":\"a\",\"limits\":{\"pages\":\"7\"}}",
                   "server_params.limits.pages must be a number from 1 to 100000");
    assert_refused("{\"command\":\"a\",\"limits\":{\"tools\":0}}", "limits.tools must be a number");
    assert_refused("{\"command\":\"a\",\"limits\":{\"depth\":1e9}}",
                   "limits.depth must be a number");
    assert_refused("{\"command\":\"a\",\"limits\":{\"probe_timeout\":-1}}",
                   "must be a number of seconds from 0.001 to 86400");
    assert_refused("{\"command\":\"a\",\"limits\":{\"page\":7}}",
                   "an unknown member; the limits are connect_timeout, ");
}

static void
test_sandbox(void)
{
    static const char CLOSED[] =
        "{\"command\":\"x\",\"sandbox\":{\"network\":{\"allowedDomains\":[\"a.example\"],"
        "\"deniedDomains\":[]},\"filesystem\":{\"denyRead\":[],\"allowWrite\":[\"${HOME}\"],"
        "\"denyWrite\":[]}}}";
    g_autoptr(IpbServerParams) none = parse("{\"command\":\"x\",\"sandbox\":false}", NULL);
    g_assert_null(none->sandbox);
    g_autoptr(IpbServerParams) standard = parse("{\"command\":\"x\",\"sandbox\":true}", NULL);
    g_assert_nonnull(standard->sandbox);
    g_assert_cmpstr(standard->sandbox->allow_write[0], ==, ".");
    g_assert_cmpuint(standard->sandbox->allowed_domains->len, ==, 0);

    g_autoptr(IpbServerParams) given = parse(CLOSED, NULL);
    g_autoptr(IpbServerParams) copy = ipb_server_params_copy(given);
    g_autoptr(IpbServerParams) expanded = ipb_server_params_expand(copy, NULL, NULL);
    g_assert_cmpuint(expanded->sandbox->allowed_domains->len, ==, 1);
    /* A variable must not widen what is allowed. */
    g_assert_cmpstr(expanded->sandbox->allow_write[0], ==, "${HOME}");

    assert_refused("{\"command\":\"x\",\"sandbox\":1}", "server_params.sandbox must be");
    assert_refused("{\"command\":\"x\",\"sandbox\":{\"network\":{\"allow\":1}}}", "network.allow");
    assert_refused("{\"url\":\"https://a.example\",\"sandbox\":true}", "runs elsewhere");
}

static void
test_http(void)
{
    static const struct {
        const char *url, *type;
        IpbServerKind kind;
    } CASES[] = {
        {"https://a.example/mcp", NULL, IPB_SERVER_STREAMABLE_HTTP},
        {"https://a.example/sse", NULL, IPB_SERVER_SSE},
        {"https://mcp.example/sse?x=/mcp", NULL, IPB_SERVER_SSE},
        {"https://a.example/v1/mcp/sse", NULL, IPB_SERVER_STREAMABLE_HTTP},
        {"HTTP://a.example", NULL, IPB_SERVER_STREAMABLE_HTTP},
        {"https://a.example/sse", "streamable_http", IPB_SERVER_STREAMABLE_HTTP},
        {"https://a.example/sse", "http", IPB_SERVER_STREAMABLE_HTTP},
        {"https://a.example/mcp", "sse", IPB_SERVER_SSE},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *type =
            CASES[i].type == NULL ? g_strdup("null") : g_strdup_printf("\"%s\"", CASES[i].type);
        g_autofree char *text = g_strdup_printf(
            "{\"url\":\"%s\",\"type\":%s,\"headers\":{\"X-A\":\"b c\"}}", CASES[i].url, type);
        g_autoptr(IpbServerParams) params = parse(text, NULL);
        g_assert_nonnull(params);
        g_assert_cmpint(params->kind, ==, CASES[i].kind);
        g_assert_cmpstr(params->url, ==, CASES[i].url);
        g_assert_cmpstr(params->headers[0], ==, "X-A: b c");
    }
}

static void
test_refused(void)
{
    assert_refused("[]", "server_params must be an object");
    assert_refused("{}", "needs \"command\"");
    assert_refused("{\"command\":\"a\",\"url\":\"http://b\"}", "both");
    assert_refused("{\"command\":5}", "server_params.command must be a string");
    assert_refused("{\"command\":\"\"}", "must not be empty");
    assert_refused("{\"command\":\"a\\u0000b\"}", "NUL");
    assert_refused("{\"command\":\"a\",\"args\":\"-y x\"}", "server_params.args must be an array");
    assert_refused("{\"command\":\"a\",\"args\":[\"b\",\"c\",5]}",
                   "server_params.args[2] must be a string");
    assert_refused("{\"command\":\"a\",\"args\":[\"\\ud800\"]}", "surrogate");
    assert_refused("{\"command\":\"a\",\"env\":[]}", "server_params.env must be an object");
    assert_refused("{\"command\":\"a\",\"env\":{\"P\":80}}",
                   "server_params.env.P must be a string");
    assert_refused("{\"command\":\"a\",\"env\":{\"A=B\":\"\"}}", "name is invalid");
    assert_refused("{\"command\":\"a\",\"env\":{\"\":\"\"}}", "name is invalid");
    assert_refused("{\"command\":\"a\",\"env\":{\"A\\u0000\":\"\"}}", "name is invalid");
    assert_refused("{\"command\":\"a\",\"cwd\":\"\"}", "server_params.cwd must not be empty");
    assert_refused("{\"command\":\"a\",\"timeout\":\"60\"}",
                   "server_params.timeout must be a number");
    assert_refused("{\"command\":\"a\",\"timeout\":0}", "server_params.timeout must be a number");
    assert_refused("{\"command\":\"a\",\"timeout\":-1}", "server_params.timeout must be a number");
    assert_refused("{\"command\":\"a\",\"type\":\"sse\"}", "cannot be combined with");
    assert_refused("{\"url\":\"http://a\",\"type\":\"stdio\"}", "cannot be combined with");
    assert_refused("{\"url\":\"http://a\",\"type\":\"carrier-pigeon\"}", "server_params.type must");
    assert_refused("{\"url\":\"http://a\",\"type\":7}", "server_params.type must");
    assert_refused("{\"url\":\"file:///etc/passwd\"}", "http://");
    assert_refused("{\"url\":\"http:///x\"}", "host");
    assert_refused("{\"url\":\"http://a b\"}", "spaces");
    assert_refused("{\"url\":\"http://a\",\"headers\":{\"A b\":\"\"}}", "name is invalid");
    assert_refused("{\"url\":\"http://a\",\"headers\":{\"A\":\"b\\r\\nC: d\"}}",
                   "server_params.headers.A must not contain control characters");

    g_autofree char *big = g_strnfill(128 * 1024, 'x');
    g_autofree char *text = g_strdup_printf("{\"command\":\"%s\"}", big);
    assert_refused(text, "at most");
    GString *many = g_string_new("{\"command\":\"a\",\"args\":[\"\"");
    for (int i = 0; i < 1000; i++)
        g_string_append(many, ",\"\"");
    g_string_append(many, "]}");
    assert_refused(many->str, "server_params.args has 1001 items");
    g_string_free(many, true);
}

static char *
canonical(const char *text)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    g_assert_nonnull(document);
    return ipb_server_params_canonical(ipb_json_root(document));
}

static void
test_canonical(void)
{
    g_autofree char *one =
        canonical("{ \"env\": {\"b\":\"\\u0041\", \"a\":1e3},\n\"command\":\"x\", "
                  "\"args\":[\"2\", \"1\"] }");
    g_autofree char *two = canonical("{\"command\":\"x\",\"args\":[\"2\",\"1\"],\"env\":{\"a\":9,"
                                     "\"a\":1e3,\"b\":\"A\"}}");
    g_assert_cmpstr(one, ==,
                    "{\"args\":[\"2\",\"1\"],\"command\":\"x\",\"env\":{\"a\":1e3,\"b\":\"A\"}}");
    g_assert_cmpstr(one, ==, two);
    g_autofree char *names = canonical("{\"b\":1,\"a\\u0000\":2,\"a\":3,\"ab\":4,\"\":5}");
    g_assert_cmpstr(names, ==, "{\"\":5,\"a\":3,\"a\\u0000\":2,\"ab\":4,\"b\":1}");
    g_autofree char *scalar = canonical(" null ");
    g_assert_cmpstr(scalar, ==, "null");
}

static const char *const ENV[] = {"KEY=s3cret", "EMPTY=",     "LOOP=${KEY}", "HOST=h.example/sse",
                                  "BAD=a\r\nb", "KIND=KEY=x", NULL};

static IpbServerParams *
expand(const char *text, GError **error)
{
    g_autoptr(IpbServerParams) params = parse(text, error);
    g_assert_nonnull(params);
    return ipb_server_params_expand(params, ENV, error);
}

static void
test_expand(void)
{
    g_autoptr(IpbServerParams) stdio =
        expand("{\"command\":\"${KEY}/x${EMPTY}\",\"args\":[\"--key=${KEY}${KEY}\",\"$KEY $ {KEY} "
               "${} ${A-B} ${KEY $${KEY}\",\"${LOOP}\"],\"env\":{\"A${KEY}\":\"${KIND}\"},"
               "\"cwd\":\"/${KEY}\"}",
               NULL);
    g_assert_nonnull(stdio);
    g_assert_cmpstr(stdio->command, ==, "s3cret/x");
    const char *const args[] = {"--key=s3crets3cret", "$KEY $ {KEY} ${} ${A-B} ${KEY $s3cret",
                                "${KEY}", NULL};
    const char *const env[] = {"A${KEY}=KEY=x", NULL};
    g_assert_cmpstrv(stdio->args, args);
    g_assert_cmpstrv(stdio->env, env);
    g_assert_cmpstr(stdio->cwd, ==, "/s3cret");

    g_autoptr(IpbServerParams) http =
        expand("{\"url\":\"https://${HOST}\",\"headers\":{\"A\":\"Bearer ${KEY}\"}}", NULL);
    g_assert_nonnull(http);
    g_assert_cmpstr(http->url, ==, "https://h.example/sse");
    g_assert_cmpint(http->kind, ==, IPB_SERVER_SSE);
    g_assert_cmpstr(http->headers[0], ==, "A: Bearer s3cret");
}

static void
assert_not_expanded(const char *text, int code, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbServerParams) params = expand(text, &error);
    g_assert_null(params);
    g_assert_error(error, IPYBOX_ERROR, code);
    if (strstr(error->message, message) == NULL || strstr(error->message, "s3cret") != NULL)
        g_error("%s: %s", text, error->message);
}

static void
test_expand_errors(void)
{
    assert_not_expanded("{\"command\":\"x\",\"args\":[\"${NOPE}\",\"${NOPE}\"],\"env\":{\"A\":"
                        "\"${KE}\",\"B\":\"${KEYS}\"}}",
                        IPYBOX_ERROR_NOT_FOUND,
                        "uses ${NOPE}, ${KE} and ${KEYS}, which are not set. Set them in the "
                        "environment that ipybox is started with, or in the .env file");
    assert_not_expanded("{\"command\":\"${NOPE}\"}", IPYBOX_ERROR_NOT_FOUND, "which is not set");
    assert_not_expanded("{\"command\":\"${EMPTY}\"}", IPYBOX_ERROR_INVALID, "must not be empty");
    assert_not_expanded("{\"url\":\"${KEY}\"}", IPYBOX_ERROR_INVALID, "server_params.url");
    assert_not_expanded("{\"url\":\"${LOOP}\"}", IPYBOX_ERROR_INVALID, "server_params.url");
    assert_not_expanded("{\"url\":\"http://a\",\"headers\":{\"A\":\"${BAD}\"}}",
                        IPYBOX_ERROR_INVALID, "server_params.headers.A");
    GString *many = g_string_new("{\"command\":\"x\",\"args\":[\"");
    for (int i = 0; i < 15000; i++)
        g_string_append(many, "${HOST}");
    g_string_append(many, "\"]}");
    assert_not_expanded(many->str, IPYBOX_ERROR_LIMIT, "server_params.args");
    g_string_free(many, true);
}

static void
test_environment(void)
{
    const char *const base[] = {"SECRET=1",          "PATH=/bin", "HOME=/h",      "SHELL=() { x",
                                "XDG_RUNTIME_DIR=1", "TZ=UTC",    "LANG=C.UTF-8", NULL};
    char *const own[] = {"HOME=/other", "TOKEN=t", NULL};
    const char *const expected[] = {"PATH=/bin",   "LANG=C.UTF-8", "TZ=UTC",
                                    "HOME=/other", "TOKEN=t",      NULL};
    g_auto(GStrv) env = ipb_server_env_make(base, own);
    g_assert_cmpstrv(env, expected);
    g_auto(GStrv) none = ipb_server_env_make(NULL, NULL);
    g_assert_cmpstr(none[0], ==, "PATH=/usr/local/bin:/usr/bin:/bin");
    g_assert_null(none[1]);

    g_autofree char *npx = ipb_server_env_hint("/opt/npx");
    g_assert_nonnull(strstr(npx, "Node.js"));
    g_autofree char *spaces = ipb_server_env_hint("npx -y server");
    g_assert_nonnull(strstr(spaces, "\"args\""));
    g_assert_null(ipb_server_env_hint("my-server"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/mcp/server-params/stdio", test_stdio);
    g_test_add_func("/mcp/server-params/timeout", test_timeout);
    g_test_add_func("/mcp/server-params/limits", test_limits);
    g_test_add_func("/mcp/server-params/sandbox", test_sandbox);
    g_test_add_func("/mcp/server-params/http", test_http);
    g_test_add_func("/mcp/server-params/refused", test_refused);
    g_test_add_func("/mcp/server-params/canonical", test_canonical);
    g_test_add_func("/mcp/server-params/expand", test_expand);
    g_test_add_func("/mcp/server-params/expand-errors", test_expand_errors);
    g_test_add_func("/mcp/server-params/environment", test_environment);
    return g_test_run();
}
