/* SPDX-License-Identifier: Apache-2.0 */
#include "session/environment.h"

#include <string.h>

#include "base/file.h"

static void
check(char **env, const char *name, const char *value)
{
    g_assert_cmpstr(g_environ_getenv(env, name), ==, value);
}

static void
on_warning(const char *text, void *data)
{
    ++*(int *) data;
    g_assert_nonnull(strstr(text, ".env"));
    g_assert_null(strstr(text, "secret"));
}

static void
test_application(void)
{
    g_autofree char *workspace = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    g_autofree char *path = g_build_filename(workspace, ".env", NULL);
    const char text[] = "A=file\nB=file\nthis is = no 'secret\n";
    g_assert_true(ipb_file_write_atomic(path, text, sizeof text - 1, 0600, NULL));
    const char *env[] = {"A=process", NULL};
    int warnings = 0;
    g_auto(GStrv) both = ipb_environment_application(env, workspace, false, on_warning, &warnings);
    check(both, "A", "process");
    check(both, "B", "file");
    g_assert_cmpint(warnings, ==, 1);
    g_assert_true(ipb_file_remove_tree(workspace, NULL));
    g_auto(GStrv) alone = ipb_environment_application(env, workspace, false, on_warning, &warnings);
    g_assert_cmpuint(g_strv_length(alone), ==, 1);
    g_assert_cmpint(warnings, ==, 1); /* a missing .env file causes no warning */
}

static void
test_kernel(void)
{
    const char *application[] = {
        "HOME=/h",    "SECRET=s",       "LC_TIME=C",     "PATH=/usr/bin",
        "TERM=xterm", "KERNEL_ENV_K=k", "KERNEL_ENV_=x", "KERNEL_ENV_PATH=/own",
        NULL};
    const char *overrides[] = {"TERM=fancy", "NEW=n", "TOOL_SERVER_PORT=1", NULL};
    g_auto(GStrv) env = ipb_environment_kernel(&(IpbKernelEnvironment){
        .python = "/env/bin/python3",
        .overlay = "/ws/.ipybox/packages",
        .application = application,
        .kernel_env = overrides,
        .tool_port = 99,
        .tool_token = "token",
    });
    check(env, "HOME", "/h");
    check(env, "SECRET", NULL);
    check(env, "KERNEL_ENV_K", NULL);
    check(env, "K", "k");
    check(env, "LC_TIME", "C");
    check(env, "TERM", "fancy");
    check(env, "NO_COLOR", "1");
    check(env, "PYDANTIC_ERRORS_INCLUDE_URL", "0");
    check(env, "NEW", "n");
    check(env, "PATH", "/own");
    check(env, "PIP_TARGET", "/ws/.ipybox/packages");
    check(env, "PYTHONPATH", "/ws/.ipybox/packages");
    /* The caller cannot override the variables of the tool channel. */
    check(env, "TOOL_SERVER_PORT", "99");
    check(env, "IPYBOX_TOOL_TOKEN", "token");
}

static void
test_rich_client(void)
{
    const char *application[] = {"TERM=dumb", "NO_COLOR=1", NULL};
    const char *no_color[] = {"NO_COLOR=1", "TERM=fancy", NULL};
    IpbKernelEnvironment options = {.python = "/env/bin/python3",
                                    .application = application,
                                    .has_rich_client = true,
                                    .tool_token = ""};
    g_auto(GStrv) coloured = ipb_environment_kernel(&options);
    check(coloured, "TERM", "xterm-color");
    check(coloured, "NO_COLOR", NULL);
    check(coloured, "CLICOLOR", "1");
    check(coloured, "FORCE_COLOR", "1");
    check(coloured, "CLICOLOR_FORCE", "1");
    check(coloured, "PAGER", "cat");
    options.kernel_env = no_color;
    g_auto(GStrv) plain = ipb_environment_kernel(&options);
    check(plain, "TERM", "fancy");
    check(plain, "NO_COLOR", "1");
    check(plain, "FORCE_COLOR", NULL);
    check(plain, "CLICOLOR_FORCE", NULL);
}

static void
test_installs(void)
{
    const char *application[] = {NULL};
    IpbKernelEnvironment options = {.python = "/env/bin/python3",
                                    .workspace = "/ws",
                                    .application = application,
                                    .tool_token = ""};
    g_auto(GStrv) without_sandbox = ipb_environment_kernel(&options);
    check(without_sandbox, "IPYBOX_INSTALLS", NULL);
    options.is_sandboxed = true;
    g_auto(GStrv) by_pip = ipb_environment_kernel(&options);
    check(by_pip, "IPYBOX_INSTALLS", "0");
    options.can_install = true;
    g_auto(GStrv) by_us = ipb_environment_kernel(&options);
    check(by_us, "IPYBOX_INSTALLS", "1");
}

static void
test_path(void)
{
    const char *application[] = {"PATH=/usr/bin", NULL};
    IpbKernelEnvironment options = {
        .python = "/env/bin/python3", .application = application, .tool_token = ""};
    g_auto(GStrv) plain = ipb_environment_kernel(&options);
    check(plain, "PATH", "/env/bin:/usr/bin");
    check(plain, "PIP_TARGET", NULL);
    options.overlay = "/ws/p";
    g_auto(GStrv) overlay = ipb_environment_kernel(&options);
    check(overlay, "PATH", "/ws/p/bin:/env/bin:/usr/bin");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session/environment/application", test_application);
    g_test_add_func("/session/environment/kernel", test_kernel);
    g_test_add_func("/session/environment/rich-client", test_rich_client);
    g_test_add_func("/session/environment/installs", test_installs);
    g_test_add_func("/session/environment/path", test_path);
    return g_test_run();
}
