/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox doctor` on kernels: one is started and asked for versions, so that what is said is what a session will meet.
 */
#include "base/file.h"
#include "cli/doctor.h"
#include "session/python.h"
#include "session/session.h"

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
on_event(const IpbEvent *event, void *data)
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
                                                             on_event, probe, error) != 0;
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
    ipb_doctor_add(checks, module, version != NULL ? IPB_CHECK_OK : missing,
                   g_strdup(version != NULL ? version : "not installed"),
                   version != NULL ? NULL : hint);
}

static void
add_answers(GPtrArray *checks, const Probe *probe, const IpbJson *versions, const char *python)
{
    ipb_doctor_add(checks, "python", IPB_CHECK_OK,
                   g_strdup_printf("%s (%s)", ipb_json_get_string(versions, "python"), python),
                   NULL);
    ipb_doctor_add(checks, "kernel", IPB_CHECK_OK,
                   g_strdup_printf("first result after %d ms", (int) (probe->took_us / 1000)),
                   NULL);
    add_module(checks, versions, "ipython", true, python);
    add_module(checks, versions, "pydantic", true, python);
    add_module(checks, versions, "matplotlib-inline", true, python);
    add_module(checks, versions, "matplotlib", false, python);
    add_module(checks, versions, "pip", false, python);
}

void
ipb_doctor_check_kernel(GPtrArray *checks, const char *asked)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *python = ipb_python_find(asked, &error);
    if (python == NULL) {
        ipb_doctor_add(checks, "python", IPB_CHECK_MISSING, g_strdup(error->message),
                       "sudo apt-get install python3 python3-venv");
        return;
    }
    Probe probe = {.main_loop = g_main_loop_new(NULL, FALSE), .output = g_string_new(NULL)};
    if (!run_probe(&probe, python, &error))
        probe.failure = g_strdup(error->message);
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(probe.output->str, probe.output->len, &IPB_JSON_LIMITS_SMALL, NULL);
    if (probe.failure != NULL || doc == NULL) {
        ipb_doctor_add(checks, "python", IPB_CHECK_OK, g_strdup(python), NULL);
        ipb_doctor_add(checks, "kernel", IPB_CHECK_MISSING,
                       g_strdup(probe.failure != NULL ? probe.failure : "gave no answer"),
                       asked == NULL ? SETUP_HINT : NULL);
    } else {
        add_answers(checks, &probe, ipb_json_root(doc), python);
    }
    g_main_loop_unref(probe.main_loop);
    g_string_free(probe.output, TRUE);
    g_free(probe.failure);
}
