/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox changes`: what staged sessions have written and no one has committed: list, show, commit,
 * discard.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/changes-review.h"
#include "cli/cli.h"
#include "json/writer.h"
#include "sandbox/layer.h"

typedef struct {
    char *staging_dir, *sandbox_config;
    int as_json, has_diffs, is_approved;
} Arguments;

static gint
compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* The names of the layers at @place, sorted. */
static GPtrArray *
list_names(const char *place)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    GDir *directory = g_dir_open(place, 0, NULL);
    const char *name;
    while (directory != NULL && (name = g_dir_read_name(directory)) != NULL)
        g_ptr_array_add(names, g_strdup(name));
    if (directory != NULL)
        g_dir_close(directory);
    g_ptr_array_sort(names, compare_names);
    return names;
}

/* NULL @layer: a running session has it, or it cannot be opened; @error says which. */
static void
print_layer(const char *name, IpbLayer *layer, const GError *error)
{
    if (layer == NULL) {
        g_autofree char *text = ipb_cli_printable(error->message);
        printf("%s  %s\n", name, text);
        return;
    }
    g_autoptr(GDateTime) started = g_date_time_new_from_unix_local(ipb_layer_started(layer));
    g_autofree char *time = started != NULL ? g_date_time_format(started, "%F %R") : NULL;
    g_autofree char *workspace = ipb_cli_printable(ipb_layer_workspace(layer));
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(layer, NULL);
    guint n = changes->changes->len;
    printf("%s  %s  %u %s  %s%s\n", name, time != NULL ? time : "", n,
           n == 1 ? "change" : "changes", workspace,
           ipb_layer_is_interrupted(layer) ? "  (a commit was interrupted)" : "");
}

static void
write_layer(IpbJsonWriter *writer, const char *name, IpbLayer *layer, const GError *error)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", name);
    if (layer == NULL) {
        ipb_json_member_string(writer, "error", error->message);
    } else {
        g_autoptr(IpbLayerChanges) changes = ipb_layer_list(layer, NULL);
        ipb_json_member_string(writer, "workspace", ipb_layer_workspace(layer));
        ipb_json_member_int(writer, "started", ipb_layer_started(layer));
        ipb_json_member_int(writer, "changes", changes->changes->len);
        ipb_json_member_bool(writer, "interrupted", ipb_layer_is_interrupted(layer));
    }
    ipb_json_end_object(writer);
}

static int
list_layers(const char *place, bool as_json)
{
    g_autoptr(GPtrArray) names = list_names(place);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *directory = g_build_filename(place, name, NULL);
        g_autoptr(GError) error = NULL;
        IpbLayer *layer = ipb_layer_open(directory, &error);
        if (as_json)
            write_layer(writer, name, layer, error);
        else
            print_layer(name, layer, error);
        ipb_layer_close(layer, false);
    }
    ipb_json_end_array(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    if (as_json)
        puts(text);
    else if (names->len == 0)
        fputs("No session has left changes.\n", stderr);
    return IPB_EXIT_OK;
}

static int
perform(const Arguments *arguments, int argc, char **argv)
{
    static const char *const COMMANDS[] = {"list", "show", "commit", "discard", NULL};
    g_autofree char *place = ipb_changes_review_place(arguments->staging_dir);
    const char *what = argc > 1 ? argv[1] : "list";
    if (g_str_equal(what, "list") && argc <= 2)
        return list_layers(place, arguments->as_json);
    if (g_str_equal(what, "list") || !g_strv_contains(COMMANDS, what))
        return ipb_cli_fail_command(&ipb_verb_changes, what, COMMANDS);
    if (argc < 3 || strchr(argv[2], '/') != NULL || *argv[2] == '.' || *argv[2] == '\0')
        return ipb_cli_fail(&ipb_verb_changes, IPB_EXIT_USAGE,
                            "\"%s\" needs a name from 'ipybox changes list'", what);
    g_autofree char *layer = g_build_filename(place, argv[2], NULL);
    if (!g_file_test(layer, G_FILE_TEST_IS_DIR))
        return ipb_cli_fail(&ipb_verb_changes, IPB_EXIT_FAILED,
                            "there are no changes called \"%s\": see 'ipybox changes list'",
                            argv[2]);
    const IpbChangesReview review = {
        .verb = &ipb_verb_changes,
        .layer = layer,
        .sandbox_config = arguments->sandbox_config,
        .paths = argc > 3 ? (const char *const *) argv + 3 : NULL,
        .is_approved = arguments->is_approved,
        .must_ask = true,
    };
    if (g_str_equal(what, "show") && argc == 3)
        return ipb_changes_review_show(&review, arguments->as_json, arguments->has_diffs);
    if (g_str_equal(what, "commit"))
        return ipb_changes_review_commit(&review);
    if (g_str_equal(what, "discard"))
        return ipb_changes_review_discard(&review);
    return ipb_cli_fail_command(&ipb_verb_changes, what, COMMANDS);
}

static int
run_changes(int argc, char **argv)
{
    Arguments arguments = {0};
    const GOptionEntry options[] = {
        {"yes", 'y', 0, G_OPTION_ARG_NONE, &arguments.is_approved, "commit without asking", NULL},
        {"diff", 0, 0, G_OPTION_ARG_NONE, &arguments.has_diffs, "show diffs of texts, too", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &arguments.as_json, "print JSON", NULL},
        {"sandbox-config", 0, 0, G_OPTION_ARG_FILENAME, &arguments.sandbox_config,
         "which names may be committed: ipybox-sandbox-config(5)", "FILE"},
        {"staging-dir", 0, 0, G_OPTION_ARG_FILENAME, &arguments.staging_dir,
         "where the changes are kept, if not in the state directory", "DIR"},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(
            &ipb_verb_changes, options,
            "Commands:\n  list                    print what sessions have left "
            "(default)\n  show NAME               print its changes\n"
            "  commit NAME PATH        write them to the workspace, after a question; several "
            "paths, or none for all\n"
            "  discard NAME PATH       forget them; likewise\n\n"
            "Example:\n  ipybox changes commit layer-Ab12Cd notes.txt",
            &argc, &argv, &status))
        return status;
    status = perform(&arguments, argc, argv);
    g_free(arguments.staging_dir);
    g_free(arguments.sandbox_config);
    return status;
}

const IpbVerb ipb_verb_changes = {
    "changes", "[list | show NAME | commit NAME [PATH …] | discard NAME [PATH …]]",
    "review what sessions with a staged workspace have changed", run_changes};
