/* SPDX-License-Identifier: Apache-2.0
 *
 * A session puts kernel, tools and approvals together; see the header. This file has its life and the queue of cells;
 * registrations and installations are in session-jobs.c.
 *
 * Invariant: at most one cell is current (given to the kernel), the others wait in the queue in order. A current cell ends
 * only by the kernel's DONE, which always comes.
 */
#include "session/session.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "kernel/native-kernel.h"
#include "session/cell.h"
#include "session/environment.h"
#include "session/images.h"
#include "session/packages.h"
#include "session/session-private.h"

/* Cells that may wait behind the running one. */
#define MAX_WAITING_CELLS 1000
#define MAX_CODE_SIZE (32u * 1024 * 1024)

static void start_next_cell(IpbSession *session);

void
ipb_session_log(IpbSession *session, const char *level, const char *text)
{
    if (session->on_log != NULL)
        session->on_log(level, text, session->data);
}

static void
on_env_warning(const char *text, void *data)
{
    ipb_session_log(data, "warning", text);
}

static void
on_server_log(const char *server_name, const char *level, const char *text, void *data)
{
    g_autofree char *line = g_strdup_printf("%s: %s", server_name, text);
    ipb_session_log(data, level, line);
}

static void
on_tool_progress(const char *server_name, const char *tool_name, const IpbMcpProgress *progress,
                 void *data)
{
    IpbSession *session = data;
    if (session->current == NULL)
        return;
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s.%s: %g", server_name, tool_name, progress->progress);
    if (progress->total > 0)
        g_string_append_printf(text, "/%g", progress->total);
    if (progress->message != NULL)
        g_string_append_printf(text, " %s", progress->message);
    ipb_cell_emit(session->current,
                  &(IpbSessionEvent){.type = IPB_SESSION_TOOL_PROGRESS, .text = text->str});
}

/* --- cells ------------------------------------------------------------------------------------- */

static void
on_cell_timeout(void *data)
{
    IpbSession *session = data;
    session->current->is_timed_out = true;
    ipb_approvals_cancel_all(session->approvals);
    ipb_kernel_interrupt(session->kernel);
}

static void
on_approval_wait(bool is_waiting, void *data)
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

static void
on_approval_ask(const IpbApprovalRequest *request, void *data)
{
    IpbSession *session = data;
    session->on_approval(request, session->data);
}

/* The end of a cell, however it ended; the cell is freed. */
static void
end_cell(IpbCell *cell, IpbStatus status, const char *text, int64_t execution_count)
{
    ipb_cell_stop_clock(cell);
    ipb_cell_emit(cell, &(IpbSessionEvent){
                            .type = IPB_SESSION_DONE,
                            .status = status,
                            .text = text,
                            .execution_count = execution_count,
                        });
    ipb_cell_free(cell);
}

/* What a cell's end means to whoever asked for it. @ret_text: caller frees. */
static IpbStatus
explain_end(const IpbCell *cell, const IpbKernelEvent *event, char **ret_text)
{
    bool is_lost = event->status == IPB_CELL_LOST;
    *ret_text = NULL;
    if (cell->is_timed_out) {
        *ret_text = g_strdup_printf(
            "Code execution exceeded timeout of %.2fs (approval wait excluded).%s%s",
            cell->timeout_ms / 1000.0, is_lost ? " " : "", is_lost ? event->text : "");
        return IPB_STATUS_TIMEOUT;
    }
    if (cell->is_cancelled) {
        *ret_text = is_lost ? g_strdup(event->text) : g_strdup("the cell was interrupted");
        return IPB_STATUS_CANCELLED;
    }
    if (is_lost)
        *ret_text = g_strdup(event->text);
    switch (event->status) {
    case IPB_CELL_OK:
        return IPB_STATUS_OK;
    case IPB_CELL_ERROR:
    case IPB_CELL_INTERRUPTED: /* by a SIGINT of somebody else: the error event has said it */
        return IPB_STATUS_ERROR;
    case IPB_CELL_LOST:
        break;
    }
    return IPB_STATUS_LOST;
}

static void
on_kernel_done(IpbSession *session, const IpbKernelEvent *event)
{
    IpbCell *cell = g_steal_pointer(&session->current);
    g_autofree char *text = NULL;
    IpbStatus status = explain_end(cell, event, &text);
    if (status == IPB_STATUS_LOST)
        ipb_approvals_cancel_all(session->approvals);
    end_cell(cell, status, text, event->execution_count);
    start_next_cell(session);
}

/* A bundle: its image is saved first, so that the event can name the file. */
static void
emit_bundle(IpbSession *session, IpbSessionEventType type, const IpbKernelEvent *event)
{
    g_autofree char *image_path = NULL;
    g_autoptr(GError) error = NULL;
    if (!ipb_images_save(event->data, session->images_dir, &image_path, &error)) {
        g_autofree char *notice = g_strdup_printf("[ipybox] image not saved: %s", error->message);
        ipb_cell_emit(session->current,
                      &(IpbSessionEvent){.type = IPB_SESSION_NOTICE, .text = notice});
    }
    ipb_cell_emit(session->current, &(IpbSessionEvent){
                                        .type = type,
                                        .data = event->data,
                                        .metadata = event->metadata,
                                        .display_id = event->display_id,
                                        .image_path = image_path,
                                        .execution_count = event->execution_count,
                                    });
}

static void
emit_text(IpbSession *session, IpbSessionEventType type, const IpbKernelEvent *event)
{
    ipb_cell_emit(session->current, &(IpbSessionEvent){
                                        .type = type,
                                        .text = event->text,
                                        .ename = event->ename,
                                        .evalue = event->evalue,
                                        .wait = event->wait,
                                    });
}

static void
on_kernel_event(IpbKernel *kernel, const IpbKernelEvent *event, void *data)
{
    IpbSession *session = data;
    if (session->current == NULL)
        return; /* closed meanwhile */
    switch (event->type) {
    case IPB_KERNEL_STARTED:
        if (!session->is_waiting_for_approval)
            ipb_cell_start_clock(session->current, on_cell_timeout, session);
        break;
    case IPB_KERNEL_STDOUT:
        emit_text(session, IPB_SESSION_STDOUT, event);
        break;
    case IPB_KERNEL_STDERR:
        emit_text(session, IPB_SESSION_STDERR, event);
        break;
    case IPB_KERNEL_LATE_OUTPUT:
        emit_text(session, IPB_SESSION_LATE_OUTPUT, event);
        break;
    case IPB_KERNEL_CLEAR_OUTPUT:
        emit_text(session, IPB_SESSION_CLEAR_OUTPUT, event);
        break;
    case IPB_KERNEL_ERROR:
        emit_text(session, IPB_SESSION_ERROR, event);
        break;
    case IPB_KERNEL_DISPLAY:
        emit_bundle(session, IPB_SESSION_DISPLAY, event);
        break;
    case IPB_KERNEL_UPDATE_DISPLAY:
        emit_bundle(session, IPB_SESSION_UPDATE, event);
        break;
    case IPB_KERNEL_RESULT:
        emit_bundle(session, IPB_SESSION_RESULT, event);
        break;
    case IPB_KERNEL_DONE:
        on_kernel_done(session, event);
        break;
    }
}

static void
start_next_cell(IpbSession *session)
{
    while (session->current == NULL && !session->is_closing) {
        IpbCell *cell = g_queue_pop_head(&session->waiting);
        if (cell == NULL)
            return;
        session->current = cell;
        g_autoptr(GError) error = NULL;
        cell->kernel_number = ipb_kernel_execute(session->kernel, cell->code, &error);
        if (cell->kernel_number != 0)
            return;
        session->current = NULL;
        end_cell(cell, IPB_STATUS_LOST, error->message, 0);
    }
}

static void
on_start_timer(void *data)
{
    IpbSession *session = data;
    g_clear_pointer(&session->start_timer, ipb_timer_free);
    start_next_cell(session);
}

uint64_t
ipb_session_execute(IpbSession *session, const char *code, unsigned timeout_ms,
                    IpbSessionEventFunc on_event, void *data, GError **error)
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
    IpbCell *cell = ipb_cell_new(session->loop, code, timeout_ms, on_event, data);
    cell->number = ++session->last_cell;
    g_queue_push_tail(&session->waiting, cell);
    if (session->start_timer == NULL) /* from the loop: no event comes from within this call */
        session->start_timer = ipb_timer_new(session->loop, 0, on_start_timer, session);
    return cell->number;
}

bool
ipb_session_cancel(IpbSession *session, uint64_t number)
{
    if (session->current != NULL && session->current->number == number) {
        session->current->is_cancelled = true;
        ipb_approvals_cancel_all(session->approvals);
        ipb_kernel_interrupt(session->kernel);
        return true;
    }
    for (GList *link = session->waiting.head; link != NULL; link = link->next) {
        IpbCell *cell = link->data;
        if (cell->number != number)
            continue;
        g_queue_delete_link(&session->waiting, link);
        end_cell(cell, IPB_STATUS_CANCELLED, "the cell was cancelled before it ran", 0);
        return true;
    }
    return false;
}

void
ipb_session_interrupt(IpbSession *session)
{
    if (session->current != NULL)
        ipb_session_cancel(session, session->current->number);
}

void
ipb_session_set_paused(IpbSession *session, bool paused)
{
    ipb_kernel_set_paused(session->kernel, paused);
}

static void
drop_waiting_cells(IpbSession *session, const char *why)
{
    IpbCell *cell;
    while ((cell = g_queue_pop_head(&session->waiting)) != NULL)
        end_cell(cell, IPB_STATUS_LOST, why, 0);
}

/* --- tools ------------------------------------------------------------------------------------- */

bool
ipb_session_respond(IpbSession *session, uint64_t request, bool accept)
{
    return ipb_approvals_respond(session->approvals, request, accept);
}

void
ipb_session_set_approval(IpbSession *session, IpbApprovalPolicy policy)
{
    ipb_approvals_set_policy(session->approvals, policy);
}

void
ipb_session_allow(IpbSession *session, const IpbRegistration *registration)
{
    ipb_tool_host_allow(session->tool_host, registration);
}

void
ipb_session_reset(IpbSession *session, void (*done)(void *data), void *data)
{
    drop_waiting_cells(session, "the session was reset");
    ipb_approvals_cancel_all(session->approvals);
    ipb_kernel_reset(session->kernel);
    ipb_tool_host_reset(session->tool_host, done, data);
}

/* --- life -------------------------------------------------------------------------------------- */

const char *
ipb_session_workspace(IpbSession *session)
{
    return session->workspace;
}

static void
make_tools(IpbSession *session, const IpbSessionOptions *options)
{
    session->approvals = ipb_approvals_new(
        session->loop, &(IpbApprovalOptions){
                           .policy = options->approval,
                           .timeout_ms = options->approval_timeout_ms,
                           .ask = options->on_approval != NULL ? on_approval_ask : NULL,
                           .on_wait = on_approval_wait,
                           .data = session,
                       });
    session->tool_host =
        ipb_tool_host_new(session->loop, &(IpbToolHostOptions){
                                             .approvals = session->approvals,
                                             .cwd = session->workspace,
                                             .env = (const char *const *) session->env,
                                             .connect_timeout_ms = session->connect_timeout_ms,
                                             .on_log = on_server_log,
                                             .on_progress = on_tool_progress,
                                             .data = session,
                                         });
    session->tool_channel = ipb_tool_channel_new(session->loop, session->tool_host);
}

static void
make_kernel(IpbSession *session, const IpbSessionOptions *options)
{
    g_auto(GStrv) env = ipb_environment_kernel(&(IpbKernelEnvironment){
        .python = ipb_runtime_python(session->runtime),
        .overlay = session->overlay,
        .application = (const char *const *) session->env,
        .kernel_env = options->kernel_env,
        .tool_port = ipb_tool_channel_port(session->tool_channel),
        .tool_token = ipb_tool_channel_token(session->tool_channel),
    });
    const char *path[] = {session->overlay, NULL};
    IpbNativeKernelOptions kernel = {
        .env = (const char *const *) env,
        .cwd = session->workspace,
        .path = session->overlay != NULL ? path : NULL,
        .seed = options->seed,
        .has_seed = options->has_seed,
    };
    session->kernel = ipb_native_kernel_new(session->loop, ipb_runtime_forkserver(session->runtime),
                                            &kernel, on_kernel_event, session);
}

IpbSession *
ipb_session_new(IpbRuntime *runtime, const IpbSessionOptions *options, GError **error)
{
    g_autofree char *workspace =
        g_canonicalize_filename(options->workspace != NULL ? options->workspace : ".", NULL);
    if (!g_file_test(workspace, G_FILE_TEST_IS_DIR)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "the workspace is no directory: %s", workspace);
        return NULL;
    }
    IpbSession *session = g_new0(IpbSession, 1);
    session->runtime = ipb_runtime_ref(runtime);
    session->loop = ipb_loop_ref(ipb_runtime_loop(runtime));
    session->on_log = options->on_log;
    session->on_approval = options->on_approval;
    session->data = options->data;
    session->connect_timeout_ms = options->connect_timeout_ms;
    session->jobs = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_session_job_free);
    g_queue_init(&session->waiting);
    session->images_dir = g_canonicalize_filename(
        options->images_dir != NULL ? options->images_dir : "images", workspace);
    session->overlay = ipb_packages_overlay(ipb_runtime_python(runtime), workspace);
    session->workspace = g_steal_pointer(&workspace);
    session->env =
        ipb_environment_application(options->env, session->workspace, on_env_warning, session);
    make_tools(session, options);
    if (!ipb_tool_channel_listen(session->tool_channel, error)) {
        ipb_session_free(session);
        return NULL;
    }
    make_kernel(session, options);
    return session;
}

void
ipb_session_start(IpbSession *session)
{
    ipb_kernel_start(session->kernel);
}

static void
on_part_closed(void *data)
{
    IpbSession *session = data;
    ipb_session_part_closed(session);
}

void
ipb_session_part_closed(IpbSession *session)
{
    if (--session->n_closing > 0)
        return;
    session->closed(session->closed_data); /* may free the session */
}

void
ipb_session_close(IpbSession *session, void (*done)(void *data), void *data)
{
    g_return_if_fail(!session->is_closing);
    session->is_closing = true;
    session->closed = done;
    session->closed_data = data;
    session->n_closing = 2;
    drop_waiting_cells(session, "the session was closed");
    ipb_approvals_cancel_all(session->approvals);
    ipb_session_close_jobs(session);
    ipb_tool_host_reset(session->tool_host, on_part_closed, session);
    ipb_kernel_stop(session->kernel, on_part_closed, session);
}

void
ipb_session_free(IpbSession *session)
{
    if (session == NULL)
        return;
    session->is_closing = true;
    ipb_timer_free(session->start_timer);
    ipb_kernel_free(session->kernel);
    g_clear_pointer(&session->current, ipb_cell_free);
    g_queue_clear_full(&session->waiting, (GDestroyNotify) ipb_cell_free);
    g_clear_pointer(&session->tool_channel, ipb_tool_channel_free);
    g_clear_pointer(&session->tool_host, ipb_tool_host_free);
    g_clear_pointer(&session->approvals, ipb_approvals_free);
    g_ptr_array_unref(session->jobs);
    g_clear_pointer(&session->install, ipb_install_free);
    g_strfreev(session->env);
    g_free(session->images_dir);
    g_free(session->overlay);
    g_free(session->workspace);
    ipb_loop_unref(session->loop);
    ipb_runtime_unref(session->runtime);
    g_free(session);
}
