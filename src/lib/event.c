/* SPDX-License-Identifier: Apache-2.0
 *
 * Events; see <ipybox/event.h>. A public event is a view of the core's while its callback runs.
 * Texts that getters have to make, such as JSON, are made when they are asked for and freed after
 * the callback.
 */
#include "lib/event.h"

#include <string.h>

#include "json/writer.h"
#include "kernel/bundle-text.h"
#include "lib/block.h"

struct IpyboxEvent {
    IpyboxEventType type;
    const IpbEvent *core;
    GPtrArray *made;  /* texts that getters made */
    GHashTable *json; /* IpbJson → its text, borrowed from `made` */
};

/* The core's types begin with the public ones, in the same order. */
#define SAME_TYPE(name) G_STATIC_ASSERT((int) IPB_EVENT_##name == (int) IPYBOX_EVENT_##name)
SAME_TYPE(STDOUT);
SAME_TYPE(STDERR);
SAME_TYPE(LATE_OUTPUT);
SAME_TYPE(DISPLAY);
SAME_TYPE(UPDATE);
SAME_TYPE(CLEAR_OUTPUT);
SAME_TYPE(RESULT);
SAME_TYPE(ERROR);
SAME_TYPE(TOOL_PROGRESS);
SAME_TYPE(NOTICE);
SAME_TYPE(READY);
SAME_TYPE(START_FAILED);
SAME_TYPE(INPUT_REQUEST);
SAME_TYPE(INPUT_WITHDRAWN);

void
ipb_lib_event_report(IpyboxSession *session, const IpbEvent *event, IpyboxEventFunc func,
                     gpointer user_data)
{
    if (func == NULL || event->type > IPB_EVENT_INPUT_WITHDRAWN)
        return;
    g_autoptr(GPtrArray) made = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) json = g_hash_table_new(NULL, NULL);
    IpyboxEvent reported = {
        .type = (IpyboxEventType) event->type, .core = event, .made = made, .json = json};
    ipb_block_enter_callback();
    func(session, &reported, user_data);
    ipb_block_leave_callback();
}

char *
ipb_lib_make_valid(const char *text, size_t size)
{
    /* Validation ends at a NUL as at any other byte that is not valid. */
    return g_utf8_validate_len(text, size, NULL) ? NULL : g_utf8_make_valid(text, (gssize) size);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static char *
text_of_json(const IpbJson *value)
{
    size_t size;
    const char *string = ipb_json_string(value, &size);
    if (string != NULL) {
        char *valid = ipb_lib_make_valid(string, size);
        return valid != NULL ? valid : g_strdup(string);
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_value(writer, value);
    return ipb_json_writer_finish(writer, NULL);
}

/* The value as text, made once; NULL if there is no value. */
static const char *
get_json(const IpyboxEvent *event, const IpbJson *value)
{
    if (value == NULL)
        return NULL;
    const char *text = g_hash_table_lookup(event->json, value);
    if (text != NULL)
        return text;
    char *made = text_of_json(value);
    g_ptr_array_add(event->made, made);
    g_hash_table_insert(event->json, (void *) value, made);
    return made;
}

/* --- getters --------------------------------------------------------------------------------- */

IpyboxEventType
ipybox_event_get_type(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, IPYBOX_EVENT_NOTICE);
    return event->type;
}

const char *
ipybox_event_get_text(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    return event->core->text;
}

const char *
ipybox_event_get_data(const IpyboxEvent *event, const char *mime_type)
{
    g_return_val_if_fail(event != NULL && mime_type != NULL, NULL);
    return get_json(event, ipb_json_get(event->core->data, mime_type));
}

const char *
ipybox_event_get_bundle_text(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    g_autofree char *text = ipb_bundle_text(event->core->data);
    if (text == NULL)
        return NULL;
    char *valid = ipb_lib_make_valid(text, strlen(text));
    char *made = valid != NULL ? valid : g_steal_pointer(&text);
    g_ptr_array_add(event->made, made);
    return made;
}

const char *
ipybox_event_get_bundle(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    return get_json(event, event->core->data);
}

const char *
ipybox_event_get_metadata(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    return get_json(event, event->core->metadata);
}

const char *
ipybox_event_get_display_id(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    return event->core->display_id;
}

const char *
ipybox_event_get_image_path(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    return event->core->image_path;
}

const char *
ipybox_event_get_error_name(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    return event->core->ename;
}

const char *
ipybox_event_get_error_value(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, NULL);
    return event->core->evalue;
}

guint64
ipybox_event_get_input(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, 0);
    return event->core->input;
}

gboolean
ipybox_event_get_is_password(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, FALSE);
    return event->core->is_password;
}

gboolean
ipybox_event_get_wait(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, FALSE);
    return event->core->wait;
}

gboolean
ipybox_event_get_is_late(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, FALSE);
    return event->core->is_late;
}

int64_t
ipybox_event_get_execution_count(const IpyboxEvent *event)
{
    g_return_val_if_fail(event != NULL, 0);
    return event->core->is_late ? event->core->execution_count : 0;
}
