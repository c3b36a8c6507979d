/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a kernel's cell: STARTED first, then what was late, then its own events, DONE last, however it ends.
 */
#include <string.h>

#include "kernel/native-kernel-private.h"

/* How much of what a kernel printed before it failed to start goes into the message. */
#define MAX_SHOWN_OUTPUT 2000

void
ipb_native_cell_tell(IpbNativeKernel *kernel, const IpbEvent *event)
{
    kernel->base.on_event(event, kernel->base.data);
}

void
ipb_native_cell_tell_text(IpbNativeKernel *kernel, IpbEventType type, const char *text, size_t size)
{
    IpbEvent event = {.type = type, .cell = kernel->cell, .text = text, .text_size = size};
    ipb_native_cell_tell(kernel, &event);
}

static void
tell_notices(IpbNativeKernel *kernel)
{
    char *next;
    while ((next = ipb_late_output_take_notice(&kernel->late)) != NULL) {
        g_autofree char *notice = next;
        ipb_native_cell_tell_text(kernel, IPB_EVENT_NOTICE, notice, strlen(notice));
    }
}

static void
tell_late_output(IpbNativeKernel *kernel)
{
    size_t size;
    g_autofree char *text = ipb_late_output_take(&kernel->late, &size);
    if (text != NULL)
        ipb_native_cell_tell_text(kernel, IPB_EVENT_LATE_OUTPUT, text, size);
    tell_notices(kernel);
}

void
ipb_native_cell_begin_telling(IpbNativeKernel *kernel)
{
    if (kernel->is_started_due) {
        kernel->is_started_due = false;
        bool is_counted = !kernel->how.is_silent && !kernel->how.is_unstored;
        IpbEvent event = {
            .type = IPB_EVENT_STARTED,
            .cell = kernel->cell,
            .execution_count = kernel->last_count + (is_counted ? 1 : 0),
        };
        ipb_native_cell_tell(kernel, &event);
    }
    if (kernel->code == NULL)
        tell_late_output(kernel);
}

void
ipb_native_cell_end(IpbNativeKernel *kernel, const IpbEvent *done)
{
    IpbEvent event = *done;
    event.type = IPB_EVENT_DONE;
    event.cell = kernel->cell;
    kernel->cell = 0;
    g_clear_pointer(&kernel->code, g_free);
    g_clear_pointer(&kernel->user_expressions, g_free);
    kernel->is_started_due = kernel->is_interrupt_due = false;
    kernel->lost_cause = NULL;
    ipb_interrupt_end(&kernel->interrupt);
    if (kernel->state == IPB_KERNEL_STATE_BUSY || kernel->state == IPB_KERNEL_STATE_INTERRUPTING)
        ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_IDLE);
    ipb_native_cell_tell(kernel, &event);
}

void
ipb_native_cell_lose(IpbNativeKernel *kernel, const char *cause)
{
    ipb_native_cell_begin_telling(kernel);
    IpbEvent event = {.status = IPB_CELL_LOST, .text = cause, .text_size = strlen(cause)};
    ipb_native_cell_end(kernel, &event);
}

bool
ipb_native_cell_is_running(const IpbNativeKernel *kernel)
{
    return kernel->cell != 0 && kernel->code == NULL;
}

void
ipb_native_cell_lose_at_start(IpbNativeKernel *kernel, const char *cause)
{
    size_t size = 0;
    g_autofree char *output = ipb_late_output_take(&kernel->late, &size);
    const char *shown = "";
    if (output != NULL) {
        size_t before = MIN(kernel->late_size_at_start, size);
        if (before > 0)
            ipb_native_cell_tell_text(kernel, IPB_EVENT_LATE_OUTPUT, output, before);
        g_strchomp(output + before);
        size = strlen(output);
        shown = output + MAX(before, size > MAX_SHOWN_OUTPUT ? size - MAX_SHOWN_OUTPUT : 0);
        while (((unsigned char) *shown & 0xc0) == 0x80)
            shown++;
    }
    tell_notices(kernel);
    g_autofree char *text = g_strconcat(cause, *shown != '\0' ? "; it printed: " : "", shown, NULL);
    ipb_native_cell_lose(kernel, text);
}

void
ipb_native_cell_end_unsent(IpbNativeKernel *kernel)
{
    static const char text[] = "KeyboardInterrupt: the cell was interrupted before it ran";
    IpbEvent error = {
        .type = IPB_EVENT_ERROR,
        .cell = kernel->cell,
        .ename = "KeyboardInterrupt",
        .evalue = "",
        .text = text,
        .text_size = strlen(text),
    };
    g_clear_pointer(&kernel->code, g_free);
    ipb_native_cell_tell(kernel, &error);
    IpbEvent done = {
        .status = IPB_CELL_INTERRUPTED,
        .text = kernel->cwd,
        .text_size = strlen(kernel->cwd),
    };
    if (kernel->cell == error.cell)
        ipb_native_cell_end(kernel, &done);
}
