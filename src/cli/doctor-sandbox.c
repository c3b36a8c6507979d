/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox doctor` on sandboxes: makes one and runs a command in it, and says what the system's kernel offers. The tiers: full
 * (namespaces, and Landlock and seccomp in them), weaker (Landlock and seccomp only, if asked for), none.
 */

#include "base/error.h"
#include "base/file.h"
#include "cli/doctor.h"
#include "sandbox/launch.h"
#include "sandbox/cgroup.h"
#include "sandbox/probe.h"

/* The first that allows renames between directories. */
#define MIN_LANDLOCK_ABI 2

typedef struct {
    GMainLoop *main_loop;
    char *failure; /* NULL: it worked */
    int64_t started_us, took_us;
} Trial;

static void
on_ready(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data)
{
    Trial *trial = data;
    trial->took_us = g_get_monotonic_time() - trial->started_us;
}

static void
on_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    Trial *trial = data;
    if (error != NULL)
        trial->failure = g_strdup(error->message);
    else if (wait_status != 0)
        trial->failure = g_strdup("a command that should succeed failed in it");
    g_main_loop_quit(trial->main_loop);
}

/* A plan of the closed policy: nothing is writable, no network. */
static IpbSandboxPlan *
make_plan(const char *workspace, GError **error)
{
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_closed();
    return ipb_sandbox_plan_new(
        &(IpbPlanOptions){
            .policy = policy,
            .workspace = workspace,
            .home = g_get_home_dir(),
            .limits = IPB_SANDBOX_LIMITS_DEFAULT,
        },
        error);
}

static bool
run_trial(Trial *trial, IpbLoop *loop, const char *workspace, bool is_weaker, GError **error)
{
    g_autoptr(IpbSandboxPlan) plan = make_plan(workspace, error);
    if (plan == NULL)
        return false;
    const char *const argv[] = {"/bin/sh", "-c", ":", NULL}, *const env[] = {NULL};
    trial->started_us = g_get_monotonic_time();
    g_autoptr(IpbSandbox) sandbox = ipb_sandbox_new(loop,
                                                    &(IpbSandboxOptions){
                                                        .plan = plan,
                                                        .argv = argv,
                                                        .env = env,
                                                        .cwd = "/",
                                                        .stdin_fd = -1,
                                                        .stdout_fd = -1,
                                                        .stderr_fd = -1,
                                                        .is_weaker_allowed = is_weaker,
                                                        .on_ready = on_ready,
                                                        .on_end = on_end,
                                                        .data = trial,
                                                    },
                                                    error);
    if (sandbox == NULL)
        return false;
    g_main_loop_run(trial->main_loop);
    return true;
}

/* Can a sandbox be made? *@ret_took_ms: how long that took; else *@ret_failure says why not. */
static bool
try_sandbox(bool is_weaker, int *ret_took_ms, char **ret_failure)
{
    g_autoptr(GError) error = NULL;
    Trial trial = {.main_loop = g_main_loop_new(NULL, FALSE)};
    IpbLoop *loop = ipb_loop_new(NULL, &error);
    g_autofree char *workspace =
        loop != NULL ? ipb_file_make_temp_directory(NULL, "ipybox-doctor-", &error) : NULL;
    if (workspace == NULL || !run_trial(&trial, loop, workspace, is_weaker, &error))
        trial.failure = g_strdup(error->message);
    if (workspace != NULL)
        ipb_file_remove_tree(workspace, NULL);
    g_clear_pointer(&loop, ipb_loop_unref);
    g_main_loop_unref(trial.main_loop);
    *ret_took_ms = (int) (trial.took_us / 1000);
    *ret_failure = trial.failure;
    return trial.failure == NULL;
}

static void
add_tier(GPtrArray *checks)
{
    int took_ms;
    g_autofree char *failure = NULL, *weaker_failure = NULL;
    if (try_sandbox(false, &took_ms, &failure)) {
        ipb_doctor_add(
            checks, "sandbox", IPB_CHECK_OK,
            g_strdup_printf("full: namespaces, seccomp%s; made in %d ms",
                            ipb_probe_landlock_abi() >= MIN_LANDLOCK_ABI ? ", Landlock" : "",
                            took_ms),
            NULL);
        return;
    }
    bool is_weaker = try_sandbox(true, &took_ms, &weaker_failure);
    ipb_doctor_add(checks, "sandbox", IPB_CHECK_OPTIONAL,
                   g_strdup_printf(is_weaker
                                       ? "weaker (Landlock and seccomp only, when asked for): %s"
                                       : "none: %s",
                                   failure),
                   NULL);
}

static void
add_landlock(GPtrArray *checks)
{
    int abi = ipb_probe_landlock_abi();
    if (abi >= MIN_LANDLOCK_ABI)
        ipb_doctor_add(checks, "landlock", IPB_CHECK_OK, g_strdup_printf("ABI %d", abi), NULL);
    else
        ipb_doctor_add(checks, "landlock", IPB_CHECK_OPTIONAL,
                       g_strdup(abi == 1 ? "ABI 1 is not enough: sandboxes go without it"
                                         : "not there: sandboxes go without it"),
                       "Linux 5.19 or later, with landlock in the kernel option lsm=");
}

static void
add_seccomp(GPtrArray *checks)
{
    if (ipb_probe_has_seccomp() && ipb_probe_has_notifications())
        ipb_doctor_add(checks, "seccomp", IPB_CHECK_OK, g_strdup("with user notification"), NULL);
    else
        ipb_doctor_add(checks, "seccomp", IPB_CHECK_OPTIONAL,
                       g_strdup("not there: no sandbox can be made"),
                       "Linux 5.0 or later, with CONFIG_SECCOMP_FILTER");
}

static void
add_cgroup(GPtrArray *checks)
{
    char *cgroup = ipb_cgroup_find_delegated();
    if (cgroup != NULL)
        ipb_doctor_add(checks, "cgroup", IPB_CHECK_OK, cgroup, NULL);
    else
        ipb_doctor_add(checks, "cgroup", IPB_CHECK_OPTIONAL,
                       g_strdup("not delegated: limits of memory hold for each process"),
                       "systemd-run --user --scope -p Delegate=yes ipybox …");
}

void
ipb_doctor_check_sandbox(GPtrArray *checks)
{
    add_tier(checks);
    add_landlock(checks);
    add_seccomp(checks);
    add_cgroup(checks);
}
