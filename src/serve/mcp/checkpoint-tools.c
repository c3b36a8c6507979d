/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools about the state of a session's kernel; see the header.
 */
#include "serve/mcp/checkpoint-tools.h"

#include <inttypes.h>

#include "base/error.h"

/* Reads an argument that may be absent. False: it is not a string, and the call is refused. */
static bool
read_name(IpbServedCall *call, const IpbJson *arguments, const char *name, const char **ret_text)
{
    const IpbJson *value = ipb_json_get(arguments, name);
    *ret_text = ipb_json_get_string(arguments, name);
    if (value == NULL || ipb_json_is(value, IPB_JSON_NULL) || *ret_text != NULL)
        return true;
    ipb_served_call_refuse(call, name, "the name of a checkpoint");
    return false;
}

/* 0: there is none, and the call has failed with the names of those that there are. */
static uint64_t
find_checkpoint(IpbServedCall *call, const char *name)
{
    IpbCheckpoints *checkpoints = ipb_session_checkpoints(call->session);
    uint64_t id = ipb_checkpoints_find(checkpoints, name);
    if (id != 0)
        return id;
    g_autoptr(GArray) list = ipb_checkpoints_list(checkpoints);
    g_autoptr(GString) names = g_string_new(NULL);
    for (guint i = 0; i < list->len; i++)
        g_string_append_printf(names, "%s%s", i > 0 ? ", " : "",
                               g_array_index(list, IpbCheckpointInfo, i).name);
    g_autofree char *valid = g_utf8_make_valid(name, -1);
    g_autofree char *text =
        g_strdup_printf("there is no checkpoint \"%s\"; %s%s", valid,
                        list->len > 0 ? "the checkpoints are: " : "there are none", names->str);
    ipb_served_call_fail(call, text);
    return 0;
}

static void
append_warnings(GString *text, IpbJsonWriter *writer, const char *const *warnings)
{
    ipb_json_key(writer, "warnings");
    ipb_json_begin_array(writer);
    for (; *warnings != NULL; warnings++) {
        g_string_append_printf(text, "\n%s", *warnings);
        ipb_json_write_string(writer, *warnings);
    }
    ipb_json_end_array(writer);
}

/* --- checkpoint ------------------------------------------------------------------------------- */

static void
on_made(uint64_t id, const GError *error, void *data)
{
    IpbServedCall *call = data;
    IpbCheckpointInfo info;
    if (error != NULL) {
        ipb_served_call_fail(call, error->message);
        return;
    }
    ipb_checkpoints_get(ipb_session_checkpoints(call->session), id, &info);
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "The checkpoint \"%s\" keeps the state of the kernel.", info.name);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "checkpoint", info.name);
    append_warnings(text, writer, info.warnings);
    ipb_json_end_object(writer);
    call->structured = ipb_json_writer_finish(writer, NULL);
    ipb_served_call_finish(call, text->str, false);
}

void
ipb_mcp_checkpoint_tools_make(IpbServedCall *call, const IpbJson *arguments)
{
    const char *name, *drop;
    g_autoptr(GError) error = NULL;
    if (!read_name(call, arguments, "name", &name) || !read_name(call, arguments, "drop", &drop))
        return;
    if (drop != NULL) {
        uint64_t id = find_checkpoint(call, drop);
        if (id == 0)
            return;
        ipb_checkpoints_drop(ipb_session_checkpoints(call->session), id, &error);
    }
    if (error != NULL || !ipb_session_checkpoint(call->session, name, on_made, call, &error))
        ipb_served_call_fail(call, error->message);
}

/* --- restore and undo ------------------------------------------------------------------------- */

static void
report_restored(IpbServedCall *call, const GError *error, const char *text)
{
    if (error != NULL)
        ipb_served_call_fail(call, error->message);
    else
        ipb_served_call_finish_named(call, "message", text);
}

static void
on_restored(const GError *error, void *data)
{
    report_restored(data, error,
                    "The kernel has its earlier state again: variables, imports and definitions. "
                    "Files stay as they are.");
}

static void
on_restored_with_files(const GError *error, void *data)
{
    report_restored(data, error,
                    "The kernel has its earlier state again: variables, imports, definitions and "
                    "files of the workspace.");
}

/* The argument files. *@ret_func: what reports the end. False: the call was refused. */
static bool
read_files(IpbServedCall *call, const IpbJson *arguments, bool *ret_with_files,
           IpbRestoredFunc *ret_func)
{
    const IpbJson *value = ipb_json_get(arguments, "files");
    if (value != NULL && !ipb_json_is(value, IPB_JSON_NULL) && !ipb_json_is(value, IPB_JSON_BOOL)) {
        ipb_served_call_refuse(call, "files", "true or false");
        return false;
    }
    *ret_with_files = ipb_json_get_bool(arguments, "files", true);
    bool has_files = *ret_with_files && ipb_session_layer(call->session) != NULL;
    *ret_func = has_files ? on_restored_with_files : on_restored;
    return true;
}

void
ipb_mcp_checkpoint_tools_restore(IpbServedCall *call, const IpbJson *arguments)
{
    const char *name = ipb_json_get_string(arguments, "name");
    g_autoptr(GError) error = NULL;
    bool with_files;
    IpbRestoredFunc func;
    if (name == NULL) {
        ipb_served_call_refuse(call, "name", "the name of a checkpoint");
        return;
    }
    if (!read_files(call, arguments, &with_files, &func))
        return;
    uint64_t id = find_checkpoint(call, name);
    if (id != 0 && !ipb_session_restore(call->session, id, with_files, func, call, &error))
        ipb_served_call_fail(call, error->message);
}

void
ipb_mcp_checkpoint_tools_undo(IpbServedCall *call, const IpbJson *arguments)
{
    const IpbJson *value = ipb_json_get(arguments, "cells");
    int64_t n = 1;
    bool with_files;
    IpbRestoredFunc func;
    g_autoptr(GError) error = NULL;
    if (value != NULL && !ipb_json_is(value, IPB_JSON_NULL) &&
        (!ipb_json_get_int64(arguments, "cells", &n) || n < 1 || n > IPB_MAX_UNDO)) {
        ipb_served_call_refuse(call, "cells", "an integer from 1 to " G_STRINGIFY(IPB_MAX_UNDO));
        return;
    }
    if (!read_files(call, arguments, &with_files, &func))
        return;
    if (!ipb_session_undo(call->session, (unsigned) n, with_files, func, call, &error))
        ipb_served_call_fail(call, error->message);
}

/* --- branch ----------------------------------------------------------------------------------- */

/* The call may end before the new session, which owns this. */
typedef struct {
    IpbServedCall *call; /* NULL: it has ended */
    IpbNamedSession *named;
} Branch;

static void
forget_call(Branch *branch)
{
    if (branch->call != NULL)
        branch->call->slot = NULL;
    branch->call = NULL;
}

static void
free_branch(void *data)
{
    forget_call(data);
    g_free(data);
}

static void
answer_branch(IpbServedCall *call, IpbNamedSession *named, const char *const *warnings)
{
    g_autoptr(GString) text = g_string_new(NULL);
    named->is_told = true;
    g_string_append_printf(text,
                           "The branch has the session_id %s. Calls with it see this state; calls "
                           "without it do not.",
                           named->id);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session_id", named->id);
    append_warnings(text, writer, warnings);
    ipb_json_end_object(writer);
    call->structured = ipb_json_writer_finish(writer, NULL);
    ipb_served_call_finish(call, text->str, false);
}

static void
on_branched(const char *const *warnings, const GError *error, void *data)
{
    Branch *branch = data;
    IpbNamedSession *named = branch->named;
    IpbServedCall *call = branch->call;
    forget_call(branch);
    if (call != NULL && error == NULL) {
        answer_branch(call, named, warnings);
        return;
    }
    if (call != NULL)
        ipb_served_call_fail(call, error->message);
    if (!named->is_closing)
        ipb_named_session_close(named, "could not be branched");
}

void
ipb_mcp_checkpoint_tools_branch(IpbServedCall *call, const IpbJson *arguments)
{
    const char *name;
    g_autoptr(GError) error = NULL;
    uint64_t checkpoint = 0;
    if (!read_name(call, arguments, "checkpoint", &name) ||
        (name != NULL && (checkpoint = find_checkpoint(call, name)) == 0))
        return;
    Branch *branch = g_new0(Branch, 1);
    branch->named = ipb_named_sessions_branch(call->sessions, call->named, checkpoint, on_branched,
                                              branch, &error);
    if (branch->named == NULL) {
        g_free(branch);
        ipb_served_call_fail(call, error->message);
        return;
    }
    branch->named->branching = branch;
    branch->named->free_branching = free_branch;
    branch->call = call;
    call->slot = &branch->call;
}
