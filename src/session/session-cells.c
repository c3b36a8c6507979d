/* SPDX-License-Identifier: Apache-2.0
 *
 * The cells of a session: their queue, what the kernel tells of the running one, its time limit.
 *
 * Invariant: at most one cell is current (given to the kernel), the others wait in the queue in order. A current cell
 * ends only by the kernel's DONE, which always comes.
 */
#include <string.h>

#include "base/error.h"
#include "session/cell.h"
#include "session/images.h"
#include "session/session-private.h"

/* Shown with one cell. */
#define MAX_VIOLATIONS 10
#define MAX_KEPT_NOTICES 100
/* Cells that may wait behind the running one. */
#define MAX_WAITING_CELLS 1000
#define MAX_CODE_SIZE (32u * 1024 * 1024)

static void start_next_cell(IpbSession *session);

static void
on_cell_timeout(void *data)
{
    IpbSession *session = data;
    session->current->is_timed_out = true;
    ipb_approvals_cancel_all(session->approvals);
    ipb_kernel_interrupt(session->kernel);
}

void
ipb_session_on_approval_wait(bool is_waiting, void *data)
{
    IpbSession *session = data;
    session->is_waiting_for_approval = is_waiting;
    if (session->current == NULL || session->current->is_timed_out)
        return;
    if (is_waiting)
        ipb_cell_stop_clock(session->current);
    else
        ipb_cell_start_clock(session->current, on_cell_timeout, session);
}

/* The end of a cell, however it ended; the cell is freed. @event: the kernel's; NULL if it never came there. */
static void
end_cell(IpbCell *cell, IpbCellStatus status, const char *text, const IpbEvent *event)
{
    ipb_cell_stop_clock(cell);
    ipb_cell_emit(cell, &(IpbEvent){
                            .type = IPB_EVENT_DONE,
                            .status = status,
                            .text = text,
                            .execution_count = event != NULL ? event->execution_count : 0,
                            .user_expressions = event != NULL ? event->user_expressions : NULL,
                        });
    ipb_cell_free(cell);
}

/* What a cell's end means to whoever asked for it. @ret_text: caller frees. */
static IpbCellStatus
explain_end(const IpbCell *cell, const IpbEvent *event, char **ret_text)
{
    bool is_lost = event->status == IPB_CELL_LOST;
    bool has_handled_interrupt = event->status == IPB_CELL_OK && !cell->is_cancelled;
    *ret_text = NULL;
    if (cell->is_timed_out) {
        *ret_text = g_strdup_printf(
            "Code execution exceeded timeout of %.2fs (approval wait excluded). %s%s",
            cell->timeout_ms / 1000.0,
            is_lost ? "The kernel is gone; variables are lost: "
                    : "The cell was interrupted; variables are kept.",
            is_lost ? event->text : "");
        return IPB_CELL_TIMEOUT;
    }
    if (cell->is_cancelled || (cell->is_interrupted && !has_handled_interrupt)) {
        *ret_text = is_lost ? g_strdup(event->text) : g_strdup("the cell was interrupted");
        return IPB_CELL_CANCELLED;
    }
    if (is_lost)
        *ret_text = g_strdup(event->text);
    switch (event->status) {
    case IPB_CELL_OK:
        return IPB_CELL_OK;
    case IPB_CELL_ERROR:
    case IPB_CELL_INTERRUPTED: /* by a SIGINT of somebody else: the error event has said it */
        return IPB_CELL_ERROR;
    case IPB_CELL_TIMEOUT: /* of no kernel */
    case IPB_CELL_CANCELLED:
    case IPB_CELL_LOST:
        break;
    }
    return IPB_CELL_LOST;
}

static void
tell_notice(IpbSession *session, const char *text)
{
    g_autofree char *notice = g_strconcat("[ipybox] ", text, NULL);
    ipb_cell_emit(session->current, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice});
}

static void
tell_kept_notices(IpbSession *session)
{
    GQueue kept = session->kept_notices;
    g_queue_init(&session->kept_notices); /* who is told may keep them again */
    char *next;
    while ((next = g_queue_pop_head(&kept)) != NULL) {
        g_autofree char *notice = next;
        ipb_cell_emit(session->current, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice});
    }
}

/* Who cancelled the cell may not look at its end, and would wonder where the variables are. */
static void
tell_lost_state(const IpbSession *session, const IpbCell *cell, const IpbEvent *event)
{
    if (event->status != IPB_CELL_LOST || !cell->is_cancelled || cell->is_reset ||
        session->is_closing)
        return;
    g_autofree char *notice = g_strconcat("[ipybox] ", event->text, NULL);
    ipb_cell_emit(cell, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice});
}

static void
on_kernel_done(IpbSession *session, const IpbEvent *event)
{
    tell_kept_notices(session); /* of a cell that never began */
    IpbCell *cell = g_steal_pointer(&session->current);
    g_autofree char *text = NULL;
    IpbCellStatus status = explain_end(cell, event, &text);
    if (status == IPB_CELL_LOST)
        ipb_approvals_cancel_all(session->approvals);
    if (session->sandboxing != NULL) {
        session->current = cell; /* what is told now is this cell's */
        ipb_sandboxing_sweep(session->sandboxing);
        session->current = NULL;
    }
    if (event->is_cwd_reset && session->working_dir != NULL) {
        g_autofree char *notice = g_strdup_printf("[ipybox] cwd reset to %s", session->working_dir);
        ipb_cell_emit(cell,
                      &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice, .is_in_text = true});
    }
    tell_lost_state(session, cell, event);
    end_cell(cell, status, text, event);
    start_next_cell(session);
}

void
ipb_session_tell_violation(IpbSession *session, const char *text)
{
    ipb_session_log(session, session->current != NULL ? "info" : "warning", text);
    if (session->current == NULL || session->current->n_violations >= MAX_VIOLATIONS)
        return;
    bool is_last = ++session->current->n_violations == MAX_VIOLATIONS;
    g_autofree char *notice = g_strdup_printf(
        "[ipybox] %s%s", text, is_last ? " (further denials are in the log only)" : "");
    ipb_cell_emit(session->current,
                  &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice, .is_violation = true});
}

/* A bundle: its image is saved first, so that the event can name the file. */
static void
emit_bundle(IpbSession *session, const IpbEvent *event)
{
    g_autofree char *image_path = NULL;
    g_autoptr(GError) error = NULL;
    if (!session->saves_no_images && !ipb_images_save(event->data, session->images_dir,
                                                      session->workspace, &image_path, &error)) {
        g_autofree char *notice = g_strdup_printf("image not saved: %s", error->message);
        tell_notice(session, notice);
    }
    IpbEvent told = *event;
    told.image_path = image_path;
    ipb_cell_emit(session->current, &told);
}

static void
on_cell_started(IpbSession *session, const IpbEvent *event)
{
    if (!session->is_waiting_for_approval)
        ipb_cell_start_clock(session->current, on_cell_timeout, session);
    ipb_cell_emit(session->current, event);
    tell_kept_notices(session);
}

/* Once for a session: the failures of the next process are the same. */
static void
log_preload_failures(IpbSession *session, const IpbEvent *event)
{
    const char *const *failure = event->preload_failures;
    if (failure == NULL || session->has_logged_preload_failures)
        return;
    session->has_logged_preload_failures = true;
    for (; *failure != NULL; failure++) {
        g_autofree char *text = g_strdup_printf("not preloaded: %s", *failure);
        ipb_session_log(session, "warning", text);
    }
}

/* It belongs to no cell. */
static void
report(IpbSession *session, const IpbEvent *event)
{
    if (session->on_event != NULL)
        session->on_event(event, session->data);
}

/* Events that belong to no cell; false for all others. */
static bool
take_kernel_event(IpbSession *session, const IpbEvent *event)
{
    if (event->cell != 0)
        return false;
    if (event->type == IPB_EVENT_READY)
        log_preload_failures(session, event);
    if (event->type == IPB_EVENT_NOTICE) {
        g_autofree char *notice = g_strconcat("[ipybox] ", event->text, NULL);
        report(session, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice});
    } else {
        report(session, event);
    }
    return true;
}

void
ipb_session_report_late_output(IpbSession *session)
{
    if (session->current != NULL || session->is_closing)
        return;
    GQueue kept = session->kept_notices;
    g_queue_init(&session->kept_notices); /* the callback may keep them again */
    char *next;
    while ((next = g_queue_pop_head(&kept)) != NULL) {
        g_autofree char *notice = next;
        report(session, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice});
    }
    ipb_kernel_report_late_output(session->kernel);
}

static void
explain_error(IpbSession *session, const IpbEvent *event)
{
    g_autofree char *text =
        session->sandboxing != NULL
            ? ipb_sandboxing_explain_error(session->sandboxing, event->ename, event->evalue)
            : NULL;
    if (text != NULL)
        ipb_session_tell_violation(session, text);
}

void
ipb_session_on_kernel_event(const IpbEvent *event, void *data)
{
    IpbSession *session = data;
    if (take_kernel_event(session, event) || session->current == NULL)
        return;
    switch (event->type) {
    case IPB_EVENT_STARTED:
        on_cell_started(session, event);
        break;
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
    case IPB_EVENT_LATE_OUTPUT:
    case IPB_EVENT_CLEAR_OUTPUT:
        ipb_cell_emit(session->current, event);
        break;
    case IPB_EVENT_NOTICE:
        tell_notice(session, event->text);
        break;
    case IPB_EVENT_ERROR:
        ipb_cell_emit(session->current, event);
        explain_error(session, event);
        break;
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_UPDATE:
    case IPB_EVENT_RESULT:
        emit_bundle(session, event);
        break;
    case IPB_EVENT_DONE:
        on_kernel_done(session, event);
        break;
    case IPB_EVENT_TOOL_PROGRESS: /* is the session's own */
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
        break;
    }
}

static void
start_next_cell(IpbSession *session)
{
    while (session->current == NULL && !session->is_closing && session->n_holds == 0) {
        IpbCell *cell = g_queue_pop_head(&session->waiting);
        if (cell == NULL)
            return;
        session->current = cell;
        g_autoptr(GError) error = NULL;
        IpbKernelCode code = {
            .code = cell->code,
            .is_silent = cell->is_silent,
            .stores_history = cell->stores_history,
            .user_expressions = cell->user_expressions,
        };
        cell->kernel_number = ipb_kernel_execute(session->kernel, &code, &error);
        if (cell->kernel_number != 0)
            return;
        session->current = NULL;
        end_cell(cell, IPB_CELL_LOST, error->message, NULL);
    }
}

static void
on_start_timer(void *data)
{
    IpbSession *session = data;
    g_clear_pointer(&session->start_timer, ipb_timer_free);
    start_next_cell(session);
}

void
ipb_session_hold_cells(IpbSession *session, bool is_held)
{
    g_return_if_fail(is_held || session->n_holds > 0);
    session->n_holds += is_held ? 1 : -1u;
    if (session->n_holds == 0 && session->start_timer == NULL)
        session->start_timer = ipb_timer_new(session->loop, 0, on_start_timer, session);
}

uint64_t
ipb_session_execute(IpbSession *session, const char *code, unsigned timeout_ms,
                    IpbEventFunc on_event, void *data, GError **error)
{
    IpbCellOptions options = {.timeout_ms = timeout_ms, .stores_history = true};
    return ipb_session_execute_with(session, code, &options, on_event, data, error);
}

uint64_t
ipb_session_execute_with(IpbSession *session, const char *code, const IpbCellOptions *options,
                         IpbEventFunc on_event, void *data, GError **error)
{
    size_t size = strlen(code);
    if (session->is_closing) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the session is closed");
        return 0;
    }
    if (size > MAX_CODE_SIZE || g_queue_get_length(&session->waiting) >= MAX_WAITING_CELLS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    size > MAX_CODE_SIZE ? "the code is larger than %u MiB"
                                         : "more than %u cells wait in this session",
                    size > MAX_CODE_SIZE ? MAX_CODE_SIZE >> 20 : MAX_WAITING_CELLS);
        return 0;
    }
    if (!g_utf8_validate_len(code, size, NULL)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "the code is not valid UTF-8");
        return 0;
    }
    IpbCell *cell = ipb_cell_new(session->loop, code, options, on_event, data);
    cell->number = ++session->last_cell;
    g_queue_push_tail(&session->waiting, cell);
    if (session->start_timer == NULL) /* from the loop: no event comes from within this call */
        session->start_timer = ipb_timer_new(session->loop, 0, on_start_timer, session);
    return cell->number;
}

static void
interrupt_current(IpbSession *session)
{
    ipb_approvals_cancel_all(session->approvals);
    ipb_kernel_interrupt(session->kernel);
}

bool
ipb_session_cancel(IpbSession *session, uint64_t number)
{
    if (session->current != NULL && session->current->number == number) {
        session->current->is_cancelled = true;
        interrupt_current(session);
        return true;
    }
    for (GList *link = session->waiting.head; link != NULL; link = link->next) {
        IpbCell *cell = link->data;
        if (cell->number != number)
            continue;
        g_queue_delete_link(&session->waiting, link);
        end_cell(cell, IPB_CELL_CANCELLED, "the cell was cancelled before it ran", NULL);
        return true;
    }
    return false;
}

void
ipb_session_interrupt(IpbSession *session)
{
    if (session->current == NULL)
        return;
    session->current->is_interrupted = true;
    interrupt_current(session);
}

void
ipb_session_keep_notices(IpbSession *session, const GPtrArray *notices)
{
    for (guint i = 0; i < notices->len; i++)
        if (g_queue_get_length(&session->kept_notices) < MAX_KEPT_NOTICES)
            g_queue_push_tail(&session->kept_notices, g_strdup(g_ptr_array_index(notices, i)));
}

bool
ipb_session_request(IpbSession *session, const char *method, const char *params,
                    IpbKernelReplyFunc func, void *data, GError **error)
{
    if (session->is_closing) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the session is closed");
        return false;
    }
    return ipb_kernel_request(session->kernel, method, params, func, data, error);
}

void
ipb_session_set_paused(IpbSession *session, bool paused)
{
    ipb_kernel_set_paused(session->kernel, paused);
}

void
ipb_session_drop_waiting_cells(IpbSession *session, const char *why)
{
    IpbCell *cell;
    while ((cell = g_queue_pop_head(&session->waiting)) != NULL)
        end_cell(cell, IPB_CELL_LOST, why, NULL);
}
