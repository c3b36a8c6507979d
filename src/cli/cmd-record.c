/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox record`: makes a notebook, Markdown or HTML of the record of a session.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "cli/cli.h"
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

static bool
convert(const char *path, const char *to, const Format *format, GError **error)
{
    size_t n_torn = 0, size;
    if (is_same_file(path, to)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "%s is the record itself: name another file", to);
        return false;
    }
    g_autoptr(IpbRecording) recording = ipb_recording_read(path, &n_torn, error);
    if (recording == NULL)
        return false;
    if (n_torn > 0)
        ipb_cli_say(&ipb_verb_record, "%s: %zu incomplete %s ignored", path, n_torn,
                    n_torn == 1 ? "line was" : "lines were");
    g_autofree char *text = format->make(recording, &size);
    return write_document(to, text, size, error);
}

static int
run_record(int argc, char **argv)
{
    g_autofree char *to = NULL;
    g_autofree char *name = NULL;
    int status;
    const GOptionEntry options[] = {
        {"to", 0, 0, G_OPTION_ARG_FILENAME, &to,
         "write the document to FILE.ipynb, FILE.md or FILE.html; -: to standard output", "FILE"},
        {"format", 0, 0, G_OPTION_ARG_STRING, &name,
         "ipynb, md or html (default: that of the name)", "FORMAT"},
        G_OPTION_ENTRY_NULL,
    };
    if (!ipb_cli_parse(&ipb_verb_record, options,
                       "RECORD is a file that --record of `ipybox run` or `ipybox mcp` wrote.\n\n"
                       "Exit status: 0 success, 1 a file cannot be read or written, 2 the record "
                       "or the command line is wrong.\n\nExample:\n"
                       "  ipybox record session.jsonl --to session.ipynb",
                       &argc, &argv, &status))
        return status;
    if (argc != 2 || to == NULL)
        return ipb_cli_fail(&ipb_verb_record, IPB_EXIT_USAGE, "give a record, and --to FILE");
    g_autoptr(GError) error = NULL;
    const Format *format = find_format(name, to, &error);
    if (format != NULL && convert(argv[1], to, format, &error))
        return IPB_EXIT_OK;
    if (g_str_equal(to, "-") && !ipb_cli_has_reader(STDOUT_FILENO))
        return IPB_EXIT_NO_READER;
    return ipb_cli_fail(&ipb_verb_record, ipb_cli_status(error), "%s", error->message);
}

const IpbVerb ipb_verb_record = {"record", "RECORD --to FILE",
                                 "make a notebook, Markdown or HTML of the record of a session",
                                 run_record};
