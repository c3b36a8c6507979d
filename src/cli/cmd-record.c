/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox record`: makes a notebook, Markdown or HTML of the record of a session, or runs its cells
 * again.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/replay.h"
#include "notebook/html.h"
#include "notebook/ipynb.h"
#include "notebook/markdown.h"

typedef struct {
    const char *name, *suffix;
    char *(*make)(const IpbRecording *recording, size_t *ret_size);
} Format;

static const Format FORMATS[] = {
    {"ipynb", ".ipynb", ipb_ipynb_make},
    {"md", ".md", ipb_markdown_make},
    {"html", ".html", ipb_html_make},
};

/* The format of --format, or else of the suffix. NULL with @error. */
static const Format *
find_format(const char *name, const char *to, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(FORMATS); i++)
        if (name != NULL ? g_str_equal(name, FORMATS[i].name)
                         : g_str_has_suffix(to, FORMATS[i].suffix))
            return &FORMATS[i];
    if (name != NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--format must be ipynb, md or html, not %s", name);
    else
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the name %s does not end in .ipynb, .md or .html: use --format", to);
    return NULL;
}

static bool
is_same_file(const char *a, const char *b)
{
    struct stat status_a, status_b;
    return stat(a, &status_a) == 0 && stat(b, &status_b) == 0 &&
           status_a.st_dev == status_b.st_dev && status_a.st_ino == status_b.st_ino;
}

/* A document has what the record has, so it is for its user only, until the user shares it. */
static bool
write_document(const char *to, const char *text, size_t size, GError **error)
{
    return g_str_equal(to, "-") ? ipb_fd_write_all(STDOUT_FILENO, text, size, error)
                                : ipb_file_write_atomic(to, text, size, 0600, error);
}

/* @base: see ipb_recording_read(). */
static IpbRecording *
read_record(const char *base, const char *path, IpbRecordingUse use, GError **error)
{
    size_t n_torn = 0;
    IpbRecording *recording = ipb_recording_read(base, path, use, &n_torn, error);
    if (n_torn > 0)
        ipb_cli_say(&ipb_verb_record, "%s: %zu incomplete %s ignored", path, n_torn,
                    n_torn == 1 ? "line was" : "lines were");
    return recording;
}

static bool
convert(const char *path, const char *to, const Format *format, GError **error)
{
    size_t size;
    if (is_same_file(path, to)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s is the record itself: name another file", to);
        return false;
    }
    g_autoptr(IpbRecording) recording = read_record(NULL, path, IPB_RECORDING_DOCUMENT, error);
    if (recording == NULL)
        return false;
    g_autofree char *text = format->make(recording, &size);
    return write_document(to, text, size, error);
}

/* --- replay ----------------------------------------------------------------------------------- */

/* Returns the exit status. A link in the workspace may be a cell's of an earlier run. */
static int
replay(IpbReplayArguments *arguments, const char *path, GError **error)
{
    if (!ipb_run_arguments_check(&arguments->run, error))
        return IPB_EXIT_USAGE;
    const char *record = arguments->run.kernel.record;
    if (record != NULL && is_same_file(path, record)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s is the record itself: name another file after --record", record);
        return IPB_EXIT_USAGE;
    }
    g_autofree char *workspace = ipb_run_arguments_workspace(&arguments->run);
    g_autoptr(IpbRecording) recording = read_record(
        arguments->run.kernel.is_sandboxed ? workspace : NULL, path, IPB_RECORDING_REPLAY, error);
    return recording != NULL ? ipb_replay(&ipb_verb_record, arguments, recording, error)
                             : IPB_EXIT_USAGE;
}

/* --- the command line ------------------------------------------------------------------------- */

typedef struct {
    char *to, *format;
    char *session;
    int is_replay, is_json;
    IpbReplayArguments replay;
} RecordArguments;

static bool
has_replay_option(const RecordArguments *arguments)
{
    const IpbRunArguments *run = &arguments->replay.run;
    const IpbKernelArguments *kernel = &run->kernel;
    return arguments->session != NULL || arguments->is_json || run->images_dir != NULL ||
           run->log_level != NULL || run->timeout_s != 0 || run->seed_text != NULL ||
           run->approval.approve != NULL || run->approval.audit_log != NULL ||
           run->approval.timeout_s != 0 || kernel->workspace != NULL || kernel->python != NULL ||
           kernel->preload != NULL || kernel->sandbox_config != NULL || kernel->domains != NULL ||
           kernel->record != NULL || kernel->is_staged || kernel->staging_dir != NULL ||
           !kernel->is_sandboxed;
}

/* What is wrong with the command line, or NULL. */
static const char *
find_problem(const RecordArguments *arguments, int argc)
{
    if (argc != 2 || (arguments->to == NULL) == !arguments->is_replay)
        return "give a record, and --to FILE or --replay";
    if (arguments->is_replay && arguments->format != NULL)
        return "--format and --replay cannot be used together";
    if (!arguments->is_replay && has_replay_option(arguments))
        return "--to and --format are the only options without --replay";
    return NULL;
}

static int
run_replay(RecordArguments *arguments, const char *path)
{
    g_autoptr(GError) error = NULL;
    arguments->replay.session = arguments->session;
    arguments->replay.is_json = arguments->is_json;
    int status = replay(&arguments->replay, path, &error);
    if (error != NULL)
        ipb_cli_say(&ipb_verb_record, "%s", error->message);
    return status;
}

static int
run_convert(const RecordArguments *arguments, const char *path)
{
    g_autoptr(GError) error = NULL;
    const Format *format = find_format(arguments->format, arguments->to, &error);
    if (format != NULL && convert(path, arguments->to, format, &error))
        return IPB_EXIT_OK;
    if (g_str_equal(arguments->to, "-") && !ipb_cli_has_reader(STDOUT_FILENO))
        return IPB_EXIT_NO_READER;
    return ipb_cli_fail(&ipb_verb_record, ipb_cli_status(error), "%s", error->message);
}

static int
run_record(int argc, char **argv)
{
    RecordArguments arguments = {.replay.run.kernel.is_sandboxed = TRUE};
    int status;
    const GOptionEntry options[] = {
        {"to", 0, 0, G_OPTION_ARG_FILENAME, &arguments.to,
         "write the document to FILE.ipynb, FILE.md or FILE.html; -: to standard output", "FILE"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &arguments.format,
         "ipynb, md or html (default: that of the name)", "FORMAT"},
        {"replay", 0, 0, G_OPTION_ARG_NONE, &arguments.is_replay,
         "run the cells in a new session, and report what differs; the following options are for "
         "this",
         NULL},
        {"session", 0, 0, G_OPTION_ARG_STRING, &arguments.session,
         "which session of the record, from 1 (default: the only one)", "N"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &arguments.is_json, "report in lines of JSON", NULL},
        IPB_OPTIONS_RUN(&arguments.replay.run),
        IPB_OPTION_STAGED(&arguments.replay.run.kernel, ", and discard it at the end"),
        IPB_OPTION_STAGING_DIR(&arguments.replay.run.kernel),
        G_OPTION_ENTRY_NULL,
    };
    if (!ipb_cli_parse(&ipb_verb_record, options,
                       "RECORD is a file that --record of `ipybox run` or `ipybox mcp` wrote.\n\n"
                       "Exit status: 0 success, 1 a file cannot be read or written, 2 the record "
                       "or the command\nline is wrong. With --replay: 0 nothing differs, 1 "
                       "something differs, 2 the cells cannot\nbe run, 3 something is missing.\n\n"
                       "Examples:\n"
                       "  ipybox record session.jsonl --to session.ipynb\n"
                       "  ipybox record --replay session.jsonl",
                       &argc, &argv, &status))
        return status;
    const char *problem = find_problem(&arguments, argc);
    if (problem != NULL)
        status = ipb_cli_fail(&ipb_verb_record, IPB_EXIT_USAGE, "%s", problem);
    else if (arguments.is_replay)
        status = run_replay(&arguments, argv[1]);
    else
        status = run_convert(&arguments, argv[1]);
    ipb_run_arguments_clear(&arguments.replay.run);
    g_free(arguments.to);
    g_free(arguments.format);
    g_free(arguments.session);
    return status;
}

const IpbVerb ipb_verb_record = {"record", "RECORD --to FILE | --replay RECORD",
                                 "make a document of the record of a session, or run it again",
                                 run_record};
