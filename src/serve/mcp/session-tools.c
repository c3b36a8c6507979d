/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools about sessions; see the header.
 */
#include "serve/mcp/session-tools.h"

#include "base/error.h"

static int64_t
idle_seconds(const IpbNamedSession *session)
{
    return session->calls->len > 0
               ? 0
               : (g_get_monotonic_time() - session->used_at) / (int64_t) G_USEC_PER_SEC;
}

static int64_t
age_seconds(const IpbNamedSession *session)
{
    return (g_get_monotonic_time() - session->born_at) / (int64_t) G_USEC_PER_SEC;
}

static void
list_session(const IpbServedCall *call, IpbNamedSession *session, GString *text,
             IpbJsonWriter *writer)
{
    bool is_default = session == call->default_session;
    bool is_running = ipb_named_session_running_call(session) != NULL;
    int64_t idle_s = idle_seconds(session);
    session->is_told = true;
    g_string_append_printf(text, "%s%s: %u cells, ", session->id,
                           is_default ? " (of this connection)" : "", session->n_cells);
    if (is_running)
        g_string_append_printf(text, "running%s\n",
                               session->expiry != NULL ? ", ends after that" : "");
    else
        g_string_append_printf(text, "idle for %" G_GINT64_FORMAT " s\n", idle_s);
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "session_id", session->id);
    ipb_json_member_bool(writer, "is_default", is_default);
    ipb_json_member_bool(writer, "is_running", is_running);
    ipb_json_member_bool(writer, "is_ending", session->expiry != NULL);
    ipb_json_member_int(writer, "cells", session->n_cells);
    ipb_json_member_int(writer, "idle_seconds", idle_s);
    ipb_json_member_int(writer, "age_seconds", age_seconds(session));
    ipb_json_end_object(writer);
}

void
ipb_mcp_session_tools_list(IpbServedCall *call, const IpbJson *arguments)
{
    const GPtrArray *sessions = ipb_named_sessions_list(call->sessions);
    g_autoptr(GString) text = g_string_new(NULL);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "sessions");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < sessions->len; i++)
        list_session(call, g_ptr_array_index(sessions, i), text, writer);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    call->structured = ipb_json_writer_finish(writer, NULL);
    if (sessions->len == 0)
        g_string_append(text, "There are no sessions.");
    g_strchomp(text->str);
    ipb_served_call_finish(call, text->str, false);
}

void
ipb_mcp_session_tools_close(IpbServedCall *call, const IpbJson *arguments)
{
    const char *id = ipb_json_get_string(arguments, "session_id");
    g_autoptr(GError) error = NULL;
    if (id == NULL) {
        ipb_served_call_refuse(call, "session_id", "the id of a session");
        return;
    }
    IpbNamedSession *session = ipb_named_sessions_find(call->sessions, id, &error);
    if (session == NULL) {
        ipb_served_call_fail(call, error->message);
        return;
    }
    ipb_named_session_close(session, "was closed");
    ipb_served_call_finish_named(call, "message", "The session is closed.");
}
