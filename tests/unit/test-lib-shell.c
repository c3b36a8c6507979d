/* SPDX-License-Identifier: Apache-2.0
 *
 * Shell commands of cells, through the library: approvals of each, the ways that are refused, and
 * the directory that a kernel returns to.
 */
#include "lib-fixture.h"

#include <string.h>

#include <glib/gstdio.h>

/* Says no to what contains "no-no". */
static void
on_approval(IpyboxSession *session, IpyboxApproval *approval, gpointer data)
{
    GString *asked = data;
    const char *arguments = ipybox_approval_get_arguments(approval);
    g_string_append_printf(asked, "%s.%s%s\n", ipybox_approval_get_server(approval),
                           ipybox_approval_get_tool(approval), arguments);
    ipybox_approval_respond(approval, strstr(arguments, "no-no") == NULL);
}

typedef struct {
    Fixture base;
    GString *asked;
} ShellFixture;

static void
set_up(ShellFixture *fixture, bool requires_escape)
{
    fixture_set_up(&fixture->base, NULL);
    ipybox_session_free(fixture->base.session);
    fixture->asked = g_string_new(NULL);
    IpyboxSessionOptions options = session_options(&fixture->base);
    options.on_approval = on_approval;
    options.user_data = fixture->asked;
    options.approve_shell_cmds = TRUE;
    options.require_shell_escape = requires_escape;
    fixture->base.session = new_session(&fixture->base, &options);
}

static void
shell_fixture_clear(ShellFixture *fixture)
{
    fixture_tear_down(&fixture->base);
    g_string_free(fixture->asked, TRUE);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ShellFixture, shell_fixture_clear)

static void
assert_asks(ShellFixture *fixture, const char *code, const char *asked, const char *printed)
{
    g_string_truncate(fixture->asked, 0);
    assert_prints(fixture->base.session, code, printed);
    g_assert_cmpstr(fixture->asked->str, ==, asked);
}

static void
assert_fails(ShellFixture *fixture, const char *code, const char *name, const char *value)
{
    g_autoptr(IpyboxResult) result = run(fixture->base.session, code, IPYBOX_STATUS_ERROR);
    g_assert_cmpstr(ipybox_result_get_error_name(result), ==, name);
    if (strstr(ipybox_result_get_error_value(result), value) == NULL)
        g_error("%s: %s", code, ipybox_result_get_error_value(result));
}

static void
test_approvals(void)
{
    g_auto(ShellFixture) fixture = {0};
    set_up(&fixture, false);
    assert_asks(&fixture, "!echo {1 + 1}", "ipybox.shell{\"cmd\":\"echo 2\"}\n", "2");
    assert_asks(&fixture, "x = !echo a; echo b\nprint(x)",
                "ipybox.shell{\"cmd\":\"echo a; echo b\"}\n", "['a', 'b']");
    assert_asks(&fixture, "%sx echo c", "ipybox.shell{\"cmd\":\"echo c\"}\n", "['c']");
    assert_asks(&fixture, "%system echo c", "ipybox.shell{\"cmd\":\"echo c\"}\n", "['c']");
    assert_asks(&fixture, "!!echo d", "ipybox.shell{\"cmd\":\"echo d\"}\n", "['d']");
    assert_asks(&fixture, "%%bash\necho $((1 + 2))\n",
                "ipybox.shell_magic{\"cmd\":\"echo $((1 + 2))\\n\"}\n", "3");
    assert_asks(&fixture, "%%sh\necho e", "ipybox.shell_magic{\"cmd\":\"echo e\\n\"}\n", "e");
    assert_asks(&fixture, "%%bash --out y\necho f", "ipybox.shell_magic{\"cmd\":\"echo f\\n\"}\n",
                "");
    assert_asks(&fixture, "%%script cat -n\nx",
                "ipybox.shell_magic{\"cmd\":\"x\\n\",\"program\":\"cat -n\"}\n", "     1\tx");
    assert_asks(&fixture, "import subprocess; subprocess.run('true').returncode", "", "0");
    assert_asks(&fixture, "await __import__('asyncio').sleep(0)\n!echo g",
                "ipybox.shell{\"cmd\":\"echo g\"}\n", "g");
    assert_fails(&fixture, "!echo no-no", "ApprovalRejectedError",
                 "Approval request for ipybox.shell rejected");
    assert_fails(&fixture, "%%bash\necho no-no", "ApprovalRejectedError",
                 "Approval request for ipybox.shell_magic rejected");
    /* What a kernel asks for without need, runs nothing; and no other tool of ours is there. */
    assert_fails(&fixture,
                 "from ipybox import ToolRunner\nToolRunner('ipybox', "
                 "server_id='ipybox').run_sync('install_package', {'package': 'x'})",
                 "ToolRunnerError", "ipybox has no tool \"install_package\"");
}

static void
test_required_escape(void)
{
    static const char *const refused[] = {
        "import subprocess; subprocess.run(['touch', 'made'])",
        "import os; os.system('touch made')",
        "import os; os.spawnlp(os.P_WAIT, 'touch', 'touch', 'made')",
        "import os; os.posix_spawn('/usr/bin/touch', ['touch', 'made'], {})",
        "import os; os.posix_spawnp('touch', ['touch', 'made'], {})",
        "import os; os.execlp('touch', 'touch', 'made')",
        "import pty; pty.spawn(['touch', 'made'])",
        "import os; os.popen('touch made')",
        "import asyncio; await asyncio.create_subprocess_shell('touch made')",
    };
    g_auto(ShellFixture) fixture = {0};
    set_up(&fixture, true);
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++)
        assert_fails(&fixture, refused[i], "PermissionError", "the rule require_shell_escape");
    assert_prints(fixture.base.session, "import os; os.path.exists('made')", "False");
    assert_asks(&fixture, "!echo fine", "ipybox.shell{\"cmd\":\"echo fine\"}\n", "fine");
    assert_asks(&fixture, "%%bash\necho fine", "ipybox.shell_magic{\"cmd\":\"echo fine\\n\"}\n",
                "fine");
    assert_prints(fixture.base.session,
                  "import multiprocessing as mp\n"
                  "with mp.get_context('fork').Pool(1) as pool: print(pool.map(abs, [-1]))",
                  "[1]");
    assert_fails(&fixture, "import subprocess; subprocess.run(['true'])", "PermissionError",
                 "not allowed");
}

static void
test_options(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.require_shell_escape = TRUE;
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_new(fixture.runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "approve_shell_cmds"));
    g_clear_error(&error);
    options = session_options(&fixture);
    options.limits = "{\"memory\": \"1G\"}";
    g_assert_null(ipybox_session_new(fixture.runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    options.sandbox = IPYBOX_SANDBOX_ON;
    options.limits = "{\"memory\": \"1G\", \"prozesses\": 5}";
    g_assert_null(ipybox_session_new(fixture.runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "limits.prozesses"));
    g_clear_error(&error);
    options = session_options(&fixture);
    options.working_dir = "/no/such/directory";
    g_assert_null(ipybox_session_new(fixture.runtime, &options, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
}

static void
test_working_dir(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *home = g_build_filename(fixture.place, "home", NULL);
    g_assert_cmpint(g_mkdir(home, 0700), ==, 0);
    IpyboxSessionOptions options = session_options(&fixture);
    options.working_dir = home;
    ipybox_session_free(fixture.session);
    fixture.session = new_session(&fixture, &options);
    g_autofree char *module = g_build_filename(fixture.workspace, "mine.py", NULL);
    g_assert_true(g_file_set_contents(module, "x = 5", -1, NULL));
    assert_prints(fixture.session, "import mine; mine.x", "5"); /* of the workspace */
    g_autofree char *notice = g_strdup_printf("a\n[ipybox] cwd reset to %s", home);
    assert_prints(fixture.session, "import os; os.path.basename(os.getcwd())", "'home'");
    assert_prints(fixture.session, "os.chdir('/'); print('a', end='')", notice);
    assert_prints(fixture.session, "os.path.basename(os.getcwd())", "'home'");
    g_autoptr(IpyboxResult) result = run(fixture.session, "%cd -q /\n1/0", IPYBOX_STATUS_ERROR);
    assert_prints(fixture.session, "os.path.basename(os.getcwd())", "'home'");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/lib/shell/approvals", test_approvals);
    add_test("/lib/shell/required-escape", test_required_escape);
    add_test("/lib/shell/options", test_options);
    add_test("/lib/shell/working-dir", test_working_dir);
    return g_test_run();
}
