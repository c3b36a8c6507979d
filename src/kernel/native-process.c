/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's process as the native backend sees it: its start, what it says, what it is sent, and what its end means for the cell and for
 * the requests. One at a time.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "kernel/bundle-text.h"
#include "kernel/native-kernel-private.h"

#define STATE_LOST "its state is lost, the next cell runs in a fresh kernel"

bool
ipb_native_process_send_cell(IpbNativeKernel *kernel, GError **error)
{
    g_autoptr(GError) send_error = NULL;
    IpbKernelCode code = kernel->how;
    code.code = kernel->code;
    code.user_expressions = kernel->user_expressions;
    if (!ipb_process_execute(kernel->process, kernel->cell, &code, &send_error)) {
        if (g_error_matches(send_error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT)) {
            g_propagate_error(error, g_steal_pointer(&send_error));
            return false;
        }
        /* The process is dead, and its end will be told: the cell waits for the next one. */
        ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_DYING);
        return true;
    }
    g_clear_pointer(&kernel->code, g_free);
    g_clear_pointer(&kernel->user_expressions, g_free);
    kernel->has_ran_cell = kernel->is_started_due = true;
    kernel->has_error = false;
    ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_BUSY);
    ipb_native_kernel_turn_soon(kernel);
    return true;
}

static bool
send_request(uint64_t id, const char *method, const char *params, GError **error, void *data)
{
    IpbNativeKernel *kernel = data;
    return ipb_process_request(kernel->process, id, method, params, error);
}

void
ipb_native_process_send_requests(IpbNativeKernel *kernel)
{
    ipb_requests_send(kernel->requests, send_request, kernel);
}

static void
on_hello(void *data)
{
    IpbNativeKernel *kernel = data;
    if (kernel->state == IPB_KERNEL_STATE_DYING)
        return;
    ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_IDLE);
    kernel->last_count = 0;
    ipb_native_process_send_requests(kernel);
    if (kernel->state != IPB_KERNEL_STATE_IDLE || kernel->cell == 0 || kernel->code == NULL ||
        kernel->is_interrupt_due)
        return;
    g_autoptr(GError) error = NULL;
    if (!ipb_native_process_send_cell(kernel, &error))
        ipb_native_cell_lose(kernel, error->message);
}

static void
on_text(bool is_stderr, bool is_late, const char *text, size_t size, void *data)
{
    IpbNativeKernel *kernel = data;
    if (is_late || !ipb_native_cell_is_running(kernel)) {
        ipb_late_output_add(&kernel->late, text, size);
        return;
    }
    ipb_native_cell_begin_telling(kernel);
    if (ipb_native_cell_is_running(kernel))
        ipb_native_cell_tell_text(kernel, is_stderr ? IPB_EVENT_STDERR : IPB_EVENT_STDOUT, text,
                                  size);
}

/* A display that belongs to no cell, while none runs: its text is late output. */
static void
keep_late_display(IpbNativeKernel *kernel, const IpbEvent *event)
{
    if (event->type != IPB_EVENT_DISPLAY && event->type != IPB_EVENT_UPDATE)
        return;
    g_autofree char *text = ipb_bundle_text(event->data);
    if (text == NULL) {
        ipb_late_output_add_notice(&kernel->late, "a display without text came while no cell ran");
        return;
    }
    g_autofree char *line = g_utf8_make_valid(text, -1);
    ipb_late_output_add(&kernel->late, line, strlen(line));
    ipb_late_output_add(&kernel->late, "\n", 1);
}

static bool
check_cell(IpbNativeKernel *kernel, const IpbEvent *event, GError **error)
{
    bool may_be_of_none = event->type == IPB_EVENT_DISPLAY || event->type == IPB_EVENT_UPDATE ||
                          event->type == IPB_EVENT_CLEAR_OUTPUT;
    uint64_t running = ipb_native_cell_is_running(kernel) ? kernel->cell : 0;
    if (event->cell == running ? running != 0 || may_be_of_none
                               : event->cell == 0 && may_be_of_none)
        return true;
    g_autofree char *present =
        running != 0 ? g_strdup_printf("cell %" PRIu64, running) : g_strdup("no cell");
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                "a frame of cell %" PRIu64 " while %s runs", event->cell, present);
    return false;
}

static bool
on_done(IpbNativeKernel *kernel, const IpbEvent *event, GError **error)
{
    if (event->status != IPB_CELL_OK && !kernel->has_error) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "a cell that failed without an error frame");
        return false;
    }
    kernel->last_count = event->execution_count;
    if (kernel->lost_cause != NULL)
        ipb_native_cell_lose(kernel, kernel->lost_cause);
    else
        ipb_native_cell_end(kernel, event);
    return true;
}

static bool
on_message(const IpbMessage *message, GError **error, void *data)
{
    IpbNativeKernel *kernel = data;
    IpbEvent event = message->event;
    if (message->type == IPB_FRAME_REPLY)
        return ipb_requests_answer(kernel->requests, message->request, message->result,
                                   message->error, error);
    if (!check_cell(kernel, &event, error))
        return false;
    if (!ipb_native_cell_is_running(kernel)) {
        keep_late_display(kernel, &event);
        return true;
    }
    event.cell = kernel->cell;
    ipb_native_cell_begin_telling(kernel);
    if (event.type == IPB_EVENT_DONE)
        return on_done(kernel, &event, error);
    if (event.type == IPB_EVENT_ERROR)
        kernel->has_error = true;
    ipb_native_cell_tell(kernel, &event);
    return true;
}

static void
on_process_end(const char *cause, void *data)
{
    IpbNativeKernel *kernel = data;
    bool was_starting = kernel->state == IPB_KERNEL_STATE_STARTING;
    bool is_expected = kernel->is_stopping || kernel->is_resetting;
    bool is_restarting = kernel->is_resetting, was_stopping = kernel->is_stopping;
    bool has_lost_state = kernel->has_ran_cell;
    g_clear_pointer(&kernel->process, ipb_process_free);
    kernel->is_stopping = kernel->is_resetting = kernel->has_ran_cell = false;
    ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_STOPPED);
    if (kernel->cell != 0 && kernel->lost_cause != NULL) {
        ipb_native_cell_lose(kernel, kernel->lost_cause);
    } else if (ipb_native_cell_is_running(kernel)) {
        g_autofree char *text = g_strdup_printf("%s; " STATE_LOST, cause);
        ipb_native_cell_lose(kernel, text);
    } else if (kernel->cell != 0 && was_starting) {
        ipb_native_cell_lose_at_start(kernel, cause);
    } else if (!is_expected && has_lost_state) {
        g_autofree char *notice = g_strdup_printf("while idle, %s; its state is lost", cause);
        ipb_late_output_add_notice(&kernel->late, notice);
    }
    if (is_restarting) /* what it said is thrown away with it */
        ipb_late_output_clear(&kernel->late);
    /* A process that could not start takes those with it that waited for it. */
    ipb_requests_fail(kernel->requests, was_stopping || (was_starting && !is_restarting), cause);
    if (is_restarting || kernel->cell != 0 || !ipb_requests_is_empty(kernel->requests))
        ipb_native_process_start(kernel);
    ipb_native_kernel_tell_stopped(kernel);
}

void
ipb_native_process_start(IpbNativeKernel *kernel)
{
    static const IpbProcessFuncs funcs = {
        .on_hello = on_hello,
        .on_text = on_text,
        .on_message = on_message,
        .on_end = on_process_end,
    };
    if (kernel->process != NULL)
        return;
    IpbProcessOptions options = {
        .env = (const char *const *) kernel->env,
        .cwd = kernel->cwd,
        .path = (const char *const *) kernel->path,
        .has_seed = kernel->has_seed,
        .seed = kernel->seed,
        .rules = kernel->rules,
        .init_timeout_ms = kernel->init_timeout_ms,
        .sandbox = kernel->is_sandboxed ? &kernel->sandbox : NULL,
    };
    kernel->process = ipb_process_new(kernel->loop, kernel->forkserver, &options, &funcs, kernel);
    ipb_process_set_paused(kernel->process, kernel->is_paused);
    kernel->late_size_at_start = ipb_late_output_size(&kernel->late);
    ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_STARTING);
}
