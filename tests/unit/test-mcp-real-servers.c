/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP client with servers that others wrote, from npm and PyPI, as scripts/test-setup installs
 * them below $IPYBOX_TEST_CACHE. If they are missing, the test is skipped.
 */
#include "mcp-fixture.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"

static bool
find_server(const char *path, char **ret_path)
{
    g_autofree char *full = g_build_filename(g_getenv("IPYBOX_TEST_CACHE"), path, NULL);
    if (access(full, R_OK) == 0) {
        *ret_path = g_steal_pointer(&full);
        return true;
    }
    g_autofree char *text = g_strdup_printf("%s is missing: scripts/test-setup makes it", full);
    g_test_skip(text);
    return false;
}

/* An npm server with one argument, run by the Node.js of the tests. */
static bool
start_node(Fixture *fixture, const char *name, const char *argument)
{
    g_autofree char *node = NULL, *script = NULL;
    g_autofree char *path =
        g_strdup_printf("node/node_modules/@modelcontextprotocol/%s/dist/index.js", name);
    if (!find_server("node/bin/node", &node) || !find_server(path, &script))
        return false;
    fixture_start(fixture, node, (const char *const[]){script, argument, NULL});
    fixture_connect(fixture);
    return true;
}

static bool
has_tool(const Answer *tools, const char *name)
{
    IPB_JSON_FOREACH (tool, ipb_json_get(tools->result, "tools"))
        if (g_strcmp0(ipb_json_get_string(tool, "name"), name) == 0)
            return true;
    return false;
}

static void
test_everything(void)
{
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    if (!start_node(&fixture, "server-everything", "stdio"))
        return;
    g_auto(Answer) tools = {0};
    list_tools(&fixture, &tools);
    g_assert_no_error(tools.error);
    g_assert_true(has_tool(&tools, "echo"));

    g_auto(Answer) echo = {0};
    call_ok(&fixture, "echo", "{\"message\":\"grüße \\ud83d\\ude00\"}", &echo);
    g_assert_contains(answer_text(&echo), "grüße 😀");

    g_auto(Answer) bad = {0};
    call_ok(&fixture, "echo", "{\"message\":5}", &bad);
    g_assert_true(ipb_json_get_bool(bad.result, "isError", false));

    g_auto(Answer) image = {0};
    call_ok(&fixture, "get-tiny-image", "{}", &image);
    bool has_image = false;
    IPB_JSON_FOREACH (item, ipb_json_get(image.result, "content"))
        has_image |= g_strcmp0(ipb_json_get_string(item, "type"), "image") == 0;
    g_assert_true(has_image);

    g_auto(Answer) structured = {0};
    call_ok(&fixture, "get-structured-content", "{\"location\":\"Chicago\"}", &structured);
    g_assert_true(
        ipb_json_is(ipb_json_get(structured.result, "structuredContent"), IPB_JSON_OBJECT));

    g_auto(Answer) slow = {0};
    call_ok(&fixture, "trigger-long-running-operation", "{\"duration\":0.4,\"steps\":4}", &slow);
    g_assert_contains(slow.progress->str, "4/4");

    g_auto(Answer) cancelled = {0};
    const char *forever = "{\"duration\":1000,\"steps\":10}";
    int64_t id = ipb_mcp_client_call_tool(fixture.client, "trigger-long-running-operation", forever,
                                          strlen(forever), NULL, on_answer, &cancelled);
    ipb_mcp_client_cancel(fixture.client, id);
    wait_for(&cancelled);
    assert_answer_error(&cancelled, IPYBOX_ERROR_CANCELLED, "was cancelled");
    close_and_wait(&fixture);
    g_assert_cmpuint(fixture.n_closed, ==, 0);
}

static void
test_filesystem(void)
{
    g_autofree char *directory = g_dir_make_tmp("ipb-XXXXXX", NULL);
    g_autofree char *file = g_build_filename(directory, "a.txt", NULL);
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    if (start_node(&fixture, "server-filesystem", directory)) {
        g_autofree char *arguments =
            g_strdup_printf("{\"path\":\"%s\",\"content\":\"line\\n\"}", file);
        g_auto(Answer) written = {0};
        call_ok(&fixture, "write_file", arguments, &written);
        g_assert_false(ipb_json_get_bool(written.result, "isError", false));
        g_autofree char *text = NULL;
        g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, "line\n");

        g_auto(Answer) outside = {0};
        call_ok(&fixture, "read_text_file", "{\"path\":\"/etc/passwd\"}", &outside);
        g_assert_true(ipb_json_get_bool(outside.result, "isError", false));
        close_and_wait(&fixture);
    }
    unlink(file);
    rmdir(directory);
}

static void
test_time(void)
{
    g_autofree char *command = NULL;
    if (!find_server("mcp2/bin/mcp-server-time", &command))
        return;
    g_auto(Fixture) fixture;
    fixture_set_up(&fixture);
    fixture_start(&fixture, command, (const char *const[]){"--local-timezone", "UTC", NULL});
    fixture_connect(&fixture);
    g_auto(Answer) answer = {0};
    call_ok(&fixture, "convert_time",
            "{\"source_timezone\":\"UTC\",\"time\":\"12:00\",\"target_timezone\":\"Asia/Tokyo\"}",
            &answer);
    g_assert_contains(answer_text(&answer), "21:00:00+09:00");
    g_auto(Answer) unknown = {0};
    call(&fixture, "no-such-tool", "{}", &unknown);
    if (unknown.error == NULL)
        g_assert_true(ipb_json_get_bool(unknown.result, "isError", false));
    close_and_wait(&fixture);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/mcp/real/everything", test_everything);
    add_test("/mcp/real/filesystem", test_filesystem);
    add_test("/mcp/real/time", test_time);
    return g_test_run();
}
