/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox doctor`: tries what ipybox needs on this machine and says what is missing and which command helps. A kernel is
 * really started and asked, so that what it says is what a session will meet.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "json/writer.h"
#include "session/python.h"
#include "session/session.h"

#define KERNEL_TIMEOUT_MS 60000

typedef enum {
    STATE_OK,
    STATE_OPTIONAL, /* missing, and only some things need it */
    STATE_MISSING,
} CheckState;

typedef struct {
    const char *name;
    CheckState state;
    char *detail;
    char *hint; /* or NULL */
} Check;

typedef struct {
    GPtrArray *checks;
    GMainLoop *main_loop;
    GString *output;
    char *failure;
    int64_t started_us;
    int64_t took_us;
} Doctor;

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
free_check(Check *check)
{
    g_free(check->detail);
    g_free(check->hint);
    g_free(check);
}

static void
add_check(Doctor *doctor, const char *name, CheckState state, char *detail, const char *hint)
{
    Check *check = g_new(Check, 1);
    *check = (Check){name, state, detail, g_strdup(hint)};
    g_ptr_array_add(doctor->checks, check);
}

/* --- the kernel -------------------------------------------------------------------------------- */

static void
on_event(const IpbSessionEvent *event, void *data)
{
    Doctor *doctor = data;
    if (event->type == IPB_SESSION_STDOUT)
        g_string_append(doctor->output, event->text);
    else if (event->type == IPB_SESSION_ERROR)
        doctor->failure = g_strdup(event->text);
    if (event->type != IPB_SESSION_DONE)
        return;
    doctor->took_us = g_get_monotonic_time() - doctor->started_us;
    if (event->status != IPB_STATUS_OK && doctor->failure == NULL)
        doctor->failure = g_strdup(event->text);
    g_main_loop_quit(doctor->main_loop);
}

static bool
run_probe(Doctor *doctor, const char *python, GError **error)
{
    g_autofree char *workspace = ipb_file_make_temp_directory(NULL, "ipybox-doctor-", error);
    if (workspace == NULL)
        return false;
    g_autoptr(IpbRuntime) runtime =
        ipb_runtime_new(NULL, &(IpbRuntimeOptions){.python = python}, error);
    IpbSessionOptions options = {.workspace = workspace, .approval_timeout_ms = -1};
    g_autoptr(IpbSession) session =
        runtime != NULL ? ipb_session_new(runtime, &options, error) : NULL;
    doctor->started_us = g_get_monotonic_time();
    bool is_running = session != NULL && ipb_session_execute(session, PROBE, KERNEL_TIMEOUT_MS,
                                                             on_event, doctor, error) != 0;
    if (is_running)
        g_main_loop_run(doctor->main_loop);
    g_clear_pointer(&session, ipb_session_free);
    g_clear_pointer(&runtime, ipb_runtime_unref);
    ipb_file_remove_tree(workspace, NULL);
    return is_running;
}

static void
check_module(Doctor *doctor, const IpbJson *versions, const char *module, bool is_needed,
             const char *python)
{
    const char *version = ipb_json_get_string(versions, module);
    g_autofree char *hint = g_strdup_printf("%s -m pip install %s", python, module);
    CheckState missing = is_needed ? STATE_MISSING : STATE_OPTIONAL;
    add_check(doctor, module, version != NULL ? STATE_OK : missing,
              g_strdup(version != NULL ? version : "not installed"), version != NULL ? NULL : hint);
}

static void
check_kernel(Doctor *doctor, const char *asked)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *python = ipb_python_find(asked, &error);
    if (python == NULL) {
        add_check(doctor, "python", STATE_MISSING, g_strdup(error->message),
                  "sudo apt-get install python3 python3-venv");
        return;
    }
    if (!run_probe(doctor, python, &error))
        doctor->failure = g_strdup(error->message);
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(doctor->output->str, doctor->output->len, &IPB_JSON_LIMITS_SMALL, NULL);
    if (doctor->failure != NULL || doc == NULL) {
        add_check(doctor, "python", STATE_OK, g_strdup(python), NULL);
        add_check(doctor, "kernel", STATE_MISSING,
                  g_strdup(doctor->failure != NULL ? doctor->failure : "gave no answer"), NULL);
        return;
    }
    const IpbJson *versions = ipb_json_root(doc);
    add_check(doctor, "python", STATE_OK,
              g_strdup_printf("%s (%s)", ipb_json_get_string(versions, "python"), python), NULL);
    add_check(doctor, "kernel", STATE_OK,
              g_strdup_printf("first result after %d ms", (int) (doctor->took_us / 1000)), NULL);
    check_module(doctor, versions, "ipython", true, python);
    check_module(doctor, versions, "pydantic", true, python);
    check_module(doctor, versions, "matplotlib-inline", true, python);
    check_module(doctor, versions, "matplotlib", false, python);
    check_module(doctor, versions, "pip", false, python);
}

/* --- the machine ------------------------------------------------------------------------------- */

static void
check_program(Doctor *doctor, const char *program, const char *purpose, const char *hint)
{
    g_autofree char *path = g_find_program_in_path(program);
    if (path != NULL)
        add_check(doctor, program, STATE_OK, g_steal_pointer(&path), NULL);
    else
        add_check(doctor, program, STATE_OPTIONAL, g_strdup_printf("not found: %s", purpose), hint);
}

static void
check_registry(Doctor *doctor)
{
    g_autoptr(IpbRegistry) registry = ipb_registry_new(NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) all = ipb_registry_list(registry, &error);
    if (all != NULL)
        add_check(doctor, "servers", STATE_OK, g_strdup_printf("%u registered", all->len), NULL);
    else
        add_check(doctor, "servers", STATE_MISSING, g_strdup(error->message), NULL);
}

/* --- the report -------------------------------------------------------------------------------- */

static const char *const STATE_WORDS[] = {"ok", "optional", "MISSING"};

static void
print_table(const Doctor *doctor)
{
    static const char *const COLORS[] = {"\033[32m", "\033[33m", "\033[31m"};
    bool color = ipb_cli_use_color(STDOUT_FILENO);
    for (guint i = 0; i < doctor->checks->len; i++) {
        const Check *check = g_ptr_array_index(doctor->checks, i);
        g_autofree char *detail = ipb_cli_printable(check->detail);
        printf("%s%-9s%s %-18s %s\n", color ? COLORS[check->state] : "", STATE_WORDS[check->state],
               color ? "\033[0m" : "", check->name, detail);
        if (check->hint != NULL)
            printf("%-9s %-18s %s\n", "", "", check->hint);
    }
}

static void
print_json(const Doctor *doctor)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < doctor->checks->len; i++) {
        const Check *check = g_ptr_array_index(doctor->checks, i);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "name", check->name);
        g_autofree char *state = g_ascii_strdown(STATE_WORDS[check->state], -1);
        ipb_json_member_string(writer, "state", state);
        ipb_json_member_string(writer, "detail", check->detail);
        ipb_json_member_string(writer, "hint", check->hint);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
}

static int
run_doctor(int argc, char **argv)
{
    char *python = NULL;
    int as_json = 0;
    const GOptionEntry options[] = {
        {"python", 0, 0, G_OPTION_ARG_FILENAME, &python, "interpreter to look at", "PYTHON"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print JSON", NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_doctor, options,
                       "Exit status: 0, or 3 if something needed is missing.", &argc, &argv,
                       &status))
        return status;
    status = IPB_EXIT_OK;
    Doctor doctor = {
        .checks = g_ptr_array_new_with_free_func((GDestroyNotify) free_check),
        .main_loop = g_main_loop_new(NULL, FALSE),
        .output = g_string_new(NULL),
    };
    check_kernel(&doctor, python);
    check_registry(&doctor);
    check_program(&doctor, "npx", "MCP servers from npm need it", "sudo apt-get install npm");
    check_program(&doctor, "uvx", "MCP servers from PyPI are often started with it",
                  "python3 -m pip install uv");
    if (as_json)
        print_json(&doctor);
    else
        print_table(&doctor);
    for (guint i = 0; i < doctor.checks->len; i++)
        if (((Check *) g_ptr_array_index(doctor.checks, i))->state == STATE_MISSING)
            status = IPB_EXIT_UNAVAILABLE;
    g_ptr_array_unref(doctor.checks);
    g_main_loop_unref(doctor.main_loop);
    g_string_free(doctor.output, TRUE);
    g_free(doctor.failure);
    g_free(python);
    return status;
}

const IpbVerb ipb_verb_doctor = {
    "doctor", "", "what is found, what is missing, and the command that helps", run_doctor};
