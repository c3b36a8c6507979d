/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools about the changes of a staged workspace; see the header.
 */
#include "serve/mcp/changes-tools.h"

#include <string.h>

#include "base/display-text.h"

/* Changes of an answer; the others are counted. A model reads all of it. */
#define MAX_SHOWN 200
/* Bytes of the diffs of an answer. */
#define MAX_DIFF_BYTES ((size_t) 20000)

/* --- the answer ------------------------------------------------------------------------------- */

static void
append_change(GString *text, const IpbLayerChange *change)
{
    bool is_file = change->type == IPB_NAME_FILE;
    g_autofree char *valid = g_utf8_make_valid(change->path, -1);
    g_string_append_printf(text, "\n%c ", "+~-"[change->kind]);
    ipb_display_text_quote(text, valid, strlen(valid));
    if (is_file && change->kind != IPB_CHANGE_REMOVED)
        g_string_append_printf(text, " (%" G_GUINT64_FORMAT " bytes)", change->size);
    else if (!is_file)
        g_string_append_printf(text, " (%s)", ipb_staged_type_name(change->type));
    if (change->problem != NULL) {
        g_autofree char *problem = g_utf8_make_valid(change->problem, -1);
        g_autofree char *printable = ipb_display_text_printable(problem);
        g_string_append_printf(text, "\n  %s: %s", change->is_conflict ? "conflict" : "problem",
                               printable);
    }
}

static void
append_changes(GString *text, const IpbLayerChanges *changes)
{
    guint n = changes->changes->len;
    for (guint i = 0; i < MIN(n, MAX_SHOWN); i++)
        append_change(text, g_ptr_array_index(changes->changes, i));
    if (n > MAX_SHOWN)
        g_string_append_printf(text, "\n[%u more. The argument paths chooses some]", n - MAX_SHOWN);
    if (changes->cut != NULL) {
        g_autofree char *valid = g_utf8_make_valid(changes->cut, -1);
        g_autofree char *printable = ipb_display_text_printable(valid);
        g_string_append_printf(text, "\n[Not all could be found: %s]", printable);
    }
}

/* Those that fit, and a note about the others. Caller frees the array, but not what is in it. */
static char **
choose_diffs(GString *text, const IpbStagedResult *result)
{
    guint n = result->changes->changes->len, n_left_out = 0;
    char **chosen = g_new0(char *, n + 1);
    size_t left = MAX_DIFF_BYTES;
    for (guint i = 0; i < n; i++) {
        char *diff = result->diffs[i];
        bool fits = i < MAX_SHOWN && strlen(diff) <= left;
        n_left_out += !fits && *diff != '\0';
        chosen[i] = fits ? diff : (char *) "";
        left -= strlen(chosen[i]);
        if (*chosen[i] != '\0')
            g_string_append_printf(text, "\n\n%s", chosen[i]);
    }
    if (n_left_out > 0)
        g_string_append_printf(text,
                               "\n\n[The diffs of %u files are left out: choose fewer with paths, "
                               "or read the files]",
                               n_left_out);
    return chosen;
}

static void
finish(IpbServedCall *call, const IpbStagedResult *result, GString *text, bool is_error)
{
    IpbStagedResult shown = *result;
    append_changes(text, result->changes);
    g_autofree char **diffs = result->diffs != NULL ? choose_diffs(text, result) : NULL;
    shown.diffs = diffs;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_staged_result_write(&shown, MAX_SHOWN, writer);
    call->structured = ipb_json_writer_finish(writer, NULL);
    ipb_served_call_finish(call, text->str, is_error);
}

static void
on_listed(const IpbStagedResult *result, const GError *error, void *data)
{
    if (error != NULL) {
        ipb_served_call_fail(data, error->message);
        return;
    }
    guint n = result->changes->changes->len;
    g_autoptr(GString) text = g_string_new(NULL);
    if (n == 0)
        g_string_append(text, "Nothing has changed.");
    else
        g_string_append_printf(text, "%u change%s that the workspace does not have yet:", n,
                               n == 1 ? "" : "s");
    finish(data, result, text, false);
}

static void
on_done(IpbServedCall *call, const IpbStagedResult *result, const char *what)
{
    const GPtrArray *changes = result->changes->changes;
    g_autoptr(GString) text = g_string_new(NULL);
    guint n_done = 0;
    for (guint i = 0; i < changes->len; i++)
        n_done += ((IpbLayerChange *) g_ptr_array_index(changes, i))->is_done;
    if (changes->len == 0)
        g_string_append(text, "Nothing has changed.");
    else
        g_string_append_printf(text, "%u of %u changes were %s:", n_done, changes->len, what);
    finish(call, result, text, n_done == 0 && changes->len > 0);
}

static void
on_committed(const IpbStagedResult *result, const GError *error, void *data)
{
    if (error != NULL)
        ipb_served_call_fail(data, error->message);
    else
        on_done(data, result, "committed");
}

static void
on_discarded(const IpbStagedResult *result, const GError *error, void *data)
{
    if (error != NULL)
        ipb_served_call_fail(data, error->message);
    else
        on_done(data, result, "discarded");
}

/* --- the calls -------------------------------------------------------------------------------- */

/* The argument paths; *@ret_paths is NULL if there is none. False: the call was refused. The caller
 * frees the array. */
static bool
read_paths(IpbServedCall *call, const IpbJson *arguments, char ***ret_paths)
{
    const IpbJson *value = ipb_json_get(arguments, "paths");
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    bool is_valid = ipb_json_is(value, IPB_JSON_ARRAY) && ipb_json_length(value) > 0;
    *ret_paths = NULL;
    if (value == NULL || ipb_json_is(value, IPB_JSON_NULL))
        return true;
    IPB_JSON_FOREACH (item, value) {
        size_t size = 0;
        const char *path = ipb_json_string(item, &size);
        is_valid = is_valid && path != NULL && strlen(path) == size;
        if (is_valid)
            g_strv_builder_add(builder, path);
    }
    if (is_valid)
        *ret_paths = g_strv_builder_end(builder);
    else
        ipb_served_call_refuse(call, "paths",
                               "an array of paths below the workspace, with one at least");
    return is_valid;
}

void
ipb_mcp_changes_tools_list(IpbServedCall *call, const IpbJson *arguments)
{
    g_auto(GStrv) paths = NULL;
    g_autoptr(GError) error = NULL;
    IpbStagedAction action =
        ipb_json_get_bool(arguments, "diffs", false) ? IPB_STAGED_LIST_DIFFS : IPB_STAGED_LIST;
    if (!read_paths(call, arguments, &paths))
        return;
    if (!ipb_session_work_on_changes(call->session, action, (const char *const *) paths, on_listed,
                                     call, &error))
        ipb_served_call_fail(call, error->message);
}

static void
cancel_request(IpbServedCall *call)
{
    ipb_session_cancel_changes(call->session);
}

static void
request(IpbServedCall *call, const IpbJson *arguments, bool is_discard, IpbStagedFunc func)
{
    g_auto(GStrv) paths = NULL;
    g_autoptr(GError) error = NULL;
    if (!read_paths(call, arguments, &paths))
        return;
    if (!ipb_session_request_changes(call->session, is_discard, (const char *const *) paths, func,
                                     call, &error)) {
        ipb_served_call_fail(call, error->message);
        return;
    }
    call->cancel = cancel_request;
    call->named->changing = call;
    call->slot = &call->named->changing;
}

void
ipb_mcp_changes_tools_commit(IpbServedCall *call, const IpbJson *arguments)
{
    request(call, arguments, /* is_discard= */ false, on_committed);
}

void
ipb_mcp_changes_tools_discard(IpbServedCall *call, const IpbJson *arguments)
{
    request(call, arguments, /* is_discard= */ true, on_discarded);
}
