/* SPDX-License-Identifier: Apache-2.0
 *
 * A native kernel: its states, its cells and its requests, over one process at a time.
 *
 * States: STOPPED → STARTING → IDLE ⇄ BUSY → (INTERRUPTING) → IDLE, and from each of them DYING →
 * STOPPED.
 *
 * A cell that is given while no process is ready waits (`code`); it is sent after hello. If a
 * process ends, the cell that runs in it ends, too (DONE, LOST). A cell that still waits does not,
 * unless the process could not be started for it. All events come from the loop: what a call causes
 * at once waits for the loop's next turn (`turn_timer`).
 */
#include "kernel/native-kernel.h"

#include <inttypes.h>
#include <string.h>

#include "base/done.h"
#include "base/error.h"
#include "kernel/bundle-text.h"
#include "kernel/commands.h"
#include "kernel/interrupt.h"
#include "kernel/late-output.h"
#include "kernel/process.h"
#include "kernel/requests.h"

#define INTERRUPT_GRACE_MS 5000
#define INIT_TIMEOUT_MS 10000
/* An idle kernel that is reset ends in order, unless that takes longer. */
#define RESET_GRACE_MS 2000
/* How much of what a kernel printed before it failed to start goes into the message. */
#define MAX_SHOWN_OUTPUT 2000

#define STATE_LOST "its state is lost, the next cell runs in a fresh kernel"

typedef enum {
    STATE_STOPPED, /* no process */
    STATE_STARTING,
    STATE_IDLE,
    STATE_BUSY,
    STATE_INTERRUPTING,
    STATE_DYING, /* dead, killed or asked to end; its end is not reported yet */
} State;

typedef struct NativeKernel NativeKernel;

struct NativeKernel {
    IpbKernel base;
    IpbLoop *loop;
    IpbForkserver *forkserver;
    char **env, **path, *cwd;
    GBytes *packages; /* or NULL */
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    unsigned interrupt_grace_ms, init_timeout_ms;
    bool is_sandboxed;
    IpbKernelSandboxFuncs sandbox;
    State state;
    IpbProcess *process;
    uint64_t first_cell;   /* of the process; 0: it has run none, so it holds no state */
    bool is_ready_awaited; /* READY or START_FAILED is due for ipb_kernel_start() */
    bool is_stopping, is_resetting;
    bool is_paused;
    GQueue stop_waiters;
    IpbTimer *turn_timer;
    IpbInterrupt interrupt;
    IpbLateOutput late;
    size_t late_size_at_start; /* of the process */
    IpbRequests *requests;
    IpbCommands *commands;
    /* The cell: from execute to DONE. */
    uint64_t cell;          /* 0: none */
    char *code;             /* not sent yet */
    IpbKernelCode options;  /* of the cell: all but the code */
    char *user_expressions; /* of the cell */
    char *parent;           /* of the cell */
    GBytes *comm;           /* of the cell, or NULL */
    int64_t last_count;     /* of executions, as the process reported it last */
    bool is_started_due;    /* the cell was sent, and STARTED is not reported yet */
    bool has_error;         /* ERROR was reported */
    bool is_interrupt_due;  /* interrupted before it was sent */
    const char *lost_cause; /* however the cell ends, it is LOST */
    /* The input that the cell waits for. The process has a number of its own for it. */
    uint64_t input; /* 0: none */
    uint64_t last_input;
    uint64_t input_in_process;
    IpbBranchedFunc branched; /* of a branch that is being made; or NULL */
    void *branched_data;
    /* A branch that is to be parked when this kernel is ready; and in it, this kernel. Or NULL */
    NativeKernel *awaiting, *awaited;
    char *awaited_token; /* or NULL; likewise */
    char *awaited_files;
};

static const char *
state_name(State state)
{
    static const char *const names[] = {"stopped", "starting",     "idle",
                                        "busy",    "interrupting", "dying"};
    return names[state];
}

static void
set_state(NativeKernel *kernel, State state)
{
    if (kernel->state != state)
        g_debug("kernel %p: %s -> %s, cell %" PRIu64, (void *) kernel, state_name(kernel->state),
                state_name(state), kernel->cell);
    kernel->state = state;
}

static bool
is_ready(const NativeKernel *kernel)
{
    return kernel->state == STATE_IDLE || kernel->state == STATE_BUSY ||
           kernel->state == STATE_INTERRUPTING;
}

/* The callbacks may free the kernel, so nothing may follow. */
static void
report_stopped(NativeKernel *kernel)
{
    GQueue waiters = kernel->stop_waiters;
    g_queue_init(&kernel->stop_waiters);
    IpbDone *waiter;
    while ((waiter = g_queue_pop_head(&waiters)) != NULL) {
        waiter->func(waiter->data);
        g_free(waiter);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

static void
report(NativeKernel *kernel, const IpbEvent *event)
{
    kernel->base.on_event(event, kernel->base.data);
}

static void
report_text(NativeKernel *kernel, IpbEventType type, const char *text, size_t size)
{
    report(kernel,
           &(IpbEvent){.type = type, .cell = kernel->cell, .text = text, .text_size = size});
}

static void
report_notices(NativeKernel *kernel)
{
    char *next;
    while ((next = ipb_late_output_take_notice(&kernel->late)) != NULL) {
        g_autofree char *notice = next;
        report_text(kernel, IPB_EVENT_NOTICE, notice, strlen(notice));
    }
}

static void
report_late(NativeKernel *kernel)
{
    size_t size;
    g_autofree char *text = ipb_late_output_take(&kernel->late, &size);
    if (text != NULL)
        report_text(kernel, IPB_EVENT_LATE_OUTPUT, text, size);
    report_notices(kernel);
}

static void
report_ready(NativeKernel *kernel)
{
    kernel->is_ready_awaited = false;
    report(kernel, &(IpbEvent){
                       .type = IPB_EVENT_READY,
                       .preload_failures = ipb_forkserver_preload_failures(kernel->forkserver),
                   });
}

static void
report_start_failed(NativeKernel *kernel, const char *cause)
{
    kernel->is_ready_awaited = false;
    report(kernel, &(IpbEvent){
                       .type = IPB_EVENT_START_FAILED,
                       .text = cause,
                       .text_size = strlen(cause),
                   });
}

/* --- the cell --------------------------------------------------------------------------------- */

/* A cell runs that was sent to the process. */
static bool
is_cell_running(const NativeKernel *kernel)
{
    return kernel->cell != 0 && kernel->code == NULL;
}

/* Comes before every event of a cell: STARTED first, then what was late. */
static void
report_cell_start(NativeKernel *kernel)
{
    if (kernel->is_started_due) {
        kernel->is_started_due = false;
        bool is_counted = !kernel->options.is_silent && kernel->options.stores_history;
        report(kernel, &(IpbEvent){
                           .type = IPB_EVENT_STARTED,
                           .cell = kernel->cell,
                           .execution_count = kernel->last_count + (is_counted ? 1 : 0),
                       });
    }
    if (kernel->code == NULL)
        report_late(kernel);
}

static void
clear_code(NativeKernel *kernel)
{
    g_clear_pointer(&kernel->code, g_free);
    g_clear_pointer(&kernel->user_expressions, g_free);
    g_clear_pointer(&kernel->parent, g_free);
    g_clear_pointer(&kernel->comm, g_bytes_unref);
}

/* The callback of DONE may start the next cell, so the state is settled before. */
static void
end_cell(NativeKernel *kernel, const IpbEvent *done)
{
    IpbEvent event = *done;
    event.type = IPB_EVENT_DONE;
    event.cell = kernel->cell;
    kernel->cell = 0;
    clear_code(kernel);
    kernel->is_started_due = kernel->is_interrupt_due = false;
    kernel->lost_cause = NULL;
    kernel->input = 0;
    ipb_interrupt_end(&kernel->interrupt);
    if (kernel->state == STATE_BUSY || kernel->state == STATE_INTERRUPTING)
        set_state(kernel, STATE_IDLE);
    report(kernel, &event);
}

static void
lose_cell(NativeKernel *kernel, const char *cause)
{
    report_cell_start(kernel);
    end_cell(kernel,
             &(IpbEvent){.status = IPB_CELL_LOST, .text = cause, .text_size = strlen(cause)});
}

/* The cause of a failed start. What the process printed says more than how it ended. */
static char *
describe_failed_start(const NativeKernel *kernel, const char *cause)
{
    const char *output = kernel->late.text != NULL ? kernel->late.text->str : "";
    size_t size = strlen(output);
    g_autofree char *printed = g_strdup(output + MIN(kernel->late_size_at_start, size));
    size = strlen(g_strchomp(printed));
    const char *shown = printed + (size > MAX_SHOWN_OUTPUT ? size - MAX_SHOWN_OUTPUT : 0);
    while (((unsigned char) *shown & 0xc0) == 0x80)
        shown++;
    return g_strconcat(cause, *shown != '\0' ? "; it printed: " : "", shown, NULL);
}

/* What the process printed is in the cause; what was printed before it started is late output. */
static void
lose_cell_at_start(NativeKernel *kernel, const char *cause)
{
    size_t size = 0;
    g_autofree char *output = ipb_late_output_take(&kernel->late, &size);
    size_t before = MIN(kernel->late_size_at_start, size);
    if (before > 0)
        report_text(kernel, IPB_EVENT_LATE_OUTPUT, output, before);
    report_notices(kernel);
    lose_cell(kernel, cause);
}

/* It was interrupted before it was sent. */
static void
end_unsent_cell(NativeKernel *kernel)
{
    static const char text[] = "KeyboardInterrupt: the cell was interrupted before it ran";
    uint64_t cell = kernel->cell;
    g_clear_pointer(&kernel->code, g_free);
    report(kernel, &(IpbEvent){
                       .type = IPB_EVENT_ERROR,
                       .cell = cell,
                       .ename = "KeyboardInterrupt",
                       .evalue = "",
                       .text = text,
                       .text_size = strlen(text),
                   });
    if (kernel->cell == cell)
        end_cell(kernel, &(IpbEvent){
                             .status = IPB_CELL_INTERRUPTED,
                             .text = kernel->cwd,
                             .text_size = strlen(kernel->cwd),
                         });
}

/* Sends the cell that waits; false only if it is too large for a frame. */
static bool
send_cell(NativeKernel *kernel, GError **error)
{
    g_autoptr(GError) send_error = NULL;
    IpbKernelCode code = kernel->options;
    code.code = kernel->code;
    code.user_expressions = kernel->user_expressions;
    code.parent = kernel->parent;
    code.comm = kernel->comm;
    if (!ipb_process_execute(kernel->process, kernel->cell, &code, &send_error)) {
        if (g_error_matches(send_error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT)) {
            g_propagate_error(error, g_steal_pointer(&send_error));
            return false;
        }
        /* The process is dead, and its end will be reported: the cell waits for the next
         * process. */
        set_state(kernel, STATE_DYING);
        return true;
    }
    clear_code(kernel);
    if (kernel->first_cell == 0)
        kernel->first_cell = kernel->cell;
    kernel->is_started_due = true;
    kernel->has_error = false;
    set_state(kernel, STATE_BUSY);
    return true;
}

/* --- the loop's next turn --------------------------------------------------------------------- */

static bool
send_request(uint64_t id, const char *method, const char *params, GError **error, void *data)
{
    NativeKernel *kernel = data;
    return ipb_process_request(kernel->process, id, method, params, error);
}

static void
start_commands(NativeKernel *kernel)
{
    if (ipb_commands_is_empty(kernel->commands))
        return;
    g_auto(GStrv) env = ipb_process_change_environment(kernel->process, g_strdupv(kernel->env));
    ipb_commands_start(kernel->commands, kernel->process, (const char *const *) env, kernel->cwd);
}

static void
on_turn(void *data)
{
    NativeKernel *kernel = data;
    g_clear_pointer(&kernel->turn_timer, ipb_timer_free);
    if (kernel->is_ready_awaited && is_ready(kernel))
        report_ready(kernel);
    if (kernel->cell != 0 && kernel->is_interrupt_due)
        end_unsent_cell(kernel);
    else if (is_cell_running(kernel))
        report_cell_start(kernel);
    if (is_ready(kernel))
        ipb_requests_send(kernel->requests, send_request, kernel);
    if (is_ready(kernel))
        start_commands(kernel);
    if (!kernel->is_stopping)
        report_stopped(kernel);
}

static void
schedule_turn(NativeKernel *kernel)
{
    if (kernel->turn_timer == NULL)
        kernel->turn_timer = ipb_timer_new(kernel->loop, 0, on_turn, kernel);
}

/* --- branches --------------------------------------------------------------------------------- */

static void
report_branched(NativeKernel *kernel)
{
    if (kernel->branched != NULL)
        g_steal_pointer (&kernel->branched)(ipb_process_warnings(kernel->process), NULL,
                                            kernel->branched_data);
}

static void
fail_branch(NativeKernel *kernel, IpyboxError code, const char *cause)
{
    if (kernel->branched == NULL)
        return;
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, (int) code, cause);
    g_steal_pointer (&kernel->branched)(NULL, error, kernel->branched_data);
}

/* The kernel takes over how far its forerunner has come. */
static void
continue_from(NativeKernel *branch, const NativeKernel *kernel)
{
    branch->base.last_cell = kernel->base.last_cell;
    branch->first_cell = kernel->first_cell;
    branch->last_count = kernel->last_count;
}

static NativeKernel *
take_awaiting(NativeKernel *kernel)
{
    NativeKernel *branch = g_steal_pointer(&kernel->awaiting);
    if (branch != NULL)
        branch->awaited = NULL;
    return branch;
}

static void make_process(NativeKernel *kernel, IpbProcess *forerunner,
                         const IpbBranchOptions *branch, bool rehearses);

static void
park_awaiting(NativeKernel *kernel)
{
    NativeKernel *branch = take_awaiting(kernel);
    if (branch == NULL)
        return;
    const IpbBranchOptions options = {
        .kind = IPB_BRANCH_PARKED,
        .token = branch->awaited_token,
        .files = branch->awaited_files,
    };
    continue_from(branch, kernel);
    make_process(branch, kernel->process, &options, /* rehearses= */ false);
}

static void
fail_awaiting(NativeKernel *kernel, const char *cause)
{
    NativeKernel *branch = take_awaiting(kernel);
    if (branch != NULL)
        fail_branch(branch, IPYBOX_ERROR_KERNEL_DIED, cause);
}

/* --- the process ------------------------------------------------------------------------------ */

static void start_process(NativeKernel *kernel);

static void
on_hello(void *data)
{
    NativeKernel *kernel = data;
    if (kernel->state == STATE_DYING)
        return;
    set_state(kernel, STATE_IDLE);
    if (kernel->branched == NULL)
        kernel->last_count = 0;
    report_branched(kernel);
    park_awaiting(kernel);
    report_ready(kernel);
    if (is_ready(kernel))
        ipb_requests_send(kernel->requests, send_request, kernel);
    if (is_ready(kernel))
        start_commands(kernel);
    if (kernel->state != STATE_IDLE || kernel->cell == 0 || kernel->code == NULL ||
        kernel->is_interrupt_due)
        return;
    g_autoptr(GError) error = NULL;
    if (!send_cell(kernel, &error))
        lose_cell(kernel, error->message);
    else
        schedule_turn(kernel);
}

/* --- late events ------------------------------------------------------------------------------ */

/* Whether the process has run the cell. */
static bool
is_ended_cell(const NativeKernel *kernel, uint64_t cell)
{
    uint64_t last = kernel->base.last_cell;
    return kernel->first_cell != 0 && cell >= kernel->first_cell && cell <= last &&
           cell != kernel->cell;
}

static void
keep_display(NativeKernel *kernel, const IpbEvent *event)
{
    if (event->data == NULL)
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

/* Whether LATE_OUTPUT is to have the text of the event, too. */
static bool
keeps_text(const NativeKernel *kernel, const IpbEvent *event)
{
    return !kernel->rules.has_rich_client || event->cell == 0;
}

static void
on_late_event(NativeKernel *kernel, IpbEvent *event)
{
    if (keeps_text(kernel, event) && event->text != NULL)
        ipb_late_output_add(&kernel->late, event->text, event->text_size);
    else if (keeps_text(kernel, event) && !is_cell_running(kernel))
        keep_display(kernel, event);
    event->is_late = true;
    report(kernel, event);
    if (is_cell_running(kernel))
        report_cell_start(kernel);
}

/* --- events of the process -------------------------------------------------------------------- */

static void
on_text(bool is_stderr, bool is_late, uint64_t cell, const char *text, size_t size, void *data)
{
    NativeKernel *kernel = data;
    if (is_late || !is_cell_running(kernel)) {
        IpbEvent event = {.type = is_stderr ? IPB_EVENT_STDERR : IPB_EVENT_STDOUT,
                          .cell = is_ended_cell(kernel, cell) ? cell : 0,
                          .text = text,
                          .text_size = size};
        on_late_event(kernel, &event);
        return;
    }
    report_cell_start(kernel);
    if (is_cell_running(kernel))
        report_text(kernel, is_stderr ? IPB_EVENT_STDERR : IPB_EVENT_STDOUT, text, size);
}

static void
on_notice(const char *text, void *data)
{
    NativeKernel *kernel = data;
    ipb_late_output_add_notice(&kernel->late, text);
}

/* Sets is_late. Errors: the kernel cannot send such a frame now. */
static bool
check_cell(const NativeKernel *kernel, IpbEvent *event, GError **error)
{
    bool may_be_late = event->type == IPB_EVENT_DISPLAY || event->type == IPB_EVENT_UPDATE ||
                       event->type == IPB_EVENT_CLEAR_OUTPUT || event->type == IPB_EVENT_STDOUT ||
                       event->type == IPB_EVENT_STDERR || event->type == IPB_EVENT_COMM;
    uint64_t running = is_cell_running(kernel) ? kernel->cell : 0;
    if (running != 0 && event->cell == running)
        return true;
    event->is_late = true;
    if (may_be_late && (event->cell == 0 || is_ended_cell(kernel, event->cell)))
        return true;
    g_autofree char *present =
        running != 0 ? g_strdup_printf("cell %" PRIu64, running) : g_strdup("no cell");
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                "a frame of cell %" PRIu64 " while %s runs", event->cell, present);
    return false;
}

static bool
on_done(NativeKernel *kernel, const IpbEvent *event, GError **error)
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

/* A cell that is being interrupted does not wait again: a debugger would ask for ever. */
static bool
on_input_request(NativeKernel *kernel, const IpbMessage *message, GError **error)
{
    if (!kernel->options.allows_input || kernel->input != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    kernel->input != 0 ? "a second request for input"
                                       : "a request for input in a cell that allows none");
        return false;
    }
    if (kernel->state != STATE_BUSY) {
        ipb_process_answer_input(kernel->process, message->request, NULL,
                                 "the cell was interrupted", NULL);
        return true;
    }
    kernel->input = ++kernel->last_input;
    kernel->input_in_process = message->request;
    IpbEvent event = message->event;
    event.cell = kernel->cell;
    event.input = kernel->input;
    report(kernel, &event);
    return true;
}

/* The kernel waits no longer; the answer may have been on its way. */
static void
on_input_end(NativeKernel *kernel, const IpbMessage *message)
{
    if (kernel->input == 0 || kernel->input_in_process != message->request)
        return;
    IpbEvent event = message->event;
    event.cell = kernel->cell;
    event.input = kernel->input;
    kernel->input = 0;
    report(kernel, &event);
}

static bool
on_message(const IpbMessage *message, GError **error, void *data)
{
    NativeKernel *kernel = data;
    IpbEvent event = message->event;
    if (message->type == IPB_FRAME_REPLY)
        return ipb_requests_answer(kernel->requests, message->request, message->result,
                                   message->error, error);
    if (!check_cell(kernel, &event, error))
        return false;
    if (event.type == IPB_EVENT_COMM && !kernel->rules.has_rich_client) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "a frame comm, but the client shows text only");
        return false;
    }
    if (event.is_late) {
        on_late_event(kernel, &event);
        return true;
    }
    report_cell_start(kernel);
    if (event.type == IPB_EVENT_DONE)
        return on_done(kernel, &event, error);
    if (event.type == IPB_EVENT_INPUT_REQUEST)
        return on_input_request(kernel, message, error);
    if (event.type == IPB_EVENT_INPUT_WITHDRAWN) {
        on_input_end(kernel, message);
        return true;
    }
    if (event.type == IPB_EVENT_ERROR)
        kernel->has_error = true;
    report(kernel, &event);
    return true;
}

/* The process could not be started. The callbacks may give the kernel something new to do. */
static void
fail_start(NativeKernel *kernel, const char *cause)
{
    uint64_t cell = kernel->cell;
    g_autofree char *text = describe_failed_start(kernel, cause);
    report_start_failed(kernel, text);
    if (cell != 0 && kernel->cell == cell)
        lose_cell_at_start(kernel, text);
}

static void
on_process_end(const char *cause, void *data)
{
    NativeKernel *kernel = data;
    bool was_starting = kernel->state == STATE_STARTING;
    bool is_expected = kernel->is_stopping || kernel->is_resetting;
    bool is_restarting = kernel->is_resetting, was_stopping = kernel->is_stopping;
    bool has_lost_state = kernel->first_cell != 0;
    IpyboxError branch_error = is_expected                               ? IPYBOX_ERROR_CANCELLED
                               : ipb_process_is_refused(kernel->process) ? IPYBOX_ERROR_REFUSED
                                                                         : IPYBOX_ERROR_KERNEL_DIED;
    ipb_commands_kill(kernel->commands);
    g_clear_pointer(&kernel->process, ipb_process_free);
    kernel->is_stopping = kernel->is_resetting = false;
    kernel->first_cell = 0;
    set_state(kernel, STATE_STOPPED);
    fail_branch(kernel, branch_error, cause);
    if (was_stopping || (was_starting && !is_restarting))
        fail_awaiting(kernel, cause);
    if (kernel->cell != 0 && kernel->lost_cause != NULL) {
        lose_cell(kernel, kernel->lost_cause);
    } else if (is_cell_running(kernel)) {
        g_autofree char *text = g_strdup_printf("%s; " STATE_LOST, cause);
        lose_cell(kernel, text);
    } else if (was_starting) {
        fail_start(kernel, cause);
    } else if (!is_expected && has_lost_state) {
        g_autofree char *notice = g_strdup_printf("while idle, %s; its state is lost", cause);
        ipb_late_output_add_notice(&kernel->late, notice);
    }
    if (!was_starting && !is_expected)
        report(kernel,
               &(IpbEvent){.type = IPB_EVENT_DIED, .text = cause, .text_size = strlen(cause)});
    if (was_stopping && kernel->is_ready_awaited)
        report_start_failed(kernel, cause);
    if (is_restarting) /* its late output is dropped with it */
        ipb_late_output_clear(&kernel->late);
    /* A process that could not start takes the requests with it that waited for it. */
    ipb_requests_fail(kernel->requests, was_stopping || (was_starting && !is_restarting), cause);
    ipb_commands_fail(kernel->commands, was_stopping || (was_starting && !is_restarting),
                      is_expected ? IPYBOX_ERROR_CANCELLED : IPYBOX_ERROR_KERNEL_DIED, cause);
    if (is_restarting || kernel->cell != 0 || kernel->is_ready_awaited ||
        kernel->awaiting != NULL || !ipb_requests_is_empty(kernel->requests) ||
        !ipb_commands_is_empty(kernel->commands))
        start_process(kernel);
    report_stopped(kernel);
}

static void
make_process(NativeKernel *kernel, IpbProcess *forerunner, const IpbBranchOptions *branch,
             bool rehearses)
{
    static const IpbProcessFuncs funcs = {
        .on_hello = on_hello,
        .on_text = on_text,
        .on_message = on_message,
        .on_notice = on_notice,
        .on_end = on_process_end,
    };
    IpbProcessOptions options = {
        .env = (const char *const *) kernel->env,
        .cwd = kernel->cwd,
        .path = (const char *const *) kernel->path,
        .packages = kernel->packages,
        .has_seed = branch != NULL ? branch->has_seed : kernel->has_seed,
        .seed = branch != NULL ? branch->seed : kernel->seed,
        .rules = kernel->rules,
        .rehearses = rehearses,
        .init_timeout_ms = kernel->init_timeout_ms,
        .sandbox = kernel->is_sandboxed ? &kernel->sandbox : NULL,
        .forerunner = forerunner,
        .kind = branch != NULL ? branch->kind : IPB_BRANCH_LIVE,
        .forerunner_token = branch != NULL ? branch->token : NULL,
        .files = branch != NULL ? branch->files : NULL,
    };
    kernel->process = ipb_process_new(kernel->loop, kernel->forkserver, &options, &funcs, kernel);
    ipb_process_set_paused(kernel->process, kernel->is_paused);
    kernel->late_size_at_start = ipb_late_output_size(&kernel->late);
    set_state(kernel, STATE_STARTING);
}

/* Does nothing if there is one. */
static void
start_process(NativeKernel *kernel)
{
    if (kernel->process == NULL)
        make_process(kernel, NULL, NULL, /* rehearses= */ false);
}

/* --- interrupting ----------------------------------------------------------------------------- */

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

static uint64_t
cpu_wait_us(void *data)
{
    NativeKernel *kernel = data;
    return ipb_process_cpu_wait_us(kernel->process);
}

/* --- the operations --------------------------------------------------------------------------- */

static void
start(IpbKernel *base, bool rehearses)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->is_stopping)
        return;
    kernel->is_ready_awaited = true;
    if (is_ready(kernel))
        schedule_turn(kernel);
    else if (kernel->process == NULL)
        make_process(kernel, NULL, NULL, rehearses);
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
    kernel->options = *code;
    kernel->user_expressions = g_strdup(code->user_expressions);
    kernel->parent = g_strdup(code->parent);
    kernel->comm = code->comm != NULL ? g_bytes_ref(code->comm) : NULL;
    if (kernel->state == STATE_IDLE) {
        if (!send_cell(kernel, error)) {
            kernel->cell = 0;
            clear_code(kernel);
            return false;
        }
        schedule_turn(kernel);
    }
    start_process(kernel);
    return true;
}

static bool
request(IpbKernel *base, const char *method, const char *params, IpbKernelReplyFunc func,
        void *data, GError **error)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->is_stopping) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the kernel is being stopped");
        return false;
    }
    if (!ipb_requests_add(kernel->requests, method, params, func, data, error))
        return false;
    schedule_turn(kernel);
    start_process(kernel);
    return true;
}

static bool
answer_input(IpbKernel *base, uint64_t input, const char *value, const char *why, GError **error)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (input == 0 || kernel->input != input) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "the cell does not wait for this input any more");
        return false;
    }
    kernel->input = 0;
    return ipb_process_answer_input(kernel->process, kernel->input_in_process, value, why, error);
}

static void
interrupt(IpbKernel *base)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->cell != 0 && kernel->code != NULL && kernel->lost_cause == NULL) {
        kernel->is_interrupt_due = true;
        schedule_turn(kernel);
        return;
    }
    if (kernel->state != STATE_BUSY && kernel->state != STATE_INTERRUPTING)
        return;
    set_state(kernel, STATE_INTERRUPTING);
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
    ipb_commands_kill(kernel->commands);
    if (kernel->cell != 0)
        kernel->lost_cause = "the kernel was reset";
    ipb_interrupt_end(&kernel->interrupt);
    /* User code may have data to write to its files: an end in order lets it. */
    bool ends_in_order =
        kernel->state == STATE_IDLE && kernel->cell == 0 && kernel->first_cell != 0;
    set_state(kernel, STATE_DYING);
    if (ends_in_order)
        ipb_process_shut_down(kernel->process, RESET_GRACE_MS, "the kernel was reset");
    else
        ipb_process_kill(kernel->process, "the kernel was reset");
}

static void
stop(IpbKernel *base, void (*done)(void *data), void *data)
{
    NativeKernel *kernel = (NativeKernel *) base;
    IpbDone *waiter = g_new(IpbDone, 1);
    *waiter = (IpbDone){done, data};
    g_queue_push_tail(&kernel->stop_waiters, waiter);
    kernel->is_resetting = false;
    if (kernel->process == NULL) {
        schedule_turn(kernel);
        return;
    }
    if (kernel->is_stopping)
        return;
    kernel->is_stopping = true;
    ipb_commands_kill(kernel->commands);
    if (kernel->cell != 0)
        kernel->lost_cause = "the kernel was stopped";
    ipb_interrupt_end(&kernel->interrupt);
    if (is_cell_running(kernel))
        ipb_interrupt_send(&kernel->interrupt, kernel->interrupt_grace_ms);
    set_state(kernel, STATE_DYING);
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
report_late_output(IpbKernel *base)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->cell == 0)
        report_late(kernel);
}

static bool
has_socket(const IpbKernel *base, uint64_t inode)
{
    const NativeKernel *kernel = (const NativeKernel *) base;
    return kernel->process != NULL && ipb_process_has_socket(kernel->process, inode);
}

static bool
fork_kernel(IpbKernel *base, IpbKernel *branch_base, const IpbBranchOptions *options,
            IpbBranchedFunc func, void *data, GError **error)
{
    NativeKernel *kernel = (NativeKernel *) base;
    NativeKernel *branch = (NativeKernel *) branch_base;
    g_return_val_if_fail(branch->process == NULL && branch->forkserver == kernel->forkserver,
                         false);
    if (kernel->cell != 0 || is_ready(kernel) != (kernel->state == STATE_IDLE)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "a cell runs: a kernel can be branched between cells only");
        return false;
    }
    if (kernel->state != STATE_IDLE && options->kind != IPB_BRANCH_PARKED) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "there is no kernel process to branch: start it, or run a cell first");
        return false;
    }
    branch->branched = func;
    branch->branched_data = data;
    if (kernel->state != STATE_IDLE) {
        g_return_val_if_fail(kernel->awaiting == NULL, false);
        kernel->awaiting = branch;
        branch->awaited = kernel;
        branch->awaited_token = g_strdup(options->token);
        branch->awaited_files = g_strdup(options->files);
        start_process(kernel);
        return true;
    }
    continue_from(branch, kernel);
    make_process(branch, kernel->process, options, /* rehearses= */ false);
    return true;
}

static void
replace(IpbKernel *base, IpbKernel *branch_base)
{
    NativeKernel *kernel = (NativeKernel *) base;
    NativeKernel *branch = (NativeKernel *) branch_base;
    g_return_if_fail(kernel->cell == 0 && branch->state == STATE_IDLE && branch->cell == 0);
    IpbProcess *before = kernel->process;
    kernel->process = g_steal_pointer(&branch->process);
    ipb_process_set_data(kernel->process, kernel);
    ipb_process_set_paused(kernel->process, kernel->is_paused);
    ipb_commands_kill(kernel->commands);
    ipb_process_free(before);
    ipb_requests_fail(kernel->requests, /* with_waiting= */ false, "the session was restored");
    ipb_commands_fail(kernel->commands, /* with_waiting= */ false, IPYBOX_ERROR_CANCELLED,
                      "the session was restored");
    ipb_late_output_clear(&kernel->late);
    kernel->late_size_at_start = 0;
    kernel->first_cell = branch->first_cell;
    kernel->last_count = branch->last_count;
    set_state(branch, STATE_STOPPED);
    set_state(kernel, STATE_IDLE);
    schedule_turn(kernel);
}

static bool
measure(const IpbKernel *base, uint64_t *ret_bytes)
{
    const NativeKernel *kernel = (const NativeKernel *) base;
    return kernel->process != NULL && ipb_process_measure(kernel->process, ret_bytes);
}

static uint64_t
run_command(IpbKernel *base, const IpbCommandOptions *options, IpbCommandFunc func, void *data,
            GError **error)
{
    NativeKernel *kernel = (NativeKernel *) base;
    if (kernel->is_stopping) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the kernel is being stopped");
        return 0;
    }
    uint64_t command = ipb_commands_add(kernel->commands, options, func, data, error);
    if (command == 0)
        return 0;
    schedule_turn(kernel);
    start_process(kernel);
    return command;
}

static IpbCommands *
commands(IpbKernel *base)
{
    return ((NativeKernel *) base)->commands;
}

static void
free_kernel(IpbKernel *base)
{
    NativeKernel *kernel = (NativeKernel *) base;
    ipb_commands_free(kernel->commands);
    take_awaiting(kernel);
    if (kernel->awaited != NULL)
        take_awaiting(kernel->awaited);
    g_free(kernel->awaited_token);
    g_free(kernel->awaited_files);
    ipb_process_free(kernel->process);
    ipb_requests_free(kernel->requests);
    ipb_forkserver_unref(kernel->forkserver);
    ipb_timer_free(kernel->turn_timer);
    ipb_interrupt_end(&kernel->interrupt);
    ipb_late_output_clear(&kernel->late);
    g_queue_clear_full(&kernel->stop_waiters, g_free);
    clear_code(kernel);
    g_free(kernel->cwd);
    g_strfreev(kernel->env);
    g_strfreev(kernel->path);
    if (kernel->packages != NULL)
        g_bytes_unref(kernel->packages);
    ipb_loop_unref(kernel->loop);
    g_free(kernel);
}

IpbKernel *
ipb_native_kernel_new(IpbLoop *loop, IpbForkserver *forkserver, const IpbKernelOptions *options,
                      IpbEventFunc on_event, void *data)
{
    static const IpbPausableTimerFuncs grace = {on_grace_end, cpu_wait_us};
    static const IpbKernelOps ops = {
        .start = start,
        .execute = execute,
        .request = request,
        .answer_input = answer_input,
        .interrupt = interrupt,
        .reset = reset,
        .stop = stop,
        .set_paused = set_paused,
        .report_late_output = report_late_output,
        .has_socket = has_socket,
        .fork = fork_kernel,
        .replace = replace,
        .measure = measure,
        .run_command = run_command,
        .commands = commands,
        .free = free_kernel,
    };
    NativeKernel *kernel = g_new0(NativeKernel, 1);
    kernel->base = (IpbKernel){.ops = &ops, .on_event = on_event, .data = data};
    kernel->loop = ipb_loop_ref(loop);
    kernel->forkserver = ipb_forkserver_ref(forkserver);
    kernel->env = g_strdupv((char **) options->env);
    kernel->path = g_strdupv((char **) options->path);
    kernel->packages = options->packages != NULL ? g_bytes_ref(options->packages) : NULL;
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
    kernel->commands = ipb_commands_new(loop);
    ipb_interrupt_init(&kernel->interrupt, loop, send_interrupt, &grace, kernel);
    return &kernel->base;
}
