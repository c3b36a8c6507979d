/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of cells; see the header and <ipybox/event.h>.
 */
#include "lib/result.h"

#include <string.h>

#include "base/error.h"
#include "lib/event.h"
#include "session/cell-text.h"

/* The beginning of a notice, which violations do not have. */
#define NOTICE_PREFIX "[ipybox] "

struct IpyboxResult {
    IpyboxStatus status;
    char *text;
    bool is_truncated, is_undone;
    char **images;
    char **notices;
    GPtrArray *violations;                      /* texts, and the NULL at the end */
    char *error_name, *error_value, *traceback; /* NULL: no exception */
    char *message;                              /* or NULL */
    int64_t execution_count;                    /* 0: it did not run */
    char *changes, *changes_cut;                /* or NULL */
};

struct IpbLibCollector {
    IpbCellText *text;
    IpyboxResult *result; /* in the making */
};

/* --- collecting ------------------------------------------------------------------------------ */

IpbLibCollector *
ipb_lib_collector_new(size_t max_text_chars)
{
    IpbLibCollector *collector = g_new(IpbLibCollector, 1);
    collector->text = ipb_cell_text_new(max_text_chars > 0 ? max_text_chars : SIZE_MAX);
    collector->result = g_new0(IpyboxResult, 1);
    collector->result->violations = g_ptr_array_new_with_free_func(g_free);
    return collector;
}

void
ipb_lib_collector_free(IpbLibCollector *collector)
{
    if (collector == NULL)
        return;
    ipb_cell_text_free(collector->text);
    ipybox_result_free(collector->result);
    g_free(collector);
}

static void
take_error(IpyboxResult *result, const IpbEvent *event)
{
    g_free(result->error_name);
    g_free(result->error_value);
    g_free(result->traceback);
    result->error_name = g_strdup(event->ename);
    result->error_value = g_strdup(event->evalue);
    result->traceback = g_strdup(event->text);
}

static void
take_violation(IpyboxResult *result, const char *notice)
{
    const char *text =
        g_str_has_prefix(notice, NOTICE_PREFIX) ? notice + strlen(NOTICE_PREFIX) : notice;
    char *valid = ipb_lib_make_valid(text, strlen(text));
    g_ptr_array_add(result->violations, valid != NULL ? valid : g_strdup(text));
}

/* A session's statuses are the public ones, in the same order. */
#define SAME_STATUS(name) G_STATIC_ASSERT((int) IPB_CELL_##name == (int) IPYBOX_STATUS_##name)
SAME_STATUS(OK);
SAME_STATUS(ERROR);
SAME_STATUS(TIMEOUT);
SAME_STATUS(CANCELLED);
SAME_STATUS(LOST);

static char *
copy_valid(const char *text)
{
    char *valid = ipb_lib_make_valid(text, strlen(text));
    return valid != NULL ? valid : g_strdup(text);
}

static char **
copy_paths(const GPtrArray *paths)
{
    char **copy = g_new0(char *, paths->len + 1);
    for (guint i = 0; i < paths->len; i++)
        copy[i] = g_strdup(g_ptr_array_index(paths, i));
    return copy;
}

static char **
copy_texts(const GPtrArray *texts)
{
    char **copy = g_new0(char *, texts->len + 1);
    for (guint i = 0; i < texts->len; i++)
        copy[i] = copy_valid(g_ptr_array_index(texts, i));
    return copy;
}

static IpyboxResult *
finish(IpbLibCollector *collector, const IpbEvent *done)
{
    IpyboxResult *result = g_steal_pointer(&collector->result);
    result->status = (IpyboxStatus) done->status;
    g_ptr_array_add(result->violations, NULL);
    result->message = g_strdup(done->text);
    result->execution_count = done->execution_count;
    result->is_undone = done->is_undone;
    result->changes = g_strdup(done->changes);
    result->changes_cut = g_strdup(done->changes_cut);
    g_autofree char *text = ipb_cell_text_get(collector->text);
    result->text = ipb_lib_make_valid(text, strlen(text));
    if (result->text == NULL)
        result->text = g_steal_pointer(&text);
    result->is_truncated = ipb_cell_text_is_truncated(collector->text);
    result->images = copy_paths(ipb_cell_text_images(collector->text));
    result->notices = copy_texts(ipb_cell_text_notices(collector->text));
    g_clear_pointer(&collector->text, ipb_cell_text_free);
    return result;
}

IpyboxResult *
ipb_lib_collector_add(IpbLibCollector *collector, const IpbEvent *event)
{
    if (event->type == IPB_EVENT_DONE)
        return finish(collector, event);
    if (event->type == IPB_EVENT_ERROR)
        take_error(collector->result, event);
    if (event->type == IPB_EVENT_NOTICE && event->is_violation)
        take_violation(collector->result, event->text);
    ipb_cell_text_add(collector->text, event);
    return NULL;
}

IpyboxResult *
ipb_lib_result_new_cancelled(void)
{
    IpyboxResult *result = g_new0(IpyboxResult, 1);
    result->status = IPYBOX_STATUS_CANCELLED;
    result->text = g_strdup("");
    result->images = g_new0(char *, 1);
    result->notices = g_new0(char *, 1);
    result->violations = g_ptr_array_new();
    g_ptr_array_add(result->violations, NULL);
    result->message = g_strdup("the cell was cancelled before it ran");
    return result;
}

/* --- getters --------------------------------------------------------------------------------- */

IpyboxStatus
ipybox_result_get_status(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, IPYBOX_STATUS_LOST);
    return result->status;
}

const char *
ipybox_result_get_text(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->text;
}

gboolean
ipybox_result_is_undone(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, FALSE);
    return result->is_undone;
}

const char *
ipybox_result_get_changes(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->changes;
}

const char *
ipybox_result_get_changes_cut(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->changes_cut;
}

gboolean
ipybox_result_is_truncated(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, FALSE);
    return result->is_truncated;
}

const char *const *
ipybox_result_get_images(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return (const char *const *) result->images;
}

const char *const *
ipybox_result_get_notices(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return (const char *const *) result->notices;
}

const char *const *
ipybox_result_get_violations(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return (const char *const *) result->violations->pdata;
}

const char *
ipybox_result_get_error_name(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->error_name;
}

const char *
ipybox_result_get_error_value(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->error_value;
}

const char *
ipybox_result_get_traceback(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->traceback;
}

int64_t
ipybox_result_get_execution_count(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, 0);
    return result->execution_count;
}

const char *
ipybox_result_get_message(const IpyboxResult *result)
{
    g_return_val_if_fail(result != NULL, NULL);
    return result->message;
}

static void
set_exception(const IpyboxResult *result, GError **error)
{
    bool has_value = result->error_value != NULL && *result->error_value != '\0';
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CODE, "%s%s%s",
                result->error_name != NULL ? result->error_name : "the cell failed",
                has_value ? ": " : "", has_value ? result->error_value : "");
}

gboolean
ipybox_result_check(const IpyboxResult *result, GError **error)
{
    g_return_val_if_fail(result != NULL, FALSE);
    const char *message = result->message != NULL ? result->message : "no reason was given";
    switch (result->status) {
    case IPYBOX_STATUS_OK:
        return TRUE;
    case IPYBOX_STATUS_ERROR:
        set_exception(result, error);
        break;
    case IPYBOX_STATUS_TIMEOUT:
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT, message);
        break;
    case IPYBOX_STATUS_CANCELLED:
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, message);
        break;
    case IPYBOX_STATUS_LOST:
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, message);
        break;
    }
    return FALSE;
}

void
ipybox_result_free(IpyboxResult *result)
{
    if (result == NULL)
        return;
    g_free(result->text);
    g_strfreev(result->images);
    g_strfreev(result->notices);
    g_ptr_array_unref(result->violations);
    g_free(result->error_name);
    g_free(result->error_value);
    g_free(result->traceback);
    g_free(result->message);
    g_free(result->changes);
    g_free(result->changes_cut);
    g_free(result);
}
