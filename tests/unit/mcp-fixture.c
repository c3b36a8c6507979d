/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "mcp-fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static unsigned
count_fds(void)
{
    unsigned count = 0;
    g_autoptr(GDir) dir = g_dir_open("/proc/self/fd", 0, NULL);
    while (g_dir_read_name(dir) != NULL)
        count++;
    return count;
}

static void
run_test(const void *test)
{
    g_main_context_default(); /* has an fd of its own */
    unsigned before = count_fds();
    (*(void (*const *)(void)) test)();
    g_assert_cmpuint(count_fds(), ==, before);
}

void
add_test(const char *path, void (*test)(void))
{
    g_test_add_data_func_full(path, g_memdup2(&test, sizeof test), run_test, g_free);
}

static void
on_log(const char *level, const char *text, void *data)
{
    Fixture *fixture = data;
    g_assert_true(g_utf8_validate(text, -1, NULL));
    g_string_append_printf(fixture->log, "%s: %s\n", level, text);
}

static void
on_closed(const GError *why, void *data)
{
    Fixture *fixture = data;
    fixture->n_closed++;
    g_clear_error(&fixture->closed);
    fixture->closed = g_error_copy(why);
}

static void
on_tools_changed(void *data)
{
    ((Fixture *) data)->n_changed++;
}

void
fixture_set_up(Fixture *fixture)
{
    *fixture = (Fixture){
        .log = g_string_new(NULL),
        /* Servers are not asked again because they start slowly: tests compare what they saw. */
        .limits.probe_timeout_ms = PATIENT_PROBE_MS,
        .connect_timeout_ms = PATIENT_CONNECT_MS,
    };
    fixture->loop = ipb_loop_new(NULL, NULL);
    g_assert_nonnull(fixture->loop);
}

void
fixture_tear_down(Fixture *fixture)
{
    ipb_mcp_client_free(fixture->client);
    g_assert_cmpuint(fixture->n_closed, <=, 1);
    ipb_loop_unref(fixture->loop);
    g_string_free(fixture->log, true);
    g_clear_error(&fixture->closed);
}

void
fixture_start(Fixture *fixture, const char *command, const char *const *args)
{
    static const IpbMcpClientFuncs FUNCS = {on_closed, on_log, on_tools_changed};
    char *own[] = {(char *) "OWN=value", NULL};
    IpbServerParams params = {
        .kind = IPB_SERVER_STDIO,
        .command = (char *) command,
        .args = (char **) args,
        .env = own,
        .limits = fixture->limits,
    };
    IpbMcpClientOptions options = {
        .name = "fake",
        .params = &params,
        .cwd = fixture->cwd,
        .base_env = (const char *const *) environ,
        .connect_timeout_ms = fixture->connect_timeout_ms,
        .call_timeout_ms = fixture->call_timeout_ms,
        .legacy_servers = fixture->legacy_servers,
    };
    fixture->client = ipb_mcp_client_new(fixture->loop, &options, &FUNCS, fixture);
}

void
answer_clear(Answer *answer)
{
    ipb_json_doc_free(answer->document);
    g_clear_error(&answer->error);
    if (answer->progress != NULL)
        g_string_free(answer->progress, true);
    *answer = (Answer){0};
}

void
on_answer(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    Answer *answer = data;
    g_assert_true((result == NULL) != (error == NULL));
    answer->n_ended++;
    g_assert_cmpuint(answer->n_ended, ==, 1);
    answer->result = result;
    if (result != NULL)
        answer->document = g_steal_pointer(document);
    else
        answer->error = g_error_copy(error);
    ipb_mcp_client_free(answer->free_client);
}

void
on_answer_progress(const IpbMcpProgress *progress, void *data)
{
    Answer *answer = data;
    if (answer->progress == NULL)
        answer->progress = g_string_new(NULL);
    g_string_append_printf(answer->progress, "%g/%g %s\n", progress->progress, progress->total,
                           progress->message != NULL ? progress->message : "-");
}

void
wait_for(Answer *answer)
{
    while (answer->n_ended == 0)
        g_main_context_iteration(NULL, TRUE);
}

void
fixture_connect(Fixture *fixture)
{
    g_auto(Answer) answer = {0};
    ipb_mcp_client_connect(fixture->client, on_answer, &answer);
    g_assert_cmpuint(answer.n_ended, ==, 0);
    wait_for(&answer);
    g_assert_no_error(answer.error);
}

void
call(Fixture *fixture, const char *tool, const char *arguments, Answer *answer)
{
    ipb_mcp_client_call_tool(fixture->client, tool, arguments, strlen(arguments),
                             on_answer_progress, on_answer, answer);
    g_assert_cmpuint(answer->n_ended, ==, 0);
    wait_for(answer);
}

void
call_ok(Fixture *fixture, const char *tool, const char *arguments, Answer *answer)
{
    call(fixture, tool, arguments, answer);
    g_assert_no_error(answer->error);
}

const char *
answer_text(const Answer *answer)
{
    return ipb_json_get_string(ipb_json_first(ipb_json_get(answer->result, "content")), "text");
}

static void
on_done(void *data)
{
    *(bool *) data = true;
}

void
close_and_wait(Fixture *fixture)
{
    bool is_done = false;
    ipb_mcp_client_close(fixture->client, on_done, &is_done);
    g_assert_false(is_done);
    while (!is_done)
        g_main_context_iteration(NULL, TRUE);
}

/* The interpreter itself: a wrapper would be the process that we start. */
const char *
find_python(void)
{
    static char path[4096];
    if (*path == '\0') {
        FILE *output = popen("python3 -c 'import sys; print(sys.executable)'", "r");
        g_assert_nonnull(output);
        g_assert_nonnull(fgets(path, sizeof path, output));
        pclose(output);
        path[strcspn(path, "\n")] = '\0';
    }
    return path;
}

const char *
find_scripted_server(void)
{
    return g_test_get_filename(G_TEST_DIST, "..", "scripted_server", "scripted_server.py", NULL);
}

static void
start_script(Fixture *fixture, const char *script, const char *mode, const char *other_mode)
{
    const char *args[] = {"-I", "-S", find_scripted_server(), script, mode, other_mode, NULL};
    fixture_start(fixture, find_python(), args);
}

void
start_fake_in(Fixture *fixture, const char *mode, const char *other_mode)
{
    start_script(fixture, "hostile", mode, other_mode);
}

void
start_modern(Fixture *fixture, const char *mode, const char *other_mode)
{
    start_script(fixture, "modern", mode, other_mode);
}

void
start_fake(Fixture *fixture, const char *mode)
{
    start_fake_in(fixture, mode, NULL);
}

void
set_up_fake(Fixture *fixture, const char *mode)
{
    fixture_set_up(fixture);
    start_fake(fixture, mode);
    fixture_connect(fixture);
}

void
list_tools(Fixture *fixture, Answer *answer)
{
    ipb_mcp_client_list_tools(fixture->client, on_answer, answer);
    wait_for(answer);
}

void
assert_answer_error(const Answer *answer, int code, const char *part)
{
    g_assert_error(answer->error, IPYBOX_ERROR, code);
    g_assert_contains(answer->error->message, part);
}

void
wait_until_closed(Fixture *fixture)
{
    while (fixture->n_closed == 0)
        g_main_context_iteration(NULL, TRUE);
}
