/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of a kernel; see the header. The kernel's reply is untrusted: texts are shortened and
 * made printable.
 *
 * A kernel that runs a cell replies when the cell has ended. The client is answered before that,
 * after a time, but the call stays until the reply comes or the kernel ends.
 */
#include "serve/mcp/variables.h"

#include <string.h>

#include "base/display-text.h"

#define REPLY_TIMEOUT_MS 5000
/* As in the kernel. */
#define MAX_VARIABLES 500
#define MAX_TEXT 400

typedef struct {
    GString *text;
    IpbJsonWriter *writer;
} Listing;

/* A text of the kernel on one line; NULL if it is none. Caller frees. */
static char *
read_text(const IpbJson *variable, const char *name)
{
    const char *raw = ipb_json_get_string(variable, name);
    if (raw == NULL)
        return NULL;
    g_autofree char *valid = g_utf8_make_valid(raw, (gssize) strnlen(raw, MAX_TEXT));
    char *shown = ipb_display_text_printable(valid);
    g_strdelimit(shown, "\n\t", ' ');
    return shown;
}

static void
list_variable(Listing *listing, const IpbJson *variable)
{
    g_autofree char *name = read_text(variable, "name");
    g_autofree char *type = read_text(variable, "type");
    g_autofree char *size = read_text(variable, "size");
    g_autofree char *value = read_text(variable, "value");
    if (name == NULL || type == NULL)
        return;
    g_string_append_printf(listing->text, "%s: %s", name, type);
    if (size != NULL)
        g_string_append_printf(listing->text, ", size %s", size);
    if (value != NULL)
        g_string_append_printf(listing->text, " = %s", value);
    g_string_append_c(listing->text, '\n');
    ipb_json_begin_object(listing->writer);
    ipb_json_member_string(listing->writer, "name", name);
    ipb_json_member_string(listing->writer, "type", type);
    ipb_json_member_string(listing->writer, "size", size);
    ipb_json_member_string(listing->writer, "value", value);
    ipb_json_end_object(listing->writer);
}

static void
finish(IpbServedCall *call, const IpbJson *result)
{
    int64_t left_out = 0;
    size_t n = 0;
    g_autoptr(GString) text = g_string_new(NULL);
    Listing listing = {text, ipb_json_writer_new()};
    ipb_json_get_int64(result, "left_out", &left_out);
    ipb_json_begin_object(listing.writer);
    ipb_json_key(listing.writer, "variables");
    ipb_json_begin_array(listing.writer);
    IPB_JSON_FOREACH (variable, ipb_json_get(result, "variables")) {
        if (n++ == MAX_VARIABLES)
            break;
        list_variable(&listing, variable);
    }
    ipb_json_end_array(listing.writer);
    ipb_json_member_int(listing.writer, "left_out", left_out);
    ipb_json_end_object(listing.writer);
    call->structured = ipb_json_writer_finish(listing.writer, NULL);
    if (left_out > 0)
        g_string_append_printf(text, "[%" G_GINT64_FORMAT " more variables are left out]\n",
                               left_out);
    if (text->len == 0)
        g_string_append(text, "There are no variables.");
    g_strchomp(text->str);
    ipb_served_call_finish(call, text->str, false);
}

static void
on_reply(const IpbJson *result, const GError *error, void *data)
{
    IpbServedCall *call = data;
    if (error != NULL)
        ipb_served_call_fail(call, error->message);
    else
        finish(call, result);
}

static void
on_timeout(void *data)
{
    IpbServedCall *call = data;
    g_clear_pointer(&call->waiting_timer, ipb_timer_free);
    ipb_served_call_answer_early(call, "the kernel is busy with a cell. Try again when it has "
                                       "ended");
}

void
ipb_variables_list(IpbServedCall *call, const IpbJson *arguments)
{
    g_autoptr(GError) error = NULL;
    if (!ipb_session_request(call->session, "variables", "{}", on_reply, call, &error)) {
        ipb_served_call_fail(call, error->message);
        return;
    }
    call->waiting_timer = ipb_timer_new(call->loop, REPLY_TIMEOUT_MS, on_timeout, call);
}
