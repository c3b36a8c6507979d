/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP client and its server's process: start, noise, death, limits, shutdown, and a client that
 * is freed at any moment. The server is the script "hostile" of tests/scripted_server.
 */
#include "mcp-fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "sanitizer.h"

/* What test_noise makes a server write: the modes "banner" and "stderr" when it starts, then two
 * tools. */
#define NOISE_LINES (3 + (30000 + 5) + (5 * 10000 + 2) + 5000)

/* The lines of a log: those of a server that were passed on, and how many were left out. */
static void
count_lines(const char *log, unsigned *n_passed, unsigned *n_left_out)
{
    *n_passed = *n_left_out = 0;
    g_auto(GStrv) lines = g_strsplit(log, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        unsigned count = 0;
        if (strstr(*line, " lines were left out: too many at once") == NULL)
            *n_passed += **line != '\0';
        else if (sscanf(*line, "warning: %u ", &count) == 1)
            *n_left_out += count;
    }
}

static void
test_noise(void)
{
    int64_t start = g_get_monotonic_time();
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    start_fake_in(&fixture, "banner", "stderr");
    fixture_connect(&fixture);
    g_assert_contains(fixture.log->str,
                      "warning: not a message, on its standard output: Welcome to fake!\n");
    g_assert_contains(fixture.log->str, "warning: not a message, on its standard output: [1, 2]\n");

    g_auto(Answer) flood = {0};
    call_ok(&fixture, "stderr", "{\"megabytes\":5}", &flood);
    g_auto(Answer) garbage = {0};
    call_ok(&fixture, "garbage", "{\"lines\":5000}", &garbage);
    /* The log is limited: 100 lines for each second that the machine needs for them. It says how
     * many lines are missing. */
    unsigned n_passed = 0, n_left_out = 0;
    do {
        g_main_context_iteration(NULL, TRUE);
        count_lines(fixture.log->str, &n_passed, &n_left_out);
    } while (n_passed + n_left_out < NOISE_LINES);
    g_assert_cmpuint(n_passed + n_left_out, ==, NOISE_LINES);
    int64_t n_seconds = (g_get_monotonic_time() - start) / G_USEC_PER_SEC;
    g_assert_cmpuint(n_passed, <=, 100 * (unsigned) (n_seconds + 1));
    g_assert_cmpuint(n_left_out, >, 0);

    /* Repeated, for they may be left out, too. */
    while (strstr(fixture.log->str, "longlong") == NULL) {
        g_auto(Answer) clean = {0};
        call_ok(&fixture, "stderr", "{\"megabytes\":0}", &clean);
    }
    g_assert_contains(fixture.log->str, "stderr: \357\277\275green\n");
    g_assert_null(strchr(fixture.log->str, '\033'));
}

static void
test_too_much_noise(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) answer = {0};
    call(&fixture, "garbage", "{\"lines\":3000,\"size\":1000}", &answer);
    assert_answer_error(&answer, IPYBOX_ERROR_PROTOCOL, "more than 1 MiB on its standard output");
    wait_until_closed(&fixture);

    static const struct {
        const char *mode;
        int code;
        const char *message;
    } CASES[] = {
        {"endless-garbage", IPYBOX_ERROR_PROTOCOL, "more than 1 MiB"},
        {"long-line", IPYBOX_ERROR_LIMIT, "a message of more than 256 MiB, the maximum"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Fixture) other;
        fixture_set_up(&other);
        start_fake(&other, CASES[i].mode);
        g_auto(Answer) connected = {0};
        ipb_mcp_client_connect(other.client, on_answer, &connected);
        wait_for(&connected);
        assert_answer_error(&connected, CASES[i].code, CASES[i].message);
    }
}

static void
test_death(void)
{
    static const struct {
        const char *arguments, *message;
    } CASES[] = {
        {"{\"status\":3}", "MCP server fake has ended: exit status 3. The end of its standard "
                           "error:\n    line 11\n"},
        {"{\"signal\":9}", "killed by SIGKILL"},
        {"{\"signal\":11}", "killed by SIGSEGV"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Fixture) fixture;
        set_up_fake(&fixture, NULL);
        g_auto(Answer) other = {0};
        ipb_mcp_client_call_tool(fixture.client, "never", "{}", 2, NULL, on_answer, &other);
        g_auto(Answer) answer = {0};
        call(&fixture, "die", CASES[i].arguments, &answer);
        assert_answer_error(&answer, IPYBOX_ERROR_SERVER, CASES[i].message);
        assert_answer_error(&answer, IPYBOX_ERROR_SERVER, "    fatal: out of cheese");
        wait_until_closed(&fixture);
        g_assert_cmpuint(other.n_ended, ==, 1);
        g_assert_cmpstr(other.error->message, ==, answer.error->message);
        g_assert_cmpstr(fixture.closed->message, ==, answer.error->message);
        g_auto(Answer) later = {0};
        call(&fixture, "echo", "{}", &later);
        g_assert_cmpstr(later.error->message, ==, answer.error->message);
        close_and_wait(&fixture);
    }

    g_auto(Fixture) early;
    fixture_set_up(&early);
    start_fake(&early, "exit");
    g_auto(Answer) connected = {0};
    ipb_mcp_client_connect(early.client, on_answer, &connected);
    wait_for(&connected);
    assert_answer_error(&connected, IPYBOX_ERROR_SERVER, "exit status 4");
    assert_answer_error(&connected, IPYBOX_ERROR_SERVER, "    fake: no configuration found");

    g_auto(Fixture) late;
    set_up_fake(&late, NULL);
    g_auto(Answer) last = {0};
    call_ok(&late, "answer_and_die", "{}", &last);
    g_assert_cmpstr(answer_text(&last), ==, "last words");
    wait_until_closed(&late);
    g_assert_contains(late.closed->message, "exit status 0");
}

static size_t
peak_memory(void)
{
    g_autofree char *status = NULL;
    g_assert_true(g_file_get_contents("/proc/self/status", &status, NULL, NULL));
    const char *line = strstr(status, "VmHWM:");
    return strtoul(line + 6, NULL, 10) * 1024;
}

static void
test_big_answer(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    FILE *reset = fopen("/proc/self/clear_refs", "w"); /* the peak starts again */
    if (reset != NULL) {
        fputs("5", reset);
        fclose(reset);
    }
    size_t before = peak_memory();
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "big", "{\"megabytes\":100}", &answer);
    const IpbJson *text =
        ipb_json_get(ipb_json_first(ipb_json_get(answer.result, "content")), "text");
    g_assert_cmpuint(ipb_json_raw(text).size, ==, 100000002);
    g_test_message("100 MB took %zu MB", (peak_memory() - before) / 1000000);
    /* In memory are the line, the document's text and its decoded strings. MALLOC_PERTURB_ also
     * touches spare room. */
    size_t most = g_getenv("MALLOC_PERTURB_") != NULL ? 550000000 : 350000000;
    if (!HAS_ADDRESS_SANITIZER)
        g_assert_cmpuint(peak_memory() - before, <, most);

    g_auto(Answer) too_big = {0};
    call(&fixture, "big", "{\"megabytes\":300}", &too_big);
    assert_answer_error(&too_big, IPYBOX_ERROR_LIMIT, "more than 256 MiB");
    wait_until_closed(&fixture);
}

static void
test_environment(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture.cwd = "/usr";
    g_setenv("IPYBOX_TEST_SECRET", "1", true);
    start_fake(&fixture, NULL);
    fixture_connect(&fixture);
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "environment", "{}", &answer);
    const IpbJson *content = ipb_json_get(answer.result, "structuredContent");
    const IpbJson *env = ipb_json_get(content, "env");
    g_assert_cmpstr(ipb_json_get_string(content, "cwd"), ==, "/usr");
    g_assert_cmpstr(ipb_json_get_string(env, "OWN"), ==, "value");
    g_assert_cmpstr(ipb_json_get_string(env, "PATH"), ==, g_getenv("PATH"));
    g_assert_null(ipb_json_get(env, "IPYBOX_TEST_SECRET"));
    g_assert_null(ipb_json_get(env, "MALLOC_PERTURB_"));
}

static void
test_not_started(void)
{
    static const struct {
        const char *command, *cwd;
        int code;
        const char *message;
    } CASES[] = {
        {"no-such-mcp-server", NULL, IPYBOX_ERROR_NOT_FOUND,
         "MCP server fake cannot be started: no such command: no-such-mcp-server (looked up in "
         "PATH="},
        {"/nowhere/npx", NULL, IPYBOX_ERROR_NOT_FOUND, "install Node.js"},
        {"true", "/nowhere", IPYBOX_ERROR_SYSTEM, "cannot enter the directory /nowhere"},
        {"true", NULL, IPYBOX_ERROR_SERVER, "MCP server fake has ended: exit status 0"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        fixture.cwd = CASES[i].cwd;
        fixture_start(&fixture, CASES[i].command, (const char *const[]){NULL});
        g_auto(Answer) early = {0};
        call(&fixture, "echo", "{}", &early);
        assert_answer_error(&early, IPYBOX_ERROR_INVALID, "not connected");
        g_auto(Answer) answer = {0};
        ipb_mcp_client_connect(fixture.client, on_answer, &answer);
        g_assert_cmpuint(answer.n_ended, ==, 0);
        wait_for(&answer);
        assert_answer_error(&answer, CASES[i].code, CASES[i].message);
        g_auto(Answer) again = {0};
        ipb_mcp_client_connect(fixture.client, on_answer, &again);
        wait_for(&again);
        assert_answer_error(&again, CASES[i].code, CASES[i].message);
        g_auto(Answer) later = {0};
        list_tools(&fixture, &later);
        assert_answer_error(&later, CASES[i].code, CASES[i].message);
        close_and_wait(&fixture);
    }
}

static void
test_http(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    IpbServerParams params = {.kind = IPB_SERVER_SSE, .url = (char *) "http://nowhere.invalid/sse"};
    IpbMcpClientOptions options = {.name = "web", .params = &params};
    fixture.client = ipb_mcp_client_new(fixture.loop, &options, NULL, NULL);
    g_auto(Answer) answer = {0};
    ipb_mcp_client_connect(fixture.client, on_answer, &answer);
    wait_for(&answer);
    assert_answer_error(
        &answer, IPYBOX_ERROR_NOT_FOUND,
        "MCP server web: http://nowhere.invalid: the name of the host is not known");
}

/* One server does not answer initialize, the other one does not answer tools/list, at the same
 * time. False: they did not start within the limit. */
static bool
try_timeouts(unsigned timeout_ms)
{
    g_auto(Fixture) silent;
    fixture_set_up(&silent);
    silent.connect_timeout_ms = timeout_ms;
    start_fake(&silent, "silent");
    g_auto(Answer) connected = {0};
    ipb_mcp_client_connect(silent.client, on_answer, &connected);
    g_auto(Fixture) list_only;
    fixture_set_up(&list_only);
    list_only.connect_timeout_ms = timeout_ms;
    start_fake(&list_only, "silent-list");
    g_auto(Answer) started = {0};
    ipb_mcp_client_connect(list_only.client, on_answer, &started);
    wait_for(&started);
    wait_for(&connected);
    g_autofree char *message = g_strdup_printf(
        "MCP server fake: it did not answer initialize within %g s (\"limits.connect_timeout\" in "
        "its server_params sets this limit)",
        timeout_ms / 1000.0);
    assert_answer_error(&connected, IPYBOX_ERROR_TIMEOUT, message);
    if (started.error != NULL) {
        assert_answer_error(&started, IPYBOX_ERROR_TIMEOUT, message);
        return false;
    }
    g_auto(Answer) tools = {0};
    list_tools(&list_only, &tools);
    assert_answer_error(&tools, IPYBOX_ERROR_TIMEOUT, "tools/list: no answer");
    return g_str_has_suffix(connected.error->message,
                            ". The end of its standard error:\n    waiting for the moon");
}

static void
test_timeouts(void)
{
    unsigned timeout_ms = 1000;
    while (!try_timeouts(timeout_ms))
        timeout_ms *= 2;
}

/* If a server does not read, the queue is limited and calls can be cancelled. */
static void
test_slow_reader(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) stopped = {0};
    call_ok(&fixture, "stop_reading", "{}", &stopped);
    size_t size = 40 * 1024 * 1024;
    g_autofree char *big = g_strnfill(size, 'x');
    memcpy(big, "{\"x\":\"", 6);
    memcpy(big + size - 2, "\"}", 2);
    g_auto(Answer) first = {0}, second = {0};
    int64_t id =
        ipb_mcp_client_call_tool(fixture.client, "echo", big, size, NULL, on_answer, &first);
    ipb_mcp_client_call_tool(fixture.client, "echo", big, size, NULL, on_answer, &second);
    wait_for(&second);
    assert_answer_error(&second, IPYBOX_ERROR_LIMIT, "does not read fast enough");
    g_assert_cmpuint(first.n_ended, ==, 0);
    ipb_mcp_client_cancel(fixture.client, id);
    wait_for(&first);
    assert_answer_error(&first, IPYBOX_ERROR_CANCELLED, "cancelled");

    /* Our answers to its requests are limited, too. */
    g_auto(Fixture) other;
    set_up_fake(&other, NULL);
    g_auto(Answer) flood = {0};
    call(&other, "ping_flood", "{}", &flood);
    assert_answer_error(&flood, IPYBOX_ERROR_LIMIT,
                        "does not read: more than 64 MiB wait to be sent");
}

static void
test_closed_pipes(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    g_auto(Answer) answer = {0};
    call(&fixture, "close_stdout", "{}", &answer);
    assert_answer_error(&answer, IPYBOX_ERROR_SERVER, "closed its standard output");

    g_auto(Fixture) other;
    set_up_fake(&other, NULL);
    g_auto(Answer) closed = {0}, unheard = {0};
    call_ok(&other, "close_stdin", "{}", &closed);
    call(&other, "echo", "{}", &unheard);
    assert_answer_error(&unheard, IPYBOX_ERROR_SERVER, "closed its standard input");
    wait_until_closed(&other);
}

static void
assert_gone(int64_t pid)
{
    ipb_autofd pidfd = ipb_pidfd_open((pid_t) pid);
    if (pidfd < 0)
        return;
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
    g_assert_cmpint(poll(&poll_fd, 1, 10000), ==, 1);
}

static void
on_done(void *data)
{
    ++*(int *) data;
}

/* Each step of the shutdown, for three servers at a time. */
static void
test_ladder(void)
{
    static const char *const MODES[][2] = {
        {"polite", NULL}, {"ignore-eof", NULL}, {"ignore-eof", "ignore-sigterm"}};
    Fixture fixtures[G_N_ELEMENTS(MODES)];
    int64_t pids[G_N_ELEMENTS(MODES)][2];
    int n_done = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(MODES); i++) {
        fixture_set_up(&fixtures[i]);
        start_fake_in(&fixtures[i], MODES[i][0], MODES[i][1]);
        fixture_connect(&fixtures[i]);
        g_auto(Answer) own = {0}, grandchild = {0};
        call_ok(&fixtures[i], "pid", "{}", &own);
        call_ok(&fixtures[i], "spawn", "{}", &grandchild);
        pids[i][0] = g_ascii_strtoll(answer_text(&own), NULL, 10);
        pids[i][1] = g_ascii_strtoll(answer_text(&grandchild), NULL, 10);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(MODES); i++) {
        ipb_mcp_client_close(fixtures[i].client, on_done, &n_done);
        ipb_mcp_client_close(fixtures[i].client, on_done, &n_done);
    }
    while (n_done < 2 * (int) G_N_ELEMENTS(MODES))
        g_main_context_iteration(NULL, TRUE);
    for (size_t i = G_N_ELEMENTS(MODES); i-- > 0;) {
        assert_gone(pids[i][0]);
        assert_gone(pids[i][1]);
        fixture_tear_down(&fixtures[i]);
    }
}

static void
test_close_while_connecting(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    start_fake(&fixture, "silent");
    g_auto(Answer) connected = {0};
    ipb_mcp_client_connect(fixture.client, on_answer, &connected);
    close_and_wait(&fixture);
    assert_answer_error(&connected, IPYBOX_ERROR_CANCELLED, "was closed");

    g_auto(Fixture) unused;
    fixture_set_up(&unused);
    start_fake(&unused, NULL);
    close_and_wait(&unused);
}

static void
test_close_with_calls(void)
{
    g_auto(Fixture) fixture;
    set_up_fake(&fixture, NULL);
    Answer calls[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 3; i++)
        ipb_mcp_client_call_tool(fixture.client, "never", "{}", 2, NULL, on_answer, &calls[i]);
    close_and_wait(&fixture);
    for (int i = 0; i < 3; i++)
        assert_answer_error(&calls[i], IPYBOX_ERROR_CANCELLED, "was closed");
    for (int i = 0; i < 3; i++)
        answer_clear(&calls[i]);
    g_auto(Answer) later = {0};
    call(&fixture, "echo", "{}", &later);
    assert_answer_error(&later, IPYBOX_ERROR_CANCELLED, "was closed");
    g_assert_cmpuint(fixture.n_closed, ==, 0);
}

static void
test_free_at_once(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    start_fake(&fixture, NULL);
    g_auto(Answer) connected = {0};
    ipb_mcp_client_connect(fixture.client, on_answer, &connected);
    ipb_mcp_client_free(g_steal_pointer(&fixture.client));
    assert_answer_error(&connected, IPYBOX_ERROR_CANCELLED, "was closed");

    start_fake(&fixture, "ignore-eof");
    fixture_connect(&fixture);
    g_auto(Answer) pid = {0}, never = {0}, refused = {0};
    call_ok(&fixture, "pid", "{}", &pid);
    ipb_mcp_client_call_tool(fixture.client, "never", "{}", 2, NULL, on_answer, &never);
    ipb_mcp_client_call_tool(fixture.client, "never", "[]", 2, NULL, on_answer, &refused);
    ipb_mcp_client_close(fixture.client, NULL, NULL);
    ipb_mcp_client_free(g_steal_pointer(&fixture.client));
    assert_answer_error(&never, IPYBOX_ERROR_CANCELLED, "was closed");
    g_assert_cmpuint(refused.n_ended, ==, 1);
    assert_gone(g_ascii_strtoll(answer_text(&pid), NULL, 10));
}

/* The client is freed in the callback of an answer, of a later error, of a death, of a cancelled
 * call. */
static void
test_free_in_callback(void)
{
    static const struct {
        const char *tool, *arguments;
        bool cancels;
        int code; /* -1: a result */
    } CASES[] = {
        {"echo", "{}", false, -1},
        {"echo", "[]", false, IPYBOX_ERROR_INVALID},
        {"error", "{}", false, IPYBOX_ERROR_SERVER},
        {"die", "{}", false, IPYBOX_ERROR_SERVER},
        {"answer_and_die", "{}", false, -1},
        {"never", "{}", true, IPYBOX_ERROR_CANCELLED},
        {"never", "{}", false, IPYBOX_ERROR_TIMEOUT},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        if (CASES[i].code == IPYBOX_ERROR_TIMEOUT)
            fixture.call_timeout_ms = 100;
        start_fake(&fixture, NULL);
        fixture_connect(&fixture);
        g_auto(Answer) answer = {.free_client = fixture.client}, other = {0};
        int64_t id = ipb_mcp_client_call_tool(fixture.client, CASES[i].tool, CASES[i].arguments,
                                              strlen(CASES[i].arguments), NULL, on_answer, &answer);
        ipb_mcp_client_call_tool(fixture.client, "never", "{}", 2, NULL, on_answer, &other);
        if (CASES[i].cancels)
            ipb_mcp_client_cancel(fixture.client, id);
        fixture.client = NULL;
        wait_for(&answer);
        if (CASES[i].code >= 0)
            g_assert_error(answer.error, IPYBOX_ERROR, CASES[i].code);
        else
            g_assert_no_error(answer.error);
        g_assert_cmpuint(other.n_ended, ==, 1);
    }
}

static void
free_on_closed(const GError *why, void *data)
{
    ipb_mcp_client_free(g_steal_pointer((IpbMcpClient **) data));
}

static void
free_on_log(const char *level, const char *text, void *data)
{
    ipb_mcp_client_free(g_steal_pointer((IpbMcpClient **) data));
}

static void
free_on_changed(void *data)
{
    ipb_mcp_client_free(g_steal_pointer((IpbMcpClient **) data));
}

static void
test_free_in_events(void)
{
    static const struct {
        IpbMcpClientFuncs funcs;
        const char *tool, *arguments;
    } CASES[] = {
        {{.on_closed = free_on_closed}, "die", "{}"},
        {{.on_log = free_on_log}, "stderr", "{\"megabytes\":1}"},
        {{.on_log = free_on_log}, "log", "{}"},
        {{.on_log = free_on_log}, "garbage", "{\"lines\":5}"},
        {{.on_log = free_on_log}, "die", "{}"},
        {{.on_tools_changed = free_on_changed}, "changed", "{}"},
    };
    char *args[] = {(char *) "-I", (char *) "-S", (char *) find_scripted_server(),
                    (char *) "hostile", NULL};
    IpbServerParams params = {.command = (char *) find_python(), .args = args};
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_auto(Fixture) fixture;
        fixture_set_up(&fixture);
        IpbMcpClientOptions options = {.name = "fake", .params = &params};
        IpbMcpClient *client = ipb_mcp_client_new(fixture.loop, &options, &CASES[i].funcs, &client);
        g_auto(Answer) connected = {0}, answer = {0};
        ipb_mcp_client_connect(client, on_answer, &connected);
        wait_for(&connected);
        ipb_mcp_client_call_tool(client, CASES[i].tool, CASES[i].arguments,
                                 strlen(CASES[i].arguments), NULL, on_answer, &answer);
        while (client != NULL)
            g_main_context_iteration(NULL, TRUE);
        g_assert_cmpuint(answer.n_ended, ==, 1);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/mcp/life/noise", test_noise);
    add_test("/mcp/life/too-much-noise", test_too_much_noise);
    add_test("/mcp/life/death", test_death);
    add_test("/mcp/life/big-answer", test_big_answer);
    add_test("/mcp/life/environment", test_environment);
    add_test("/mcp/life/not-started", test_not_started);
    add_test("/mcp/life/http", test_http);
    add_test("/mcp/life/timeouts", test_timeouts);
    add_test("/mcp/life/slow-reader", test_slow_reader);
    add_test("/mcp/life/closed-pipes", test_closed_pipes);
    add_test("/mcp/life/ladder", test_ladder);
    add_test("/mcp/life/close-while-connecting", test_close_while_connecting);
    add_test("/mcp/life/close-with-calls", test_close_with_calls);
    add_test("/mcp/life/free-at-once", test_free_at_once);
    add_test("/mcp/life/free-in-callback", test_free_in_callback);
    add_test("/mcp/life/free-in-events", test_free_in_events);
    return g_test_run();
}
