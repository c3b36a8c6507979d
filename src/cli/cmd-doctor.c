/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox doctor`: checks what ipybox needs on this machine, and reports what is missing and which
 * command helps. With --setup it makes the environment that kernels need.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/doctor-checks.h"
#include "cli/python-setup.h"
#include "http/curl.h"
#include "http/openssl.h"
#include "json/writer.h"
#include "serve/zmq/zmq.h"
#include "tools/registry.h"

/* --- the machine ------------------------------------------------------------------------------ */

static void
check_program(GPtrArray *checks, const char *program, const char *purpose, const char *hint)
{
    g_autofree char *path = g_find_program_in_path(program);
    if (path != NULL)
        ipb_doctor_checks_add(checks, program, IPB_CHECK_OK, g_steal_pointer(&path), NULL);
    else
        ipb_doctor_checks_add(checks, program, IPB_CHECK_OPTIONAL,
                              g_strdup_printf("not found: %s", purpose), hint);
}

static void
check_registry(GPtrArray *checks)
{
    g_autoptr(IpbRegistry) registry = ipb_registry_new(NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) all = ipb_registry_list(registry, &error);
    if (all != NULL)
        ipb_doctor_checks_add(checks, "servers", IPB_CHECK_OK,
                              g_strdup_printf("%u registered", all->len), NULL);
    else
        ipb_doctor_checks_add(checks, "servers", IPB_CHECK_MISSING, g_strdup(error->message), NULL);
}

/* A library that only some features need. @version: NULL if it cannot be loaded. */
static void
check_library(GPtrArray *checks, const char *name, char *version, const GError *error,
              const char *hint)
{
    if (version != NULL)
        ipb_doctor_checks_add(checks, name, IPB_CHECK_OK, version, NULL);
    else
        ipb_doctor_checks_add(checks, name, IPB_CHECK_OPTIONAL, g_strdup(error->message), hint);
}

static void
check_curl(GPtrArray *checks)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbCurl) curl = ipb_curl_load(&error);
    check_library(checks, "libcurl", curl != NULL ? g_strdup(curl->version()) : NULL, error,
                  "sudo apt-get install libcurl4");
}

static void
check_openssl(GPtrArray *checks)
{
    g_autoptr(GError) error = NULL;
    g_autofree IpbOpenssl *openssl = ipb_openssl_load(&error);
    check_library(checks, "libssl",
                  openssl != NULL ? g_strdup(openssl->OpenSSL_version(OPENSSL_VERSION)) : NULL,
                  error, "sudo apt-get install libssl3");
}

static void
check_zmq(GPtrArray *checks)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbZmq) zmq = ipb_zmq_new(&error);
    check_library(checks, "libzmq", zmq != NULL ? ipb_zmq_version(zmq) : NULL, error,
                  "sudo apt-get install libzmq5");
}

/* --- the report ------------------------------------------------------------------------------- */

static const char *const STATE_WORDS[] = {"ok", "optional", "MISSING"};

static void
print_table(const GPtrArray *checks)
{
    static const char *const COLORS[] = {"\033[32m", "\033[33m", "\033[31m"};
    bool color = ipb_cli_use_color(STDOUT_FILENO);
    for (guint i = 0; i < checks->len; i++) {
        const IpbCheck *check = g_ptr_array_index(checks, i);
        g_autofree char *detail = ipb_cli_printable(check->detail);
        printf("%s%-9s%s %-18s %s\n", color ? COLORS[check->state] : "", STATE_WORDS[check->state],
               color ? "\033[0m" : "", check->name, detail);
        if (check->hint != NULL)
            printf("%-9s %-18s %s\n", "", "", check->hint);
    }
}

static void
print_json(const GPtrArray *checks)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < checks->len; i++) {
        const IpbCheck *check = g_ptr_array_index(checks, i);
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
report(const char *python, bool as_json)
{
    g_autoptr(GPtrArray) checks = ipb_doctor_checks_new();
    ipb_doctor_checks_add_kernel(checks, python);
    check_registry(checks);
    check_curl(checks);
    check_openssl(checks);
    check_zmq(checks);
    check_program(checks, "npx", "many MCP servers are started with it",
                  "sudo apt-get install npm");
    check_program(checks, "uvx", "many MCP servers are started with it", "pipx install uv");
    ipb_doctor_checks_add_sandbox(checks);
    if (as_json)
        print_json(checks);
    else
        print_table(checks);
    for (guint i = 0; i < checks->len; i++)
        if (((IpbCheck *) g_ptr_array_index(checks, i))->state == IPB_CHECK_MISSING)
            return IPB_EXIT_UNAVAILABLE;
    return IPB_EXIT_OK;
}

static int
run_doctor(int argc, char **argv)
{
    char *python = NULL;
    int as_json = 0, is_setup = 0;
    const GOptionEntry options[] = {
        {"setup", 0, 0, G_OPTION_ARG_NONE, &is_setup,
         "first make or update the environment for kernels, and install PACKAGE…", NULL},
        {"python", 0, 0, G_OPTION_ARG_FILENAME, &python,
         "interpreter to check, or to make the environment with", "PYTHON"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print JSON", NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_doctor, options,
                       "Exit status: 0, or 3 if something that is needed is missing.\n\nExample:\n "
                       " ipybox doctor --setup numpy pandas",
                       &argc, &argv, &status))
        return status;
    g_autofree char *asked = python;
    if (argc > 1 && !is_setup)
        return ipb_cli_fail(&ipb_verb_doctor, IPB_EXIT_USAGE,
                            "%s: packages can be given with --setup only", argv[1]);
    g_autoptr(GError) error = NULL;
    if (is_setup && !ipb_python_setup_run(asked, (const char *const *) argv + 1, &error))
        return ipb_cli_fail(&ipb_verb_doctor, ipb_cli_status(error), "%s", error->message);
    return report(is_setup ? NULL : asked, as_json);
}

const IpbVerb ipb_verb_doctor = {"doctor", "[PACKAGE…]",
                                 "check this machine, and print commands for what is missing",
                                 run_doctor};
