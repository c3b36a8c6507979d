/* SPDX-License-Identifier: Apache-2.0
 *
 * The native backend: the states of a kernel and its cells, over one process at a time.
 *
 * A cell that is given while no process is ready waits (`code`); it is sent after hello. A process that ends
 * takes the cell that it ran with it (DONE, LOST), never one that still waits, unless the process
 * could not be started for it. Everything is told from the loop: what a call causes at once waits for
 * the loop's next turn (`turn_timer`).
 */
#include "kernel/native-kernel.h"

#include <inttypes.h>

#include "base/error.h"
#include "kernel/native-kernel-private.h"

#define INTERRUPT_GRACE_MS 5000
#define INIT_TIMEOUT_MS 10000
/* An idle kernel that is reset ends in order, unless that takes longer. */
#define RESET_GRACE_MS 2000

typedef struct {
    void (*done)(void *data);
    void *data;
} StopWaiter;

static const char *
state_name(IpbKernelState state)
{
    static const char *const names[] = {"stopped", "starting",     "idle",
                                        "busy",    "interrupting", "dying"};
    return names[state];
}

void
ipb_native_kernel_set_state(IpbNativeKernel *kernel, IpbKernelState state)
{
    if (kernel->state != state)
        g_debug("kernel %p: %s -> %s, cell %" PRIu64, (void *) kernel, state_name(kernel->state),
                state_name(state), kernel->cell);
    kernel->state = state;
}

void
ipb_native_kernel_tell_stopped(IpbNativeKernel *kernel)
{
    GQueue waiters = kernel->stop_waiters;
    g_queue_init(&kernel->stop_waiters);
    StopWaiter *waiter;
    while ((waiter = g_queue_pop_head(&waiters)) != NULL) {
        waiter->done(waiter->data);
        g_free(waiter);
    }
}

/* --- what calls left for the loop's next turn -------------------------------------------------- */

static void
on_turn(void *data)
{
    IpbNativeKernel *kernel = data;
    g_clear_pointer(&kernel->turn_timer, ipb_timer_free);
    if (kernel->cell != 0 && kernel->is_interrupt_due)
        ipb_native_cell_end_unsent(kernel);
    else if (ipb_native_cell_is_running(kernel))
        ipb_native_cell_begin_telling(kernel);
    if (kernel->state == IPB_KERNEL_STATE_IDLE || kernel->state == IPB_KERNEL_STATE_BUSY ||
        kernel->state == IPB_KERNEL_STATE_INTERRUPTING)
        ipb_native_process_send_requests(kernel);
    if (!kernel->is_stopping)
        ipb_native_kernel_tell_stopped(kernel);
}

void
ipb_native_kernel_turn_soon(IpbNativeKernel *kernel)
{
    if (kernel->turn_timer == NULL)
        kernel->turn_timer = ipb_timer_new(kernel->loop, 0, on_turn, kernel);
}

static void
send_interrupt(bool is_repetition, void *data)
{
    IpbNativeKernel *kernel = data;
    ipb_process_interrupt(kernel->process, is_repetition);
}

static void
on_grace_end(void *data)
{
    IpbNativeKernel *kernel = data;
    g_autofree char *cause =
        g_strdup_printf("the cell did not react to the interrupt within %.3g s, so the kernel was "
                        "killed",
                        kernel->interrupt_grace_ms / 1000.0);
    ipb_process_kill(kernel->process, cause);
}

static uint64_t
cpu_wait_us(void *data)
{
    IpbNativeKernel *kernel = data;
    return ipb_process_cpu_wait_us(kernel->process);
}

/* --- the operations ---------------------------------------------------------------------------- */

static void
start(IpbKernel *base)
{
    ipb_native_process_start((IpbNativeKernel *) base);
}

static bool
execute(IpbKernel *base, const IpbKernelCode *code, uint64_t cell, GError **error)
{
    IpbNativeKernel *kernel = (IpbNativeKernel *) base;
    if (kernel->cell != 0 || kernel->is_stopping) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the kernel %s",
                    kernel->is_stopping ? "is being stopped" : "runs another cell");
        return false;
    }
    kernel->cell = cell;
    kernel->code = g_strdup(code->code);
    kernel->how = (IpbKernelCode){.is_silent = code->is_silent, .is_unstored = code->is_unstored};
    kernel->user_expressions = g_strdup(code->user_expressions);
    if (kernel->state == IPB_KERNEL_STATE_IDLE && !ipb_native_process_send_cell(kernel, error)) {
        kernel->cell = 0;
        g_clear_pointer(&kernel->code, g_free);
        g_clear_pointer(&kernel->user_expressions, g_free);
        return false;
    }
    ipb_native_process_start(kernel);
    return true;
}

static bool
request(IpbKernel *base, const char *method, const char *params, IpbKernelReplyFunc func,
        void *data, GError **error)
{
    IpbNativeKernel *kernel = (IpbNativeKernel *) base;
    if (kernel->is_stopping) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the kernel is being stopped");
        return false;
    }
    if (!ipb_requests_add(kernel->requests, method, params, func, data, error))
        return false;
    ipb_native_kernel_turn_soon(kernel);
    ipb_native_process_start(kernel);
    return true;
}

static void
interrupt(IpbKernel *base)
{
    IpbNativeKernel *kernel = (IpbNativeKernel *) base;
    if (kernel->cell != 0 && kernel->code != NULL && kernel->lost_cause == NULL) {
        kernel->is_interrupt_due = true;
        ipb_native_kernel_turn_soon(kernel);
        return;
    }
    if (kernel->state != IPB_KERNEL_STATE_BUSY && kernel->state != IPB_KERNEL_STATE_INTERRUPTING)
        return;
    ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_INTERRUPTING);
    ipb_interrupt_send(&kernel->interrupt, kernel->interrupt_grace_ms);
}

static void
reset(IpbKernel *base)
{
    IpbNativeKernel *kernel = (IpbNativeKernel *) base;
    if (kernel->is_stopping)
        return;
    ipb_late_output_clear(&kernel->late);
    if (kernel->process == NULL) {
        ipb_native_process_start(kernel);
        return;
    }
    kernel->is_resetting = true;
    ipb_requests_bind(kernel->requests);
    if (kernel->cell != 0)
        kernel->lost_cause = "the kernel was reset";
    ipb_interrupt_end(&kernel->interrupt);
    /* What user code has not written to its files yet is written at an end in order. */
    bool ends_in_order =
        kernel->state == IPB_KERNEL_STATE_IDLE && kernel->cell == 0 && kernel->has_ran_cell;
    ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_DYING);
    if (ends_in_order)
        ipb_process_shut_down(kernel->process, RESET_GRACE_MS, "the kernel was reset");
    else
        ipb_process_kill(kernel->process, "the kernel was reset");
}

static void
stop(IpbKernel *base, void (*done)(void *data), void *data)
{
    IpbNativeKernel *kernel = (IpbNativeKernel *) base;
    StopWaiter *waiter = g_new(StopWaiter, 1);
    *waiter = (StopWaiter){done, data};
    g_queue_push_tail(&kernel->stop_waiters, waiter);
    kernel->is_resetting = false;
    if (kernel->process == NULL) {
        ipb_native_kernel_turn_soon(kernel);
        return;
    }
    if (kernel->is_stopping)
        return;
    kernel->is_stopping = true;
    if (kernel->cell != 0)
        kernel->lost_cause = "the kernel was stopped";
    ipb_interrupt_end(&kernel->interrupt);
    if (ipb_native_cell_is_running(kernel))
        ipb_interrupt_send(&kernel->interrupt, kernel->interrupt_grace_ms);
    ipb_native_kernel_set_state(kernel, IPB_KERNEL_STATE_DYING);
    ipb_process_shut_down(kernel->process, kernel->interrupt_grace_ms, "the kernel was stopped");
}

static void
set_paused(IpbKernel *base, bool paused)
{
    IpbNativeKernel *kernel = (IpbNativeKernel *) base;
    kernel->is_paused = paused;
    ipb_interrupt_set_paused(&kernel->interrupt, paused);
    if (kernel->process != NULL)
        ipb_process_set_paused(kernel->process, paused);
}

static bool
has_socket(const IpbKernel *base, uint64_t inode)
{
    const IpbNativeKernel *kernel = (const IpbNativeKernel *) base;
    return kernel->process != NULL && ipb_process_has_socket(kernel->process, inode);
}

static void
free_kernel(IpbKernel *base)
{
    IpbNativeKernel *kernel = (IpbNativeKernel *) base;
    ipb_process_free(kernel->process);
    ipb_requests_free(kernel->requests);
    g_free(kernel->user_expressions);
    ipb_forkserver_unref(kernel->forkserver);
    ipb_timer_free(kernel->turn_timer);
    ipb_interrupt_end(&kernel->interrupt);
    ipb_late_output_clear(&kernel->late);
    g_queue_clear_full(&kernel->stop_waiters, g_free);
    g_free(kernel->code);
    g_free(kernel->cwd);
    g_strfreev(kernel->env);
    g_strfreev(kernel->path);
    ipb_loop_unref(kernel->loop);
    g_free(kernel);
}

IpbKernel *
ipb_native_kernel_new(IpbLoop *loop, IpbForkserver *forkserver,
                      const IpbNativeKernelOptions *options, IpbEventFunc on_event, void *data)
{
    static const IpbDeadlineFuncs grace = {on_grace_end, cpu_wait_us};
    static const IpbKernelOps ops = {
        .start = start,
        .execute = execute,
        .request = request,
        .interrupt = interrupt,
        .reset = reset,
        .stop = stop,
        .set_paused = set_paused,
        .has_socket = has_socket,
        .free = free_kernel,
    };
    IpbNativeKernel *kernel = g_new0(IpbNativeKernel, 1);
    kernel->base = (IpbKernel){.ops = &ops, .on_event = on_event, .data = data};
    kernel->loop = ipb_loop_ref(loop);
    kernel->forkserver = ipb_forkserver_ref(forkserver);
    kernel->env = g_strdupv((char **) options->env);
    kernel->path = g_strdupv((char **) options->path);
    kernel->cwd = g_strdup(options->cwd);
    kernel->seed = options->seed;
    kernel->has_seed = options->has_seed;
    kernel->rules = options->rules;
    kernel->interrupt_grace_ms =
        options->interrupt_grace_ms > 0 ? options->interrupt_grace_ms : INTERRUPT_GRACE_MS;
    kernel->init_timeout_ms =
        options->init_timeout_ms > 0 ? options->init_timeout_ms : INIT_TIMEOUT_MS;
    kernel->is_sandboxed = options->sandbox != NULL;
    if (kernel->is_sandboxed)
        kernel->sandbox = *options->sandbox;
    g_queue_init(&kernel->stop_waiters);
    kernel->requests = ipb_requests_new();
    ipb_interrupt_init(&kernel->interrupt, loop, send_interrupt, &grace, kernel);
    return &kernel->base;
}
