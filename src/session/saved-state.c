/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables in a file; see the header. ipybox_kernel/saved_state.py does the work.
 */
#include "session/saved-state.h"

#include <string.h>

#include "base/error.h"
#include "json/writer.h"

/* As in the kernel. */
#define MAX_NAMES 10000
#define MAX_NAME 4096
#define MAX_WHY 8192
#define MAX_PATH_SIZE 4096

#define MODULE "__import__('ipybox_kernel.saved_state', fromlist=['run'])"
#define EXPRESSIONS "{\"report\":\"" MODULE ".take_report()\"}"

struct IpbSavedState {
    IpbSavedStateFunc func;
    void *data;
    char *failure; /* the exception of the cell, or NULL */
};

void
ipb_saved_state_free(IpbSavedState *state)
{
    if (state == NULL)
        return;
    g_free(state->failure);
    g_free(state);
}

/* --- the request ------------------------------------------------------------------------------ */

static bool
check_names(const char *const *names, GError **error)
{
    size_t n = 0;
    for (; names != NULL && names[n] != NULL; n++) {
        if (n >= MAX_NAMES || strlen(names[n]) > MAX_NAME || !g_utf8_validate(names[n], -1, NULL)) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "there may be %d names of variables, in UTF-8, of %d bytes at most",
                        MAX_NAMES, MAX_NAME);
            return false;
        }
    }
    return true;
}

static bool
check_path(const char *path, GError **error)
{
    if (*path != '\0' && strlen(path) <= MAX_PATH_SIZE && g_utf8_validate(path, -1, NULL))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "the path of saved variables must be UTF-8, of 1 to %d bytes", MAX_PATH_SIZE);
    return false;
}

/* JSON with everything that the kernel needs. The caller frees it. */
static char *
make_request(IpbSession *session, IpbStateAction action, const char *path, const char *const *names)
{
    g_autofree char *absolute = g_canonicalize_filename(path, ipb_session_workspace(session));
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "action", action == IPB_STATE_SAVE ? "save" : "load");
    ipb_json_member_string(writer, "path", absolute);
    ipb_json_key(writer, "names");
    if (names == NULL) {
        ipb_json_write_null(writer);
    } else {
        ipb_json_begin_array(writer);
        for (size_t i = 0; names[i] != NULL; i++)
            ipb_json_write_string(writer, names[i]);
        ipb_json_end_array(writer);
    }
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

/* A string of JSON in UTF-8 is one of Python, too. The caller frees it. */
static char *
make_code(const char *request)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_string(writer, request);
    g_autofree char *literal = ipb_json_writer_finish(writer, NULL);
    return g_strdup_printf(MODULE ".run(get_ipython(), %s)", literal);
}

/* --- the report ------------------------------------------------------------------------------- */

static bool
is_valid(const char *text, size_t max)
{
    return text != NULL && strlen(text) <= max && g_utf8_validate(text, -1, NULL);
}

static bool
write_names(IpbJsonWriter *writer, const IpbJson *names)
{
    if (!ipb_json_is(names, IPB_JSON_ARRAY) || ipb_json_length(names) > MAX_NAMES)
        return false;
    ipb_json_key(writer, "names");
    ipb_json_begin_array(writer);
    IPB_JSON_FOREACH (name, names) {
        if (!is_valid(ipb_json_string(name, NULL), MAX_NAME))
            return false;
        ipb_json_write_string(writer, ipb_json_string(name, NULL));
    }
    ipb_json_end_array(writer);
    return true;
}

static bool
write_failed(IpbJsonWriter *writer, const IpbJson *failed)
{
    if (!ipb_json_is(failed, IPB_JSON_OBJECT) || ipb_json_length(failed) > MAX_NAMES)
        return false;
    ipb_json_key(writer, "failed");
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (why, failed) {
        const char *name = ipb_json_name(why, NULL), *text = ipb_json_string(why, NULL);
        if (!is_valid(name, MAX_NAME) || text == NULL)
            return false;
        g_autofree char *valid = g_utf8_make_valid(text, (gssize) strnlen(text, MAX_WHY));
        ipb_json_member_string(writer, name, valid);
    }
    ipb_json_end_object(writer);
    return true;
}

/* NULL: the kernel's report is wrong. The caller frees it. */
static char *
read_report(const IpbEvent *done)
{
    const IpbJson *value = ipb_json_get(done->user_expressions, "report");
    const IpbJson *report = ipb_json_get(ipb_json_get(value, "data"), "application/json");
    g_autoptr(IpbJsonWriter) writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    if (!write_names(writer, ipb_json_get(report, "names")) ||
        !write_failed(writer, ipb_json_get(report, "failed")))
        return NULL;
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(g_steal_pointer(&writer), NULL);
}

static GError *
make_error(const IpbSavedState *state, const IpbEvent *done)
{
    IpyboxError code = IPYBOX_ERROR_PROTOCOL;
    const char *text = done->text;
    switch (done->status) {
    case IPB_CELL_OK:
        text = "the kernel did not report which variables there are";
        break;
    case IPB_CELL_ERROR:
        code = IPYBOX_ERROR_CODE;
        text = state->failure;
        break;
    case IPB_CELL_TIMEOUT:
        code = IPYBOX_ERROR_TIMEOUT;
        break;
    case IPB_CELL_INTERRUPTED:
    case IPB_CELL_CANCELLED:
        code = IPYBOX_ERROR_CANCELLED;
        break;
    case IPB_CELL_LOST:
        code = IPYBOX_ERROR_KERNEL_DIED;
        break;
    }
    return g_error_new_literal(IPYBOX_ERROR, (int) code,
                               text != NULL ? text : "it was interrupted");
}

static void
on_event(const IpbEvent *event, void *data)
{
    IpbSavedState *state = data;
    if (event->type == IPB_EVENT_ERROR) {
        g_free(state->failure);
        state->failure = g_strdup_printf("%s: %s", event->ename, event->evalue);
    }
    if (event->type != IPB_EVENT_DONE)
        return;
    g_autofree char *report = event->status == IPB_CELL_OK ? read_report(event) : NULL;
    g_autoptr(GError) error = report == NULL ? make_error(state, event) : NULL;
    state->func(report, error, state->data);
}

IpbSavedState *
ipb_saved_state_new(IpbSession *session, IpbStateAction action, const char *path,
                    const char *const *names, unsigned timeout_ms, IpbSavedStateFunc func,
                    void *data, uint64_t *ret_number, GError **error)
{
    if (!check_path(path, error) || !check_names(names, error))
        return NULL;
    g_autofree char *request = make_request(session, action, path, names);
    g_autofree char *code = make_code(request);
    const IpbCellOptions options = {
        .timeout_ms = timeout_ms,
        .is_silent = true,
        .user_expressions = EXPRESSIONS,
    };
    IpbSavedState *state = g_new0(IpbSavedState, 1);
    state->func = func;
    state->data = data;
    *ret_number = ipb_session_execute_with(session, code, &options, on_event, state, error);
    if (*ret_number == 0)
        g_clear_pointer(&state, ipb_saved_state_free);
    return state;
}
