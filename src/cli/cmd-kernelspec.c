/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox kernelspec`: lists `ipybox kernel` among the kernels of Jupyter's front ends.
 *
 * A kernelspec is a directory with the file kernel.json, which has the command that starts the
 * kernel. Only kernelspecs that start `ipybox kernel` are replaced or removed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/jupyter-folders.h"
#include "cli/options.h"
#include "json/writer.h"
#include "serve/gateway/kernelspec.h"

#define DEFAULT_NAME "ipybox"
#define SANDBOXED_TITLE "Python 3 (ipybox sandbox)"
#define PLAIN_TITLE "Python 3 (ipybox)"

typedef struct {
    char *name;
    char *title;
    char *prefix;
    IpbKernelArguments kernel;
    char *approve;
    char *audit_log;
    int as_json;
} SpecArguments;

/* --- where ------------------------------------------------------------------------------------ */

/* Of the user, or below a prefix, such as that of an environment. */
static char *
find_folder(const SpecArguments *arguments)
{
    return arguments->prefix != NULL ? ipb_jupyter_folders_of_prefix(arguments->prefix)
                                     : ipb_jupyter_folders_user();
}

/* If it starts `ipybox kernel`. Errors: NOT_FOUND, INVALID and others. */
static IpbGatewayKernelspec *
read_spec(const char *path, const char *name, GError **error)
{
    g_autoptr(IpbBeneath) folder = ipb_beneath_open(path, error);
    if (folder == NULL)
        return NULL;
    g_autoptr(IpbGatewayKernelspec) spec = ipb_gateway_kernelspec_read(folder, name, error);
    if (spec == NULL || spec->arguments != NULL)
        return g_steal_pointer(&spec);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "%s does not start ipybox: it is not touched; choose another --name", spec->path);
    return NULL;
}

/* --- install ---------------------------------------------------------------------------------- */

static void
add_option(IpbJsonWriter *writer, const char *name, const char *value, bool is_path)
{
    if (value == NULL)
        return;
    g_autofree char *absolute = is_path ? g_canonicalize_filename(value, NULL) : g_strdup(value);
    ipb_json_write_string(writer, name);
    ipb_json_write_string(writer, absolute);
}

/* A name in PATH stays a name; a path is made absolute. */
static bool
is_path(const char *text)
{
    return text != NULL && strchr(text, '/') != NULL;
}

static char *
write_spec(const SpecArguments *arguments, const char *program)
{
    const IpbKernelArguments *kernel = &arguments->kernel;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "argv");
    ipb_json_begin_array(writer);
    ipb_json_write_string(writer, program);
    ipb_json_write_string(writer, "kernel");
    ipb_json_write_string(writer, "-f");
    ipb_json_write_string(writer, "{connection_file}");
    if (!kernel->is_sandboxed)
        ipb_json_write_string(writer, "--no-sandbox");
    if (kernel->is_staged)
        ipb_json_write_string(writer, "--staged");
    add_option(writer, "--staging-dir", kernel->staging_dir, true);
    add_option(writer, "--sandbox-config", kernel->sandbox_config, true);
    add_option(writer, "--python", kernel->python, is_path(kernel->python));
    add_option(writer, "--preload", kernel->preload, false);
    add_option(writer, "--approve", arguments->approve,
               arguments->approve != NULL && g_file_test(arguments->approve, G_FILE_TEST_EXISTS));
    add_option(writer, "--audit-log", arguments->audit_log, true);
    ipb_json_end_array(writer);
    const char *title = arguments->title;
    if (title == NULL)
        title = kernel->is_sandboxed ? SANDBOXED_TITLE : PLAIN_TITLE;
    ipb_json_member_string(writer, "display_name", title);
    ipb_json_member_string(writer, "language", "python");
    /* A signal would reach ipybox, and not the kernel. */
    ipb_json_member_string(writer, "interrupt_mode", "message");
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static bool
install(const SpecArguments *arguments, const char *folder, GError **error)
{
    const char *name = arguments->name != NULL ? arguments->name : DEFAULT_NAME;
    g_autofree char *directory = g_build_filename(folder, name, NULL);
    g_autofree char *path = g_build_filename(directory, "kernel.json", NULL);
    g_autofree char *program = g_file_read_link("/proc/self/exe", error);
    g_autoptr(GError) read_error = NULL;
    if (program == NULL || !ipb_gateway_kernelspec_check_name(name, error))
        return false;
    if (arguments->kernel.is_staged && !arguments->kernel.is_sandboxed) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "--staged needs a sandbox: it cannot be used with --no-sandbox");
        return false;
    }
    if (arguments->kernel.staging_dir != NULL && !arguments->kernel.is_staged) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "--staging-dir needs --staged");
        return false;
    }
    if (arguments->kernel.sandbox_config != NULL &&
        access(arguments->kernel.sandbox_config, R_OK) != 0)
        return ipb_error_set_errno(error, errno, "cannot read --sandbox-config %s",
                                   arguments->kernel.sandbox_config);
    g_autoptr(IpbGatewayKernelspec) existing = read_spec(folder, name, &read_error);
    if (existing == NULL && !g_error_matches(read_error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&read_error));
        return false;
    }
    g_autofree char *text = write_spec(arguments, program);
    if (g_mkdir_with_parents(directory, 0755) < 0)
        return ipb_error_set_errno(error, errno, "cannot make %s", directory);
    if (!g_file_set_contents(path, text, -1, error))
        return false;
    printf("%s\n", path);
    return true;
}

/* --- list and remove -------------------------------------------------------------------------- */

static void
describe(const char *folder, const char *name, const IpbGatewayKernelspec *spec,
         IpbJsonWriter *writer)
{
    const char *title = ipb_gateway_kernelspec_title(spec);
    g_autofree char *directory = g_build_filename(folder, name, NULL);
    if (writer == NULL) {
        g_autofree char *printable = ipb_cli_printable(title != NULL ? title : "");
        printf("%s: %s, in %s\n", name, printable, directory);
        return;
    }
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", name);
    ipb_json_member_string(writer, "display_name", title);
    ipb_json_member_string(writer, "directory", directory);
    ipb_json_end_object(writer);
}

static bool
list(const SpecArguments *arguments, const char *folder, GError **error)
{
    g_autoptr(GDir) directory = g_dir_open(folder, 0, NULL); /* if there is none, nothing is */
    IpbJsonWriter *writer = arguments->as_json ? ipb_json_writer_new() : NULL;
    const char *name;
    if (writer != NULL)
        ipb_json_begin_array(writer);
    while (directory != NULL && (name = g_dir_read_name(directory)) != NULL) {
        g_autoptr(IpbGatewayKernelspec) spec = read_spec(folder, name, NULL);
        if (spec != NULL)
            describe(folder, name, spec, writer);
    }
    if (writer != NULL) {
        ipb_json_end_array(writer);
        g_autofree char *text = ipb_json_writer_finish(writer, NULL);
        puts(text);
    }
    return true;
}

static bool
remove_spec(const SpecArguments *arguments, const char *folder, GError **error)
{
    const char *name = arguments->name != NULL ? arguments->name : DEFAULT_NAME;
    if (!ipb_gateway_kernelspec_check_name(name, error))
        return false;
    g_autoptr(IpbGatewayKernelspec) spec = read_spec(folder, name, error);
    if (spec == NULL)
        return false;
    g_autofree char *directory = g_build_filename(folder, name, NULL);
    g_autofree char *path = g_build_filename(directory, "kernel.json", NULL);
    if (g_unlink(path) < 0)
        return ipb_error_set_errno(error, errno, "cannot remove %s", path);
    if (g_rmdir(directory) < 0 && errno != ENOTEMPTY) /* it has a logo, too */
        return ipb_error_set_errno(error, errno, "cannot remove %s", directory);
    printf("%s\n", path);
    return true;
}

/* --- the command line ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*func)(const SpecArguments *arguments, const char *folder, GError **error);
} ACTIONS[] = {{"install", install}, {"list", list}, {"remove", remove_spec}};

static bool
run_action(const SpecArguments *arguments, const char *action, GError **error)
{
    g_autofree char *folder = find_folder(arguments);
    for (size_t i = 0; action != NULL && i < G_N_ELEMENTS(ACTIONS); i++)
        if (strcmp(ACTIONS[i].name, action) == 0)
            return ACTIONS[i].func(arguments, folder, error);
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "give one of: install, list, remove");
    return false;
}

static int
run_kernelspec(int argc, char **argv)
{
    SpecArguments arguments = {.kernel.is_sandboxed = true};
    const GOptionEntry options[] = {
        {"name", 0, 0, G_OPTION_ARG_STRING, &arguments.name,
         "of the kernelspec (default: " DEFAULT_NAME ")", "NAME"},
        {"display-name", 0, 0, G_OPTION_ARG_STRING, &arguments.title,
         "what front ends show (default: " SANDBOXED_TITLE ")", "TEXT"},
        {"prefix", 0, 0, G_OPTION_ARG_FILENAME, &arguments.prefix,
         "install below DIR, such as an environment (default: for the user)", "DIR"},
        IPB_OPTION_PYTHON(&arguments.kernel),
        IPB_OPTION_PRELOAD(&arguments.kernel),
        IPB_OPTION_SANDBOX_CONFIG(&arguments.kernel, ""),
        {"no-sandbox", 0, G_OPTION_FLAG_REVERSE, G_OPTION_ARG_NONE, &arguments.kernel.is_sandboxed,
         "kernels run without a sandbox", NULL},
        IPB_OPTION_STAGED(&arguments.kernel, " until it is committed"),
        IPB_OPTION_STAGING_DIR(&arguments.kernel),
        {"approve", 0, 0, G_OPTION_ARG_FILENAME, &arguments.approve,
         "tool calls: allow, ask (default), deny, or a file of rules", "POLICY|FILE"},
        {"audit-log", 0, 0, G_OPTION_ARG_FILENAME, &arguments.audit_log,
         "append a JSON line to FILE for each decision on a tool call", "FILE"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &arguments.as_json, "list: print JSON", NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_kernelspec, options,
                       "install lists ipybox among the kernels of JupyterLab, VS Code, nbclient "
                       "and others; list and remove\nshow and remove what it has installed.",
                       &argc, &argv, &status))
        return status;
    g_autoptr(GError) error = NULL;
    status = IPB_EXIT_OK;
    if (!run_action(&arguments, argc == 2 ? argv[1] : NULL, &error))
        status = ipb_cli_fail(&ipb_verb_kernelspec, ipb_cli_status(error), "%s", error->message);
    g_free(arguments.name);
    g_free(arguments.title);
    g_free(arguments.prefix);
    ipb_kernel_arguments_clear(&arguments.kernel);
    g_free(arguments.approve);
    g_free(arguments.audit_log);
    return status;
}

const IpbVerb ipb_verb_kernelspec = {"kernelspec", "install | list | remove",
                                     "list ipybox among the kernels of Jupyter's front ends",
                                     run_kernelspec};
