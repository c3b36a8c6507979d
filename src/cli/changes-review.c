/* SPDX-License-Identifier: Apache-2.0
 *
 * The user approves what is frozen: nothing that is written after the question is committed. If
 * there is too much to read, the user is not asked, but told to commit it in parts.
 */
#include "cli/changes-review.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/display-text.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/unified-diff.h"
#include "command/known-paths.h"
#include "json/writer.h"
#include "session/installation-paths.h"
#include "session/record.h"
#include "session/staged-workspace.h"

/* More paths are not asked about at once. */
#define MAX_ASKED 500
#define MAX_ANSWER 80
#define MAX_DIFF_FILE_BYTES ((size_t) 1 << 20)
#define MAX_DIFF_BYTES ((size_t) 256 << 10)

static int
fail(const IpbChangesReview *review, const GError *error)
{
    return ipb_cli_fail(review->verb, ipb_cli_status(error), "%s", error->message);
}

static char *
state_directory(void)
{
    return g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
}

char *
ipb_changes_review_place(const char *staging_dir)
{
    g_autofree char *state = state_directory();
    return ipb_staged_workspace_place(staging_dir, state);
}

/* --- what may be committed -------------------------------------------------------------------- */

/* As that of a kernel in this workspace. */
static IpbSandboxPlan *
make_plan(const IpbLayer *layer, const char *config, GError **error)
{
    const char *workspace = ipb_layer_workspace(layer);
    g_autoptr(IpbSandboxPolicy) policy = config != NULL
                                             ? ipb_sandbox_policy_load(workspace, config, error)
                                             : ipb_sandbox_policy_default();
    if (policy == NULL)
        return NULL;
    g_autoptr(IpbRegistry) registry = ipb_registry_new(NULL);
    g_autofree char *state = state_directory();
    g_auto(GStrv) packages = ipb_installation_paths_packages(registry, workspace, error);
    g_auto(GStrv) environments =
        packages != NULL ? ipb_known_paths_environments(state, workspace, error) : NULL;
    if (environments == NULL)
        return NULL;
    const char *const hide[] = {state, ipb_layer_directory(layer), NULL};
    const char *const keep_out[] = {config, NULL};
    const IpbPlanOptions options = {
        .policy = policy,
        .workspace = workspace,
        .home = g_get_home_dir(),
        .keep_out = keep_out,
        .hide = hide,
        .packages = (const char *const *) packages,
        .environments = (const char *const *) environments,
        .limits = IPB_SANDBOX_LIMITS_DEFAULT,
    };
    return ipb_sandbox_plan_new(&options, error);
}

/* --- showing ---------------------------------------------------------------------------------- */

static char *
printable(const char *path)
{
    g_autofree char *valid = g_utf8_make_valid(path, -1);
    g_autofree char *line = ipb_cli_printable(valid);
    /* A line is one path. */
    return g_strdelimit(g_steal_pointer(&line), "\n\t", '?');
}

static void
print_change(FILE *out, const IpbLayerChange *change)
{
    g_autofree char *path = printable(change->path);
    g_autofree char *problem = change->problem != NULL ? printable(change->problem) : NULL;
    g_autofree char *size = g_format_size(change->size);
    bool has_size = change->type == IPB_NAME_FILE && change->kind != IPB_CHANGE_REMOVED;
    fprintf(out, "  %c %s%s", "+~-"[change->kind], path,
            change -> type == IPB_NAME_DIRECTORY ? "/" : "");
    if (has_size)
        fprintf(out, "  (%s)", size);
    if (change->type == IPB_NAME_LINK)
        fputs("  (symbolic link)", out);
    if (problem != NULL)
        fprintf(out, "\n      %s: %s", change->is_conflict ? "conflict" : "cannot be committed",
                problem);
    fputc('\n', out);
}

static void
print_changes(FILE *out, const IpbLayerChanges *changes)
{
    for (guint i = 0; i < changes->changes->len; i++)
        print_change(out, g_ptr_array_index(changes->changes, i));
    if (changes->cut != NULL) {
        g_autofree char *cut = printable(changes->cut);
        fprintf(out, "  … not all: %s\n", cut);
    }
}

static void
print_diffs(FILE *out, IpbLayer *layer, const IpbLayerChanges *changes)
{
    for (guint i = 0; i < changes->changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes->changes, i);
        g_autofree char *before = NULL, *after = NULL, *name = printable(change->path);
        if (change->type != IPB_NAME_FILE ||
            !ipb_layer_read_both(layer, change->path, MAX_DIFF_FILE_BYTES, &before, &after)) {
            fprintf(out, "%s: no text, or too large\n", name);
            continue;
        }
        bool is_removed = change->kind == IPB_CHANGE_REMOVED;
        g_autofree char *diff =
            ipb_unified_diff(name, before != NULL ? before : "",
                             after != NULL && !is_removed ? after : "", MAX_DIFF_BYTES);
        fputs(diff, out);
    }
}

static void
print_json(const IpbLayerChanges *changes)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_staged_result_write(&(IpbStagedResult){.changes = changes}, IPB_STAGED_MAX_SHOWN, writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
}

int
ipb_changes_review_show(const IpbChangesReview *review, bool as_json, bool has_diffs)
{
    g_autoptr(GError) error = NULL;
    IpbLayer *layer = ipb_layer_open(review->layer, &error);
    g_autoptr(IpbSandboxPlan) plan =
        layer != NULL ? make_plan(layer, review->sandbox_config, &error) : NULL;
    int status = IPB_EXIT_OK;
    if (plan != NULL) {
        g_autoptr(IpbLayerChanges) changes = ipb_layer_list(layer, plan);
        if (as_json)
            print_json(changes);
        else
            print_changes(stdout, changes);
        if (has_diffs)
            print_diffs(stdout, layer, changes);
    } else {
        status = fail(review, error);
    }
    ipb_layer_close(layer, false);
    return status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static bool
read_answer(int terminal, char answer[static MAX_ANSWER])
{
    ssize_t n = read(terminal, answer, MAX_ANSWER - 1);
    if (n <= 0)
        return false;
    answer[n] = '\0';
    g_strstrip(answer);
    return true;
}

/* The end of input is a no. */
static bool
ask(const IpbChangesReview *review, IpbLayer *layer, const IpbLayerChanges *changes, int terminal)
{
    g_autofree char *workspace = printable(ipb_layer_workspace(layer));
    char answer[MAX_ANSWER];
    for (;;) {
        fprintf(stderr, "Commit this to %s? [y]es, [n]o, [d]iff: ", workspace);
        if (!read_answer(terminal, answer))
            return false;
        if (g_ascii_strcasecmp(answer, "y") == 0 || g_ascii_strcasecmp(answer, "yes") == 0)
            return true;
        if (g_ascii_strcasecmp(answer, "n") == 0 || g_ascii_strcasecmp(answer, "no") == 0)
            return false;
        if (g_ascii_strcasecmp(answer, "d") == 0 || g_ascii_strcasecmp(answer, "diff") == 0)
            print_diffs(stderr, layer, changes);
    }
}

static void
report_count(const IpbChangesReview *review, const IpbLayerChanges *changes, unsigned n_problems,
             const char *what)
{
    unsigned n_done = changes->changes->len - n_problems;
    ipb_cli_say(review->verb, "%u %s %s, %u %s not", n_done,
                n_done == 1 ? "change was" : "changes were", what, n_problems,
                n_problems == 1 ? "was" : "were");
}

static void
say_what_to_do(const IpbChangesReview *review)
{
    g_autofree char *name = g_path_get_basename(review->layer);
    ipb_cli_say(review->verb,
                "the changes are kept: 'ipybox changes commit %s' or 'ipybox changes discard %s'",
                name, name);
}

static unsigned
count_problems(const IpbLayerChanges *changes)
{
    unsigned n = 0;
    for (guint i = 0; i < changes->changes->len; i++)
        n += ((IpbLayerChange *) g_ptr_array_index(changes->changes, i))->problem != NULL;
    return n;
}

/* The commit is made: what fails now is reported only. */
static void
record_commit(const IpbChangesReview *review, const IpbLayer *layer, const IpbLayerChanges *done)
{
    g_autoptr(GError) error = NULL;
    if (review->record == NULL)
        return;
    g_autoptr(IpbRecord) record =
        ipb_record_resume(ipb_layer_workspace(layer), review->record, &error);
    if (record != NULL)
        ipb_record_changes(record, ipb_layer_directory(layer), false,
                           &(IpbStagedResult){.changes = done}, NULL, &error);
    if (error != NULL)
        ipb_cli_say(review->verb, "the commit is not in the record: %s", error->message);
}

static int
commit(const IpbChangesReview *review, IpbLayer *layer, const IpbSandboxPlan *plan)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbLayerChanges) done = ipb_layer_commit(layer, plan, &error);
    if (done == NULL)
        return fail(review, error);
    record_commit(review, layer, done);
    unsigned n_problems = count_problems(done);
    report_count(review, done, n_problems, "committed");
    if (n_problems == 0)
        return IPB_EXIT_OK;
    for (guint i = 0; i < done->changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(done->changes, i);
        if (change->problem != NULL)
            print_change(stderr, change);
    }
    return IPB_EXIT_FAILED;
}

/* If it returns false, *ret_status is the exit status. */
static bool
may_commit(const IpbChangesReview *review, IpbLayer *layer, const IpbLayerChanges *frozen,
           const char *digest, int *ret_status)
{
    ipb_autofd terminal = -1;
    *ret_status = IPB_EXIT_OK;
    if (review->is_approved)
        return true;
    if (frozen->changes->len > MAX_ASKED) {
        ipb_cli_say(review->verb,
                    "%u changes are too many to be read: commit them in parts, by paths",
                    frozen->changes->len);
        say_what_to_do(review);
        return false;
    }
    print_changes(stderr, frozen);
    fprintf(stderr, "  SHA-256 %s\n", digest);
    if (!review->is_unasked && isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (terminal >= 0 && ask(review, layer, frozen, terminal))
        return true;
    if (terminal < 0 && review->must_ask) {
        *ret_status = ipb_cli_fail(review->verb, IPB_EXIT_FAILED,
                                   "there is no terminal to ask at, and nothing was committed: "
                                   "commit it without a question with --yes");
        return false;
    }
    say_what_to_do(review);
    return false;
}

static int
review_layer(const IpbChangesReview *review, IpbLayer *layer)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *digest = NULL;
    g_autoptr(IpbSandboxPlan) plan = make_plan(layer, review->sandbox_config, &error);
    if (plan == NULL)
        return fail(review, error);
    /* It was approved before the kill. */
    if (ipb_layer_is_interrupted(layer)) {
        ipb_cli_say(review->verb, "finishing the commit that was interrupted");
        return commit(review, layer, plan);
    }
    g_autoptr(IpbLayerChanges) frozen =
        ipb_layer_freeze(layer, plan, review->paths, &digest, &error);
    if (frozen == NULL)
        return fail(review, error);
    if (frozen->changes->len == 0)
        return IPB_EXIT_OK;
    int status;
    return may_commit(review, layer, frozen, digest, &status) ? commit(review, layer, plan)
                                                              : status;
}

/* A layer without changes is removed. */
static void
close_layer(IpbLayer *layer)
{
    ipb_layer_close(layer, ipb_layer_is_empty(layer));
}

int
ipb_changes_review_commit(const IpbChangesReview *review)
{
    g_autoptr(GError) error = NULL;
    IpbLayer *layer = ipb_layer_open(review->layer, &error);
    if (layer == NULL)
        return g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND) && review->paths == NULL
                   ? IPB_EXIT_OK
                   : fail(review, error);
    int status = review_layer(review, layer);
    close_layer(layer);
    return status;
}

static int
discard(const IpbChangesReview *review, bool is_quiet)
{
    g_autoptr(GError) error = NULL;
    IpbLayer *layer = ipb_layer_open(review->layer, &error);
    if (layer == NULL)
        return is_quiet && g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)
                   ? IPB_EXIT_OK
                   : fail(review, error);
    g_autoptr(IpbLayerChanges) undone = ipb_layer_discard(layer, review->paths, -1, NULL, &error);
    int status = IPB_EXIT_OK;
    if (undone == NULL) {
        status = fail(review, error);
    } else {
        unsigned n_problems = count_problems(undone);
        if (!is_quiet || n_problems > 0)
            report_count(review, undone, n_problems, "discarded");
        status = n_problems == 0 ? IPB_EXIT_OK : IPB_EXIT_FAILED;
    }
    close_layer(layer);
    return status;
}

int
ipb_changes_review_discard(const IpbChangesReview *review)
{
    return discard(review, false);
}

int
ipb_changes_review_drop(const IpbChangesReview *review)
{
    return discard(review, true);
}
