/* SPDX-License-Identifier: Apache-2.0
 *
 * egress-tool SETTINGS VIOLATIONS COMMAND [ARGUMENT…]: runs a command in a sandbox with its way out, for
 * tests/integration/test_egress.py. What was denied is written to the file VIOLATIONS, one line each.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "egress/egress.h"
#include "sandbox/launch.h"

typedef struct {
    GMainLoop *main_loop;
    IpbLoop *loop;
    IpbSandboxPlan *plan;
    IpbEgress *egress;
    FILE *violations;
    int status;
} Tool;

static void
on_violation(const IpbViolation *violation, void *data)
{
    Tool *tool = data;
    fprintf(tool->violations, "%s %s: %s\n", violation->what, violation->target, violation->reason);
    fflush(tool->violations);
}

static void
end(Tool *tool, int status, const GError *error)
{
    if (error != NULL)
        fprintf(stderr, "egress-tool: %s\n", error->message);
    tool->status = status;
    g_main_loop_quit(tool->main_loop);
}

static void
on_ready(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data)
{
    Tool *tool = data;
    g_autoptr(GError) error = NULL;
    tool->egress = ipb_egress_new(tool->loop,
                                  &(IpbEgressOptions){
                                      .plan = tool->plan,
                                      .listeners = listeners,
                                      .on_violation = on_violation,
                                      .data = tool,
                                  },
                                  &error);
    if (tool->egress == NULL)
        end(tool, 125, error);
}

static void
on_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    if (error != NULL)
        end(data, 125, error);
    else
        end(data, WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status),
            NULL);
}

static IpbSandboxPlan *
make_plan(const char *settings, const char *cwd, GError **error)
{
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_load(settings, error);
    if (policy == NULL)
        return NULL;
    return ipb_sandbox_plan_new(
        &(IpbPlanOptions){
            .policy = policy,
            .workspace = cwd,
            .home = g_get_home_dir(),
            .limits = IPB_SANDBOX_LIMITS_DEFAULT,
        },
        error);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *cwd = g_get_current_dir();
    if (argc < 4) {
        fprintf(stderr, "usage: %s SETTINGS VIOLATIONS COMMAND [ARGUMENT…]\n", argv[0]);
        return 2;
    }
    Tool tool = {.main_loop = g_main_loop_new(NULL, FALSE), .status = 125};
    tool.loop = ipb_loop_new(NULL, &error);
    tool.violations = fopen(argv[2], "we");
    tool.plan = tool.loop != NULL ? make_plan(argv[1], cwd, &error) : NULL;
    IpbSandbox *sandbox = NULL;
    if (tool.plan != NULL && tool.violations != NULL)
        sandbox = ipb_sandbox_new(tool.loop,
                                  &(IpbSandboxOptions){
                                      .plan = tool.plan,
                                      .argv = (const char *const *) argv + 3,
                                      .env = (const char *const *) environ,
                                      .cwd = cwd,
                                      .stdin_fd = 0,
                                      .stdout_fd = 1,
                                      .stderr_fd = 2,
                                      .on_ready = on_ready,
                                      .on_end = on_end,
                                      .data = &tool,
                                  },
                                  &error);
    if (sandbox != NULL)
        g_main_loop_run(tool.main_loop);
    else
        fprintf(stderr, "egress-tool: %s\n", error != NULL ? error->message : argv[2]);
    ipb_egress_free(tool.egress);
    ipb_sandbox_free(sandbox);
    ipb_sandbox_plan_unref(tool.plan);
    if (tool.violations != NULL)
        fclose(tool.violations);
    ipb_loop_unref(tool.loop);
    g_main_loop_unref(tool.main_loop);
    return tool.status;
}
