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
#include <string.h>

#include "base/error.h"
#include "kernel/interrupt.h"
#include "kernel/late-output.h"
#include "kernel/process.h"
#include "kernel/requests.h"

#define INTERRUPT_GRACE_MS 5000
#define INIT_TIMEOUT_MS 10000
/* How much of what a kernel printed before it failed to start goes into the message. */
#define MAX_SHOWN_OUTPUT 2000

#define STATE_LOST "its state is lost, the next cell runs in a fresh kernel"

typedef enum {
    IPB_KERNEL_STATE_STOPPED,  /* no process */
    IPB_KERNEL_STATE_STARTING, /* forked or asked for */
    IPB_KERNEL_STATE_IDLE,
    IPB_KERNEL_STATE_BUSY,
    IPB_KERNEL_STATE_INTERRUPTING,
    IPB_KERNEL_STATE_DYING, /* dead, killed or asked to end; its end is not told yet */
} IpbKernelState;

typedef struct {
    void (*done)(void *data);
    void *data;
} StopWaiter;

typedef struct {
    IpbKernel base;
    IpbLoop *loop;
    IpbForkserver *forkserver;
    char **env, **path, *cwd;
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    unsigned interrupt_grace_ms, init_timeout_ms;
    bool is_sandboxed;
    IpbKernelSandbox sandbox;
    IpbKernelState state;
    IpbProcess *process;
    bool has_ran_cell; /* the process may hold state */
    bool is_stopping, is_resetting;
    bool is_paused;
    GQueue stop_waiters;
    IpbTimer *turn_timer;
    IpbInterrupt interrupt;
    IpbLateOutput late;
    size_t late_size_at_start; /* of the process */
    IpbRequests *requests;
    /* The cell: from execute to DONE. */
    uint64_t cell;          /* 0: none */
    char *code;             /* not sent yet */
    IpbKernelCode how;      /* of it: all but the code */
    char *user_expressions; /* of it */
    int64_t last_count;     /* of executions, as the process told it last */
    bool is_started_due;    /* was sent, and STARTED is not told yet */
    bool has_error;         /* ERROR was told */
    bool is_interrupt_due;  /* interrupted before it was sent */
    const char *lost_cause; /* however it ends, it is LOST */
} NativeKernel;

static const char *
state_name(IpbKernelState state)
{
    static const char *const names[] = {"stopped", "starting",     "idle",
                                        "busy",    "interrupting", "dying"};
    return names[state];
}

static void
set_state(NativeKernel *kernel, IpbKernelState state)
{
    if (kernel->state != state)
        g_debug("kernel %p: %s -> %s, cell %" PRIu64, (void *) kernel, state_name(kernel->state),
                state_name(state), kernel->cell);
    kernel->state = state;
}

static void on_turn(void *data);

static void
turn_soon(NativeKernel *kernel)
{
    if (kernel->turn_timer == NULL)
        kernel->turn_timer = ipb_timer_new(kernel->loop, 0, on_turn, kernel);
}

/* Events. */

static void
tell(NativeKernel *kernel, const IpbKernelEvent *event)
{
    kernel->base.on_event(&kernel->base, event, kernel->base.data);
}

static void
tell_text(NativeKernel *kernel, IpbKernelEventType type, const char *text, size_t size)
{
    IpbKernelEvent event = {.type = type, .cell = kernel->cell, .text = text, .text_size = size};
    tell(kernel, &event);
}

static void
tell_late_output(NativeKernel *kernel)
{
    size_t size;
    g_autofree char *text = ipb_late_output_take(&kernel->late, &size);
    if (text != NULL)
        tell_text(kernel, IPB_KERNEL_LATE_OUTPUT, text, size);
}

/* Comes before every event of a cell: what must be told first. */
static void
begin_telling(NativeKernel *kernel)
{
    if (kernel->is_started_due) {
        kernel->is_started_due = false;
        bool is_counted = !kernel->how.is_silent && !kernel->how.is_unstored;
        IpbKernelEvent event = {
            .type = IPB_KERNEL_STARTED,
            .cell = kernel->cell,
            .execution_count = kernel->last_count + (is_counted ? 1 : 0),
        };
        tell(kernel, &event);
    }
    if (kernel->code == NULL)
        tell_late_output(kernel);
}

/* The cell is over. What the callback starts comes after it, so everything is settled before. */
static void
end_cell(NativeKernel *kernel, const IpbKernelEvent *done)
{
    IpbKernelEvent event = *done;
    event.type = IPB_KERNEL_DONE;
    event.cell = kernel->cell;
    kernel->cell = 0;
    g_clear_pointer(&kernel->code, g_free);
    g_clear_pointer(&kernel->user_expressions, g_free);
    kernel->is_started_due = kernel->is_interrupt_due = false;
    kernel->lost_cause = NULL;
    ipb_interrupt_end(&kernel->interrupt);
    if (kernel->state == IPB_KERNEL_STATE_BUSY || kernel->state == IPB_KERNEL_STATE_INTERRUPTING)
        set_state(kernel, IPB_KERNEL_STATE_IDLE);
    tell(kernel, &event);
}

static void
lose_cell(NativeKernel *kernel, const char *cause)
{
    begin_telling(kernel);
    IpbKernelEvent event = {.status = IPB_CELL_LOST, .text = cause, .text_size = strlen(cause)};
    end_cell(kernel, &event);
}

static bool
is_cell_running(const NativeKernel *kernel)
{
    return kernel->cell != 0 && kernel->code == NULL;
}

/* The process. */

/* Sends the cell that waits; false only if it is too large for a frame. */
static bool
send_cell(NativeKernel *kernel, GError **error)
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
        set_state(kernel, IPB_KERNEL_STATE_DYING);
        return true;
    }
    g_clear_pointer(&kernel->code, g_free);
    g_clear_pointer(&kernel->user_expressions, g_free);
    kernel->has_ran_cell = kernel->is_started_due = true;
    kernel->has_error = false;
    set_state(kernel, IPB_KERNEL_STATE_BUSY);
    turn_soon(kernel);
    return true;
}

static bool
send_request(uint64_t id, const char *method, const char *params, GError **error, void *data)
{
    NativeKernel *kernel = data;
    return ipb_process_request(kernel->process, id, method, params, error);
}

static void
on_hello(void *data)
{
    NativeKernel *kernel = data;
    if (kernel->state == IPB_KERNEL_STATE_DYING)
        return;
    set_state(kernel, IPB_KERNEL_STATE_IDLE);
    kernel->last_count = 0;
    ipb_requests_send(kernel->requests, send_request, kernel);
    if (kernel->state != IPB_KERNEL_STATE_IDLE || kernel->cell == 0 || kernel->code == NULL ||
        kernel->is_interrupt_due)
        return;
    g_autoptr(GError) error = NULL;
    if (!send_cell(kernel, &error))
        lose_cell(kernel, error->message);
}

static void
on_text(bool is_stderr, bool is_late, const char *text, size_t size, void *data)
{
    NativeKernel *kernel = data;
    if (is_late || !is_cell_running(kernel)) {
        ipb_late_output_add(&kernel->late, text, size);
        return;
    }
    begin_telling(kernel);
    if (is_cell_running(kernel))
        tell_text(kernel, is_stderr ? IPB_KERNEL_STDERR : IPB_KERNEL_STDOUT, text, size);
}

/* A display that belongs to no cell, while none runs: its text is late output. */
static void
keep_late_display(NativeKernel *kernel, const IpbKernelEvent *event)
{
    if (event->type != IPB_KERNEL_DISPLAY && event->type != IPB_KERNEL_UPDATE_DISPLAY)
        return;
    const char *text = ipb_json_get_string(event->data, "text/plain");
    g_autofree char *line =
        text != NULL ? g_utf8_make_valid(text, -1) : g_strdup("[ipybox] a display without text");
    ipb_late_output_add(&kernel->late, line, strlen(line));
    ipb_late_output_add(&kernel->late, "\n", 1);
}

static bool
check_cell(NativeKernel *kernel, const IpbKernelEvent *event, GError **error)
{
    bool may_be_of_none = event->type == IPB_KERNEL_DISPLAY ||
                          event->type == IPB_KERNEL_UPDATE_DISPLAY ||
                          event->type == IPB_KERNEL_CLEAR_OUTPUT;
    uint64_t running = is_cell_running(kernel) ? kernel->cell : 0;
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
on_done(NativeKernel *kernel, const IpbKernelEvent *event, GError **error)
{
    if (event->status != IPB_CELL_OK && !kernel->has_error) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "a cell that failed without an error frame");
        return false;
    }
    kernel->last_count = event->execution_count;
    if (kernel->lost_cause != NULL)
        lose_cell(kernel, kernel->lost_cause);
    else
        end_cell(kernel, event);
    return true;
}

static bool
on_message(const IpbMessage *message, GError **error, void *data)
{
    NativeKernel *kernel = data;
    IpbKernelEvent event = message->event;
    if (message->type == IPB_FRAME_REPLY)
        return ipb_requests_answer(kernel->requests, message->request, message->result,
                                   message->error, error);
    if (!check_cell(kernel, &event, error))
        return false;
    if (!is_cell_running(kernel)) {
        keep_late_display(kernel, &event);
        return true;
    }
    event.cell = kernel->cell;
    begin_telling(kernel);
    if (event.type == IPB_KERNEL_DONE)
        return on_done(kernel, &event, error);
    if (event.type == IPB_KERNEL_ERROR)
        kernel->has_error = true;
    tell(kernel, &event);
    return true;
}

static void start_process(NativeKernel *kernel);

/* The last thing that anybody does: the callbacks may free the kernel. */
static void
tell_stopped(NativeKernel *kernel)
{
    GQueue waiters = kernel->stop_waiters;
    g_queue_init(&kernel->stop_waiters);
    StopWaiter *waiter;
    while ((waiter = g_queue_pop_head(&waiters)) != NULL) {
        waiter->done(waiter->data);
        g_free(waiter);
    }
}

/* A process that never was ready: what it printed says more than how it ended. */
static void
lose_cell_at_start(NativeKernel *kernel, const char *cause)
{
    size_t size = 0;
    g_autofree char *output = ipb_late_output_take(&kernel->late, &size);
    const char *shown = "";
    if (output != NULL) {
        size_t before = MIN(kernel->late_size_at_start, size);
        if (before > 0)
            tell_text(kernel, IPB_KERNEL_LATE_OUTPUT, output, before);
        g_strchomp(output + before);
        size = strlen(output);
        shown = output + MAX(before, size > MAX_SHOWN_OUTPUT ? size - MAX_SHOWN_OUTPUT : 0);
        while (((unsigned char) *shown & 0xc0) == 0x80)
            shown++;
    }
    g_autofree char *text = g_strconcat(cause, *shown != '\0' ? "; it printed: " : "", shown, NULL);
    lose_cell(kernel, text);
}

static void
on_process_end(const char *cause, void *data)
{
    NativeKernel *kernel = data;
    bool was_starting = kernel->state == IPB_KERNEL_STATE_STARTING;
    bool is_expected = kernel->is_stopping || kernel->is_resetting;
    bool is_restarting = kernel->is_resetting, was_stopping = kernel->is_stopping;
    bool has_lost_state = kernel->has_ran_cell;
    g_clear_pointer(&kernel->process, ipb_process_free);
    kernel->is_stopping = kernel->is_resetting = kernel->has_ran_cell = false;
    set_state(kernel, IPB_KERNEL_STATE_STOPPED);
    if (kernel->cell != 0 && kernel->lost_cause != NULL) {
        lose_cell(kernel, kernel->lost_cause);
    } else if (is_cell_running(kernel)) {
        g_autofree char *text = g_strdup_printf("%s; " STATE_LOST, cause);
        lose_cell(kernel, text);
    } else if (kernel->cell != 0 && was_starting) {
        lose_cell_at_start(kernel, cause);
    } else if (!is_expected && has_lost_state) {
        g_autofree char *notice = g_strdup_printf("while idle, %s; its state is lost", cause);
        ipb_late_output_add_notice(&kernel->late, notice);
    }
    if (is_restarting) /* what it said is thrown away with it */
        ipb_late_output_clear(&kernel->late);
    /* A process that could not start takes those with it that waited for it. */
    ipb_requests_fail(kernel->requests, was_stopping || (was_starting && !is_restarting), cause);
    if (is_restarting || kernel->cell != 0 || !ipb_requests_is_empty(kernel->requests))
        start_process(kernel);
    tell_stopped(kernel);
}

static void
start_process(NativeKernel *kernel)
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
    set_state(kernel, IPB_KERNEL_STATE_STARTING);
}

/* What calls left for the loop's next turn. */

static void
tell_early_interrupt(NativeKernel *kernel)
{
    static const char text[] = "KeyboardInterrupt: the cell was interrupted before it ran";
    IpbKernelEvent error = {
        .type = IPB_KERNEL_ERROR,
        .cell = kernel->cell,
        .ename = "KeyboardInterrupt",
        .evalue = "",
        .text = text,
        .text_size = strlen(text),
    };
    g_clear_pointer(&kernel->code, g_free);
    tell(kernel, &error);
    IpbKernelEvent done = {
        .status = IPB_CELL_INTERRUPTED,
        .text = kernel->cwd,
        .text_size = strlen(kernel->cwd),
    };
    if (kernel->cell == error.cell)
        end_cell(kernel, &done);
}

static void
on_turn(void *data)
{
    NativeKernel *kernel = data;
    g_clear_pointer(&kernel->turn_timer, ipb_timer_free);
    if (kernel->cell != 0 && kernel->is_interrupt_due)
        tell_early_interrupt(kernel);
    else if (is_cell_running(kernel))
        begin_telling(kernel);
    if (kernel->state == IPB_KERNEL_STATE_IDLE || kernel->state == IPB_KERNEL_STATE_BUSY ||
        kernel->state == IPB_KERNEL_STATE_INTERRUPTING)
        ipb_requests_send(kernel->requests, send_request, kernel);
    if (!kernel->is_stopping)
        tell_stopped(kernel);
}

static void
send_interrupt(bool is_repetition, void *data)
{
    NativeKernel *kernel = data;
    ipb_process_interrupt(kernel->process, is_repetition);
}

static void
on_grace_end(void *data)
{
    NativeKernel *kernel = data;
    g_autofree char *cause =
        g_strdup_printf("the cell did not react to the interrupt within %.3g s, so the kernel was "
                        "killed",
                        kernel->interrupt_grace_ms / 1000.0);
    ipb_process_kill(kernel->process, cause);
}

/* The operations. */

static void
start(IpbKernel *base)
{
    start_process((NativeKernel *) base);
}

static bool
execute(IpbKernel *base, const IpbKernelCode *code, uint64_t cell, GError **error)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->cell != 0 || kernel->is_stopping) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the kernel %s",
                    kernel->is_stopping ? "is being stopped" : "runs another cell");
        return false;
    }
    kernel->cell = cell;
    kernel->code = g_strdup(code->code);
    kernel->how = (IpbKernelCode){.is_silent = code->is_silent, .is_unstored = code->is_unstored};
    kernel->user_expressions = g_strdup(code->user_expressions);
    if (kernel->state == IPB_KERNEL_STATE_IDLE && !send_cell(kernel, error)) {
        kernel->cell = 0;
        g_clear_pointer(&kernel->code, g_free);
        g_clear_pointer(&kernel->user_expressions, g_free);
        return false;
    }
    start_process(kernel);
    return true;
}

static uint64_t
request(IpbKernel *base, const char *method, const char *params, IpbKernelReplyFunc func,
        void *data, GError **error)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->is_stopping) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the kernel is being stopped");
        return 0;
    }
    uint64_t id = ipb_requests_add(kernel->requests, method, params, func, data, error);
    if (id == 0)
        return 0;
    turn_soon(kernel);
    start_process(kernel);
    return id;
}

static void
cancel_request(IpbKernel *base, uint64_t id)
{
    ipb_requests_cancel(((NativeKernel *) base)->requests, id);
}

static void
interrupt(IpbKernel *base)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->cell != 0 && kernel->code != NULL && kernel->lost_cause == NULL) {
        kernel->is_interrupt_due = true;
        turn_soon(kernel);
        return;
    }
    if (kernel->state != IPB_KERNEL_STATE_BUSY && kernel->state != IPB_KERNEL_STATE_INTERRUPTING)
        return;
    set_state(kernel, IPB_KERNEL_STATE_INTERRUPTING);
    ipb_interrupt_send(&kernel->interrupt, kernel->interrupt_grace_ms);
}

static void
reset(IpbKernel *base)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->is_stopping)
        return;
    ipb_late_output_clear(&kernel->late);
    if (kernel->process == NULL) {
        start_process(kernel);
        return;
    }
    kernel->is_resetting = true;
    ipb_requests_bind(kernel->requests);
    if (kernel->cell != 0)
        kernel->lost_cause = "the kernel was reset";
    ipb_interrupt_end(&kernel->interrupt);
    set_state(kernel, IPB_KERNEL_STATE_DYING);
    ipb_process_kill(kernel->process, "the kernel was reset");
}

static void
stop(IpbKernel *base, void (*done)(void *data), void *data)
{
    NativeKernel *kernel = (NativeKernel *) base;
    StopWaiter *waiter = g_new(StopWaiter, 1);
    *waiter = (StopWaiter){done, data};
    g_queue_push_tail(&kernel->stop_waiters, waiter);
    kernel->is_resetting = false;
    if (kernel->process == NULL) {
        turn_soon(kernel);
        return;
    }
    if (kernel->is_stopping)
        return;
    kernel->is_stopping = true;
    if (kernel->cell != 0)
        kernel->lost_cause = "the kernel was stopped";
    if (is_cell_running(kernel))
        ipb_process_interrupt(kernel->process, /* is_repetition= */ false);
    ipb_interrupt_end(&kernel->interrupt);
    set_state(kernel, IPB_KERNEL_STATE_DYING);
    ipb_process_shut_down(kernel->process, kernel->interrupt_grace_ms, "the kernel was stopped");
}

static void
set_paused(IpbKernel *base, bool paused)
{
    NativeKernel *kernel = (NativeKernel *) base;
    kernel->is_paused = paused;
    ipb_interrupt_set_paused(&kernel->interrupt, paused);
    if (kernel->process != NULL)
        ipb_process_set_paused(kernel->process, paused);
}

static void
free_kernel(IpbKernel *base)
{
    NativeKernel *kernel = (NativeKernel *) base;
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
                      const IpbNativeKernelOptions *options, IpbKernelEventFunc on_event,
                      void *data)
{
    static const IpbKernelOps ops = {
        .start = start,
        .execute = execute,
        .request = request,
        .cancel_request = cancel_request,
        .interrupt = interrupt,
        .reset = reset,
        .stop = stop,
        .set_paused = set_paused,
        .free = free_kernel,
    };
    NativeKernel *kernel = g_new0(NativeKernel, 1);
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
    ipb_interrupt_init(&kernel->interrupt, loop, send_interrupt, on_grace_end, kernel);
    return &kernel->base;
}
