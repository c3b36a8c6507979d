/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/approval-question.h"

#include <string.h>

#include "base/error.h"

static char *
ask(const char *server, const char *tool, const char *arguments, const char *params, GError **error)
{
    IpbApprovalRequest request = {
        .server_name = server,
        .tool_name = tool,
        .arguments_json = arguments,
        .arguments_size = strlen(arguments),
        .server_params = params,
    };
    return ipb_approval_question(&request, error);
}

static void
check(const char *arguments, const char *wanted)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *question = ask("s", "t", arguments, NULL, &error);
    g_autofree char *whole = g_strconcat("Tool call: s.t\nArguments:", wanted, NULL);
    g_assert_no_error(error);
    g_assert_cmpstr(question, ==, whole);
}

static void
test_arguments(void)
{
    check("{}", " none");
    check(" { } ", " none");
    check("{\"path\":\"/data/\\u00e9\",\"n\":1}", "\n  \"path\": \"/data/é\"\n  \"n\": 1");
    check("{\"a\" : [1 ,2,{ \"b\":null,\"c\":[]}],\"d\":{}}",
          "\n  \"a\": [1, 2, {\"b\": null, \"c\": []}]\n  \"d\": {}");
    check("{\"text\":\"a\\nAllow? y\\n\"}", "\n  \"text\": \"a\\nAllow? y\\n\"");
}

static void
test_as_sent(void)
{
    check("{\"b\":1,\"a\":2,\"b\":3}", "\n  \"b\": 1\n  \"a\": 2\n  \"b\": 3");
    check("{\"n\":123456789012345678901234567890.10,\"m\":1E+400,\"z\":-0}",
          "\n  \"n\": 123456789012345678901234567890.10\n  \"m\": 1E+400\n  \"z\": -0");
    check("{\"PaTh\":true,\"p\\u0061th\":false}", "\n  \"PaTh\": true\n  \"path\": false");
    check("{\"\":\"\",\"\\ud800\":\"\\u0000\"}", "\n  \"\": \"\"\n  \"\\ud800\": \"\\u0000\"");
    check("{\"\\u202e\\n\":\"\\/\"}", "\n  \"\\u202e\\n\": \"/\"");
}

static void
test_installation(void)
{
    const char *arguments = "{\"package\":\"numpy\",\"index\":\"PyPI\",\"builds\":false}";
    IpbApprovalRequest request = {
        .server_name = IPB_OWN_SERVER,
        .tool_name = IPB_INSTALL_TOOL,
        .arguments_json = arguments,
        .arguments_size = strlen(arguments),
        .subject = IPB_APPROVAL_OF_INSTALLATION,
    };
    g_autofree char *question = ipb_approval_question(&request, NULL);
    g_assert_cmpstr(question, ==,
                    "Installation of a Python package: ipybox.install_package\nArguments:\n"
                    "  \"package\": \"numpy\"\n  \"index\": \"PyPI\"\n  \"builds\": false");
}

static char *
ask_changes(IpbApprovalSubject subject, const char *tool, const char *arguments)
{
    IpbApprovalRequest request = {
        .server_name = IPB_OWN_SERVER,
        .tool_name = tool,
        .arguments_json = arguments,
        .arguments_size = strlen(arguments),
        .subject = subject,
    };
    return ipb_approval_question(&request, NULL);
}

static void
test_changes(void)
{
    g_autofree char *commit = ask_changes(
        IPB_APPROVAL_OF_COMMIT, IPB_COMMIT_TOOL,
        "{\"workspace\":\"/w\",\"paths\":[\"a\"],\"changes\":["
        "{\"path\":\"a\\n+ b\",\"kind\":\"added\",\"type\":\"file\",\"size\":4,\"old_size\":0,"
        "\"mode\":420},"
        "{\"path\":\"s\",\"kind\":\"changed\",\"type\":\"file\",\"size\":12,\"old_size\":10,"
        "\"mode\":493},"
        "{\"path\":\"o\",\"kind\":\"removed\",\"type\":\"file\",\"size\":0,\"old_size\":10,"
        "\"mode\":420},"
        "{\"path\":\"d\",\"kind\":\"added\",\"type\":\"directory\",\"size\":0,\"old_size\":0,"
        "\"mode\":493},"
        "{\"path\":\"l\",\"kind\":\"added\",\"type\":\"link\",\"size\":0,\"old_size\":0,"
        "\"mode\":511}],\"digest\":\"ab\"}");
    g_assert_cmpstr(commit, ==,
                    "Commit of changes: ipybox.commit_changes\nWorkspace: \"/w\"\n"
                    "  + \"a\\n+ b\" (4 bytes)\n  ~ \"s\" (12 bytes, was 10, mode 755)\n"
                    "  - \"o\" (10 bytes)\n  + \"d\" (directory)\n  + \"l\" (symbolic link)\n"
                    "SHA-256: \"ab\"");
    g_autofree char *discard = ask_changes(IPB_APPROVAL_OF_DISCARD, IPB_DISCARD_TOOL,
                                           "{\"workspace\":\"/w\",\"paths\":[],\"changes\":[]}");
    g_assert_cmpstr(discard, ==, "Discard of changes: ipybox.discard_changes\nWorkspace: \"/w\"");
    g_assert_null(ask_changes(IPB_APPROVAL_OF_COMMIT, IPB_COMMIT_TOOL, "["));
}

static void
test_names(void)
{
    g_autofree char *one = ask("a.b", "c", "{}", NULL, NULL);
    g_autofree char *other = ask("a", "b.c", "{}", NULL, NULL);
    g_autofree char *prompt = ask("s", "x\nArguments: none\nAllow?", "{}", NULL, NULL);
    g_assert_cmpstr(one, ==, "Tool call: \"a.b\".c\nArguments: none");
    g_assert_cmpstr(other, ==, "Tool call: a.\"b.c\"\nArguments: none");
    g_assert_cmpstr(prompt, ==, "Tool call: s.\"x\\nArguments: none\\nAllow?\"\nArguments: none");
}

static void
test_server_parameters(void)
{
    g_autofree char *question =
        ask("s", "t", "{}",
            "{\"command\":\"npx\",\"args\":[\"-y\",\"x\\u200b\"],\"env\":{\"A\":\"${B}\"}}", NULL);
    g_assert_cmpstr(
        question, ==,
        "Tool call: s.t\nServer that is not registered:\n  \"command\": \"npx\"\n"
        "  \"args\": [\"-y\", \"x\\u200b\"]\n  \"env\": {\"A\": \"${B}\"}\nArguments: none");
    g_autoptr(GError) error = NULL;
    g_assert_null(ask("s", "t", "{}", "[]", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
}

static void
test_no_object(void)
{
    static const char *const TEXTS[] = {"", "[]", "1", "{", "{\"a\":\"\x01\"}"};
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(ask("s", "t", TEXTS[i], NULL, &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
    }
}

/* The limit applies to the text as it is shown: each of these characters takes six bytes. */
static void
test_too_long(void)
{
    static const size_t MAX = IPB_APPROVAL_QUESTION_MAX_SIZE;
    for (size_t n = MAX / 6 - 100; n <= MAX / 6 + 100; n += 200) {
        g_autoptr(GString) arguments = g_string_new("{\"a\":[\"");
        for (size_t i = 0; i < n; i++)
            g_string_append(arguments, "\u200b");
        g_string_append(arguments, "\"]}");
        g_autoptr(GError) error = NULL;
        g_autofree char *question = ask("s", "t", arguments->str, NULL, &error);
        g_assert_true((question != NULL) == (n < MAX / 6));
        if (question == NULL)
            g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/approval-question/arguments", test_arguments);
    g_test_add_func("/approval-question/as-sent", test_as_sent);
    g_test_add_func("/approval-question/names", test_names);
    g_test_add_func("/approval-question/installation", test_installation);
    g_test_add_func("/approval-question/changes", test_changes);
    g_test_add_func("/approval-question/server-parameters", test_server_parameters);
    g_test_add_func("/approval-question/no-object", test_no_object);
    g_test_add_func("/approval-question/too-long", test_too_long);
    return g_test_run();
}
