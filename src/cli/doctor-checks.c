/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of `ipybox doctor`; see the header. It starts a kernel and asks it for versions, and
 * makes a sandbox and runs a command in it. So it reports what a session will find. Sandboxes have
 * three tiers: full (namespaces, with Landlock and seccomp in them), weaker (Landlock and seccomp
 * only, if the user asks for it), none.
 */
#include "cli/doctor-checks.h"

#include "base/error.h"
#include "base/file.h"
#include "sandbox/sandbox.h"
#include "session/python.h"
#include "session/session.h"

static void
free_check(IpbCheck *check)
{
    g_free(check->detail);
    g_free(check->hint);
    g_free(check);
}

GPtrArray *
ipb_doctor_checks_new(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify) free_check);
}

void
ipb_doctor_checks_add(GPtrArray *checks, const char *name, IpbCheckState state, char *detail,
                      const char *hint)
{
    IpbCheck *check = g_new(IpbCheck, 1);
    *check = (IpbCheck){name, state, detail, g_strdup(hint)};
    g_ptr_array_add(checks, check);
}

/* --- a kernel --------------------------------------------------------------------------------- */

#define KERNEL_TIMEOUT_MS 60000
#define SETUP_HINT "ipybox doctor --setup"

typedef struct {
    GMainLoop *main_loop;
    GString *output;
    char *failure;
    int64_t started_us;
    int64_t took_us;
} Probe;

static const char PROBE[] =
    "import importlib.metadata, json, sys\n"
    "def version(name):\n"
    "    try:\n"
    "        return importlib.metadata.version(name)\n"
    "    except Exception:\n"
    "        return None\n"
    "names = ['ipython', 'pydantic', 'matplotlib-inline', 'matplotlib', 'numpy', 'pandas', 'pip']\n"
    "print(json.dumps({'python': sys.version.split()[0], **{name: version(name) for name in "
    "names}}))\n";

static void
on_probe_event(const IpbEvent *event, void *data)
{
    Probe *probe = data;
    if (event->type == IPB_EVENT_STDOUT)
        g_string_append(probe->output, event->text);
    else if (event->type == IPB_EVENT_ERROR && probe->failure == NULL)
        probe->failure = g_strdup(event->text);
    if (event->type != IPB_EVENT_DONE)
        return;
    probe->took_us = g_get_monotonic_time() - probe->started_us;
    if (event->status != IPB_CELL_OK && probe->failure == NULL)
        probe->failure = g_strdup(event->text);
    g_main_loop_quit(probe->main_loop);
}

static bool
run_probe(Probe *probe, const char *python, GError **error)
{
    g_autofree char *workspace = ipb_file_make_temp_directory(NULL, "ipybox-doctor-", error);
    if (workspace == NULL)
        return false;
    g_autoptr(IpbRuntime) runtime =
        ipb_runtime_new(NULL, &(IpbRuntimeOptions){.python = python}, error);
    IpbSessionOptions options = {.workspace = workspace, .approval_timeout_ms = -1};
    g_autoptr(IpbSession) session =
        runtime != NULL ? ipb_session_new(runtime, &options, error) : NULL;
    probe->started_us = g_get_monotonic_time();
    bool is_running = session != NULL && ipb_session_execute(session, PROBE, KERNEL_TIMEOUT_MS,
                                                             on_probe_event, probe, error) != 0;
    if (is_running)
        g_main_loop_run(probe->main_loop);
    g_clear_pointer(&session, ipb_session_free);
    g_clear_pointer(&runtime, ipb_runtime_unref);
    ipb_file_remove_tree(workspace, NULL);
    return is_running;
}

static void
add_module(GPtrArray *checks, const IpbJson *versions, const char *module, bool is_needed,
           const char *python)
{
    const char *version = ipb_json_get_string(versions, module);
    g_autofree char *ours = ipb_python_user_environment();
    g_autofree char *hint = g_str_has_prefix(python, ours)
                                ? g_strdup_printf(SETUP_HINT " %s", module)
                                : g_strdup_printf("%s -m pip install %s", python, module);
    IpbCheckState missing = is_needed ? IPB_CHECK_MISSING : IPB_CHECK_OPTIONAL;
    ipb_doctor_checks_add(checks, module, version != NULL ? IPB_CHECK_OK : missing,
                          g_strdup(version != NULL ? version : "not installed"),
                          version != NULL ? NULL : hint);
}

static void
add_answers(GPtrArray *checks, const Probe *probe, const IpbJson *versions, const char *python)
{
    ipb_doctor_checks_add(
        checks, "python", IPB_CHECK_OK,
        g_strdup_printf("%s (%s)", ipb_json_get_string(versions, "python"), python), NULL);
    ipb_doctor_checks_add(
        checks, "kernel", IPB_CHECK_OK,
        g_strdup_printf("first result after %d ms", (int) (probe->took_us / 1000)), NULL);
    add_module(checks, versions, "ipython", true, python);
    add_module(checks, versions, "pydantic", true, python);
    add_module(checks, versions, "matplotlib-inline", true, python);
    add_module(checks, versions, "matplotlib", false, python);
    add_module(checks, versions, "pip", false, python);
}

void
ipb_doctor_checks_add_kernel(GPtrArray *checks, const char *asked)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *python = ipb_python_find(asked, NULL, &error);
    if (python == NULL) {
        ipb_doctor_checks_add(checks, "python", IPB_CHECK_MISSING, g_strdup(error->message),
                              "sudo apt-get install python3 python3-venv");
        return;
    }
    Probe probe = {.main_loop = g_main_loop_new(NULL, FALSE), .output = g_string_new(NULL)};
    if (!run_probe(&probe, python, &error))
        probe.failure = g_strdup(error->message);
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(probe.output->str, probe.output->len, &IPB_JSON_LIMITS_SMALL, NULL);
    if (probe.failure != NULL || doc == NULL) {
        ipb_doctor_checks_add(checks, "python", IPB_CHECK_OK, g_strdup(python), NULL);
        ipb_doctor_checks_add(
            checks, "kernel", IPB_CHECK_MISSING,
            g_strdup(probe.failure != NULL ? probe.failure : "the kernel did not answer"),
            asked == NULL ? SETUP_HINT : NULL);
    } else {
        add_answers(checks, &probe, ipb_json_root(doc), python);
    }
    g_main_loop_unref(probe.main_loop);
    g_string_free(probe.output, TRUE);
    g_free(probe.failure);
}

/* --- a sandbox -------------------------------------------------------------------------------- */

typedef struct {
    GMainLoop *main_loop;
    char *failure; /* NULL: success */
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
        trial->failure = g_strdup("a test command failed in the sandbox");
    g_main_loop_quit(trial->main_loop);
}

/* A plan of the closed policy: nothing is writable, and there is no network. */
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

/* Whether a sandbox can be made. *ret_took_ms: how long that took. *ret_failure: why it failed. */
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
add_tier(GPtrArray *checks, const IpbSandboxProbe *probe)
{
    int took_ms;
    g_autofree char *failure = NULL, *weaker_failure = NULL;
    if (try_sandbox(false, &took_ms, &failure)) {
        ipb_doctor_checks_add(checks, "sandbox", IPB_CHECK_OK,
                              g_strdup_printf("full: %s; made in %d ms", probe->full, took_ms),
                              NULL);
        return;
    }
    char *detail = try_sandbox(true, &took_ms, &weaker_failure)
                       ? g_strdup_printf("weaker (%s, if asked for): %s", probe->weaker, failure)
                       : g_strdup_printf("none: %s", failure);
    ipb_doctor_checks_add(checks, "sandbox", IPB_CHECK_OPTIONAL, detail, NULL);
}

void
ipb_doctor_checks_add_sandbox(GPtrArray *checks)
{
    g_autoptr(IpbSandboxProbe) probe = ipb_sandbox_probe_new();
    add_tier(checks, probe);
    for (guint i = 0; i < probe->features->len; i++) {
        const IpbSandboxFeature *feature = g_ptr_array_index(probe->features, i);
        IpbCheckState state = feature->is_available ? IPB_CHECK_OK : IPB_CHECK_OPTIONAL;
        ipb_doctor_checks_add(checks, feature->name, state, g_strdup(feature->text), feature->hint);
    }
}
