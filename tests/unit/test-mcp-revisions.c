/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP client with modern and legacy servers: how it finds out which kind a server is, whatever
 * the server does with its probe, and what differs with servers of revision 2026-07-28. The servers
 * are the scripts "modern" and "hostile" of tests/scripted_server.
 */
#include "mcp-fixture.h"

#include <string.h>

#include "base/error.h"

static void
connect_modern(Fixture *fixture, const char *mode, const char *other_mode)
{
    fixture_set_up(fixture);
    start_modern(fixture, mode, other_mode);
    fixture_connect(fixture);
}

/* The requests that the server got so far, as JSON. */
static void
assert_seen(Fixture *fixture, const char *methods)
{
    g_auto(Answer) answer = {0};
    call_ok(fixture, "seen", "{}", &answer);
    g_assert_cmpstr(answer_text(&answer), ==, methods);
}

static void
test_modern(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    start_modern(&fixture, NULL, NULL);
    g_auto(Answer) connected = {0};
    ipb_mcp_client_connect(fixture.client, on_answer, &connected);
    wait_for(&connected);
    g_assert_no_error(connected.error);
    g_assert_nonnull(ipb_json_get(connected.result, "supportedVersions"));
    assert_seen(&fixture, "[\"server/discover\", \"subscriptions/listen\", \"tools/call\"]");

    g_auto(Answer) request = {0};
    call_ok(&fixture, "request", "{\"a\":1}", &request);
    g_assert_contains(answer_text(&request), "\"arguments\": {\"a\": 1}");
    g_assert_contains(answer_text(&request),
                      "\"io.modelcontextprotocol/protocolVersion\": \"2026-07-28\"");
    g_assert_contains(answer_text(&request), "\"progressToken\": ");

    g_auto(Answer) tools = {0}; /* three pages; a request without its envelope would be an error */
    list_tools(&fixture, &tools);
    g_assert_no_error(tools.error);
    g_assert_cmpuint(ipb_json_length(ipb_json_get(tools.result, "tools")), >, 10);
    close_and_wait(&fixture);
}

/* Legacy servers, and what they do with the probe. */
static void
test_legacy(void)
{
    static const char *const MODES[] = {"probe=-32601", "probe=-32602",   "probe=-32600",
                                        "probe=-32000", "probe=7",        "probe-silent",
                                        "probe-exit",   "slow-probe-exit"};
    for (size_t i = 0; i < G_N_ELEMENTS(MODES); i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        fixture.limits.probe_timeout_ms = 500;
        start_fake(&fixture, MODES[i]);
        g_auto(Answer) connected = {0};
        ipb_mcp_client_connect(fixture.client, on_answer, &connected);
        wait_for(&connected);
        g_assert_no_error(connected.error);
        g_assert_cmpstr(ipb_json_get_string(connected.result, "protocolVersion"), ==, "2025-11-25");
        g_auto(Answer) answer = {0};
        call_ok(&fixture, "line", "{}", &answer);
        g_assert_null(strstr(answer_text(&answer), "io.modelcontextprotocol"));
        g_auto(Answer) cancelled = {0}; /* neither the probe nor anything else */
        call_ok(&fixture, "cancelled", "{}", &cancelled);
        g_assert_cmpstr(answer_text(&cancelled), ==, "[]");
        close_and_wait(&fixture);
        g_assert_cmpuint(fixture.n_closed, ==, 0);
    }
}

/* However long the probe takes, time is left for the handshake. */
static void
test_patient_probe(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture.limits = (IpbMcpLimits){.probe_timeout_ms = 60000, .connect_timeout_ms = 6000};
    start_fake(&fixture, "probe-silent");
    fixture_connect(&fixture);
    close_and_wait(&fixture);
}

/* Modern servers that are slow to be recognized, and servers of both kinds. */
static void
test_guesses(void)
{
    static const struct {
        const char *modes[3]; /* NULL at the end */
        const char *seen;
    } CASES[] = {
        /* The first probe comes too early, and the handshake is refused in one of two ways. */
        {{"slow", "quiet"},
         "[\"server/discover\", \"initialize\", \"server/discover\", \"tools/call\"]"},
        {{"slow", "unknown-initialize"},
         "[\"server/discover\", \"initialize\", \"server/discover\", \"subscriptions/listen\", "
         "\"tools/call\"]"},
        /* Servers of both kinds: modern if the probe is answered. */
        {{"dual", "quiet"}, "[\"server/discover\", \"tools/call\"]"},
        {{"dual", "slow"},
         "[\"server/discover\", \"initialize\", \"notifications/initialized\", \"tools/call\"]"},
        /* Refuses a revision once that it lists as supported, as the specification's own tests
         * do. */
        {{"fickle", "quiet"}, "[\"server/discover\", \"server/discover\", \"tools/call\"]"},
        /* A modern server with legacy revisions only, which it says in one of two ways. */
        {{"dual", "unsupported=2025-06-18,2025-03-26"},
         "[\"server/discover\", \"initialize\", \"notifications/initialized\", \"tools/call\"]"},
        {{"dual", "versions=2025-06-18"},
         "[\"server/discover\", \"initialize\", \"notifications/initialized\", \"tools/call\"]"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        bool is_slow = g_strv_contains(CASES[i].modes, "slow");
        fixture.limits.probe_timeout_ms = is_slow ? 1000 : 60000;
        start_modern(&fixture, CASES[i].modes[0], CASES[i].modes[1]);
        fixture_connect(&fixture);
        assert_seen(&fixture, CASES[i].seen);
    }
}

static void
test_no_way(void)
{
    static const struct {
        const char *mode;
        int code;
        const char *message;
    } CASES[] = {
        {"unsupported=2031-01-01,x", IPYBOX_ERROR_PROTOCOL,
         "it speaks the revisions [\"2031-01-01\", \"x\"] of MCP, ipybox 2024-11-05, "},
        {"versions=2031-01-01", IPYBOX_ERROR_PROTOCOL, "the revisions [\"2031-01-01\"] of MCP"},
        {"unsupported=2026-07-28", IPYBOX_ERROR_PROTOCOL, "the revisions [\"2026-07-28\"] of MCP"},
        {"code=-32021", IPYBOX_ERROR_SERVER, "something that ipybox does not offer: roots"},
        {"code=-32020", IPYBOX_ERROR_SERVER, "server/discover: no (code -32020"},
        {"strange-discover", IPYBOX_ERROR_PROTOCOL, "the resultType \"input_required\""},
        /* The server lists no revision, so the error of initialize is reported. */
        {"code=-32000", IPYBOX_ERROR_SERVER, "initialize: no handshake (code -32022"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        start_modern(&fixture, CASES[i].mode, NULL);
        g_auto(Answer) answer = {0};
        ipb_mcp_client_connect(fixture.client, on_answer, &answer);
        wait_for(&answer);
        assert_answer_error(&answer, CASES[i].code, CASES[i].message);
    }
}

static unsigned
count_parts(const char *text, const char *part)
{
    unsigned count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* A server that cannot start is started twice, and its last lines are reported once. */
static void
test_exit(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    start_fake(&fixture, "exit");
    g_auto(Answer) answer = {0};
    ipb_mcp_client_connect(fixture.client, on_answer, &answer);
    wait_for(&answer);
    assert_answer_error(&answer, IPYBOX_ERROR_SERVER, "has ended: exit status 4");
    g_assert_cmpuint(count_parts(answer.error->message, "no configuration found"), ==, 1);
    g_assert_cmpuint(count_parts(fixture.log->str, "no configuration found"), ==, 2);
    g_assert_contains(fixture.log->str, "debug: it exited when it was asked for server/discover");
}

/* The second connection knows what the first one found out. */
static void
test_legacy_servers(void)
{
    g_autoptr(IpbLegacyServers) legacy_servers = ipb_legacy_servers_new();
    for (unsigned i = 0; i < 2; i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        fixture.legacy_servers = legacy_servers;
        start_fake(&fixture, "probe-exit");
        fixture_connect(&fixture);
        g_assert_cmpuint(count_parts(fixture.log->str, "server/discover"), ==, i == 0 ? 1 : 0);
        close_and_wait(&fixture);
    }
}

/* A server was replaced by a modern one, so what is known about it is wrong. */
static void
test_stale_era(void)
{
    g_autoptr(IpbLegacyServers) legacy_servers = ipb_legacy_servers_new();
    for (unsigned i = 0; i < 2; i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        fixture.legacy_servers = legacy_servers;
        char *own[] = {(char *) "OWN=value", NULL};
        const char *args[] = {"-I", "-S", find_scripted_server(), "modern", "quiet", NULL};
        IpbServerParams params = {
            .command = (char *) find_python(), .args = (char **) args, .env = own};
        g_autofree char *key = ipb_legacy_servers_make_key(&params);
        if (i == 0)
            ipb_legacy_servers_set(legacy_servers, key, true);
        start_modern(&fixture, "quiet", NULL);
        fixture_connect(&fixture);
        assert_seen(&fixture, i == 0 ? "[\"initialize\", \"server/discover\", \"tools/call\"]"
                                     : "[\"server/discover\", \"tools/call\"]");
        g_assert_false(ipb_legacy_servers_has(legacy_servers, key));
    }
}

static void
test_results(void)
{
    g_auto(Fixture) fixture;
    connect_modern(&fixture, "quiet", NULL);
    g_auto(Answer) old = {0};
    call_ok(&fixture, "old", "{}", &old);
    g_assert_cmpstr(answer_text(&old), ==, "old");

    g_auto(Answer) strange = {0};
    call(&fixture, "strange", "{}", &strange);
    assert_answer_error(&strange, IPYBOX_ERROR_PROTOCOL,
                        "tool strange: its result has the resultType \"task\"");

    g_auto(Answer) capability = {0};
    call(&fixture, "capability", "{}", &capability);
    assert_answer_error(&capability, IPYBOX_ERROR_SERVER,
                        "the server needs something that ipybox does not offer: sampling (code "
                        "-32021): I need a model");
    /* Requests of a modern server are not answered, because it must not send any. */
    g_auto(Answer) ask = {0};
    call_ok(&fixture, "ask", "{}", &ask);
    g_auto(Answer) seen = {0};
    call_ok(&fixture, "seen", "{}", &seen);
    g_assert_null(strstr(answer_text(&seen), "answer"));
}

static void
test_rounds(void)
{
    g_auto(Fixture) fixture;
    connect_modern(&fixture, "quiet", NULL);
    g_auto(Answer) state = {0};
    call_ok(&fixture, "rounds", "{\"times\":3,\"big\":1180591620717411303424}", &state);
    g_assert_contains(answer_text(&state), "\"big\": 1180591620717411303424");
    g_assert_contains(answer_text(&state), "\"requestState\": \"n\\u00e4kki 3\"");
    g_assert_null(strstr(answer_text(&state), "inputResponses"));

    g_auto(Answer) stateless = {0};
    call_ok(&fixture, "stateless", "{}", &stateless);
    g_assert_contains(answer_text(&stateless), "\"inputResponses\": {}");
    g_assert_null(strstr(answer_text(&stateless), "requestState"));

    g_auto(Answer) nothing = {0};
    call(&fixture, "nothing", "{}", &nothing);
    assert_answer_error(&nothing, IPYBOX_ERROR_PROTOCOL, "asks for nothing");

    g_auto(Answer) elicit = {0};
    call(&fixture, "elicit", "{}", &elicit);
    assert_answer_error(&elicit, IPYBOX_ERROR_UNAVAILABLE,
                        "tool elicit: it asks for elicitation/create before it continues, which "
                        "ipybox does not offer: Your name?");
    g_assert_null(strchr(elicit.error->message, '\033'));
}

static void
test_endless_rounds(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture.limits.rounds = 4;
    start_modern(&fixture, "quiet", NULL);
    fixture_connect(&fixture);
    g_auto(Answer) endless = {0};
    call(&fixture, "rounds", "{\"times\":1000000}", &endless);
    assert_answer_error(&endless, IPYBOX_ERROR_LIMIT, "\"limits.rounds\" in its server_params");
}

static void
test_cancellation(void)
{
    g_auto(Fixture) fixture;
    connect_modern(&fixture, "quiet", NULL);
    g_auto(Answer) never = {0};
    int64_t id =
        ipb_mcp_client_call_tool(fixture.client, "never", "{}", 2, NULL, on_answer, &never);
    ipb_mcp_client_cancel(fixture.client, id);
    wait_for(&never);
    assert_answer_error(&never, IPYBOX_ERROR_CANCELLED, "was cancelled");
    g_auto(Answer) cancelled = {0};
    call_ok(&fixture, "cancelled", "{}", &cancelled);
    g_assert_cmpstr(answer_text(&cancelled), ==, "[2]"); /* after the probe */
}

/* Progress extends a call, but not forever. */
static void
test_duration(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture.limits.call_duration_ms = 3000;
    start_modern(&fixture, "quiet", NULL);
    fixture_connect(&fixture);
    g_auto(Answer) answer = {0};
    call(&fixture, "progress", "{}", &answer);
    assert_answer_error(&answer, IPYBOX_ERROR_TIMEOUT,
                        "no answer within 3 s, in spite of its progress (\"limits.call_duration\"");
    g_assert_cmpstr(answer.progress->str, ==, "0/3 é\n1/3 é\n2/3 é\n");
    g_auto(Answer) cancelled = {0};
    call_ok(&fixture, "cancelled", "{}", &cancelled);
    g_assert_cmpstr(answer_text(&cancelled), ==, "[2]");
}

static void
test_log(void)
{
    g_auto(Fixture) fixture;
    connect_modern(&fixture, "quiet", NULL);
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "log", "{}", &answer);
    g_assert_contains(fixture.log->str, "warning: asked for info\n");
}

static void
wait_for_change(Fixture *fixture)
{
    while (fixture->n_changed == 0)
        g_main_context_iteration(NULL, TRUE);
}

static void
test_subscription(void)
{
    g_auto(Fixture) fixture;
    connect_modern(&fixture, NULL, NULL);
    g_auto(Answer) wrong = {0};
    call_ok(&fixture, "change_wrongly", "{}", &wrong);
    g_auto(Answer) change = {0};
    call_ok(&fixture, "change", "{}", &change);
    g_assert_cmpstr(answer_text(&change), ==, "[2]");
    wait_for_change(&fixture);
    g_assert_cmpuint(fixture.n_changed, ==, 1); /* one report for both changes */
    close_and_wait(&fixture);
}

/* After the end of a subscription, notifications are ignored and calls continue. */
static void
test_subscription_end(void)
{
    static const char *const WAYS[] = {"{}", "{\"gracefully\":true}"};
    for (size_t i = 0; i < G_N_ELEMENTS(WAYS); i++) {
        g_auto(Fixture) fixture;
        connect_modern(&fixture, NULL, NULL);
        g_auto(Answer) end = {0};
        call_ok(&fixture, "hang_up", WAYS[i], &end);
        g_auto(Answer) echo = {0};
        call_ok(&fixture, "echo", "{}", &echo);
        g_auto(Answer) cancelled = {0};
        call_ok(&fixture, "cancelled", "{}", &cancelled);
        g_assert_cmpstr(answer_text(&cancelled), ==, "[]");
        close_and_wait(&fixture);
        g_assert_cmpuint(fixture.n_changed, ==, 0);
    }
}

/* Each page arrives in time, but there is no last one. */
static void
test_list_duration(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture.limits = (IpbMcpLimits){.pages = 100000, .list_duration_ms = 100};
    start_fake(&fixture, "endless");
    fixture_connect(&fixture);
    g_auto(Answer) tools = {0};
    list_tools(&fixture, &tools);
    assert_answer_error(&tools, IPYBOX_ERROR_TIMEOUT,
                        "no answer within 0.1 s over all its pages (\"limits.list_duration\" in "
                        "its server_params");
    g_auto(Answer) after = {0};
    call_ok(&fixture, "echo", "{}", &after);
}

static void
test_limits(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture.limits = (IpbMcpLimits){.pages = 2, .tools = 100, .depth = 20};
    start_modern(&fixture, "quiet", NULL);
    fixture_connect(&fixture);
    g_auto(Answer) pages = {0};
    list_tools(&fixture, &pages);
    assert_answer_error(&pages, IPYBOX_ERROR_LIMIT,
                        "has more than 2 pages (\"limits.pages\" in its server_params");
    g_auto(Answer) flat = {0};
    call_ok(&fixture, "deep", "{\"depth\":10}", &flat);
    g_auto(Answer) deep = {0};
    call(&fixture, "deep", "{\"depth\":30}", &deep);
    assert_answer_error(&deep, IPYBOX_ERROR_LIMIT, "\"limits.depth\" in its server_params");

    g_auto(Fixture) other;
    fixture_set_up(&other);
    other.limits = (IpbMcpLimits){.tools = 5, .message_size = 20000};
    start_modern(&other, "quiet", NULL);
    fixture_connect(&other);
    g_auto(Answer) tools = {0};
    list_tools(&other, &tools);
    assert_answer_error(&tools, IPYBOX_ERROR_LIMIT,
                        "has more than 5 tools (\"limits.tools\" in its server_params");
    g_autofree char *text = g_strnfill(30000, 'x');
    g_autofree char *arguments = g_strdup_printf("{\"a\":\"%s\"}", text);
    g_auto(Answer) large = {0};
    call(&other, "echo", arguments, &large);
    assert_answer_error(&large, IPYBOX_ERROR_LIMIT, "\"limits.message_size\" in its server_params");
}

/* The SDKs of both kinds. */
static void
test_real(void)
{
    g_autofree char *command =
        g_build_filename(g_getenv("IPYBOX_TEST_CACHE"), "mcp2/bin/mcp-server-time", NULL);
    if (!g_file_test(command, G_FILE_TEST_EXISTS)) {
        g_test_skip("mcp2/bin/mcp-server-time is missing: scripts/test-setup makes it");
        return;
    }
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture_start(&fixture, command, (const char *const[]){"--local-timezone", "UTC", NULL});
    g_auto(Answer) connected = {0};
    ipb_mcp_client_connect(fixture.client, on_answer, &connected);
    wait_for(&connected);
    g_assert_no_error(connected.error);
    g_assert_nonnull(ipb_json_get(connected.result, "supportedVersions"));
    g_auto(Answer) tools = {0};
    list_tools(&fixture, &tools);
    g_assert_no_error(tools.error);
    g_assert_cmpuint(ipb_json_length(ipb_json_get(tools.result, "tools")), ==, 2);
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "get_current_time", "{\"timezone\":\"UTC\"}", &answer);
    g_assert_contains(answer_text(&answer), "UTC");
    close_and_wait(&fixture);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/mcp/revisions/modern", test_modern);
    add_test("/mcp/revisions/legacy", test_legacy);
    add_test("/mcp/revisions/patient-probe", test_patient_probe);
    add_test("/mcp/revisions/guesses", test_guesses);
    add_test("/mcp/revisions/no-way", test_no_way);
    add_test("/mcp/revisions/exit", test_exit);
    add_test("/mcp/revisions/legacy-servers", test_legacy_servers);
    add_test("/mcp/revisions/stale-era", test_stale_era);
    add_test("/mcp/revisions/results", test_results);
    add_test("/mcp/revisions/rounds", test_rounds);
    add_test("/mcp/revisions/endless-rounds", test_endless_rounds);
    add_test("/mcp/revisions/cancellation", test_cancellation);
    add_test("/mcp/revisions/duration", test_duration);
    add_test("/mcp/revisions/log", test_log);
    add_test("/mcp/revisions/subscription", test_subscription);
    add_test("/mcp/revisions/subscription-end", test_subscription_end);
    add_test("/mcp/revisions/limits", test_limits);
    add_test("/mcp/revisions/list-duration", test_list_duration);
    add_test("/mcp/revisions/real", test_real);
    return g_test_run();
}
