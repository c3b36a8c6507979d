/* SPDX-License-Identifier: Apache-2.0
 *
 * The cells of a session; see the header.
 *
 * Invariant: at most one cell is current, which means that the kernel has it. The others wait in
 * the queue, in order. A current cell ends only with the event DONE. IpbKernel reports DONE for
 * each cell, even if the process dies.
 */
#include "session/cells.h"

#include <string.h>

#include "base/error.h"
#include "session/images.h"

/* Shown with one cell. */
#define MAX_VIOLATIONS 10
#define MAX_KEPT_NOTICES 100
/* Cells that may wait behind the running one. */
#define MAX_WAITING_CELLS 1000
#define MAX_CODE_SIZE (32u * 1024 * 1024)
#define INPUT_TIMEOUT_MS (60u * 60 * 1000)
/* Cells that have ended, of which late events say the number and the parent; and likewise messages
 * of comms, of which there may be many more. */
#define MAX_ENDED_CELLS 256
#define NOTICE_PREFIX "[ipybox] "

typedef struct {
    IpbCells *cells;
    uint64_t number;
    char *code;
    bool is_silent, stores_history;
    bool is_recorded;       /* its code is in the record */
    char *user_expressions; /* or NULL */
    char *parent;           /* likewise */
    GBytes *comm;           /* likewise */
    bool allows_input;
    unsigned input_timeout_ms;
    uint64_t input; /* that it waits for; 0: none */
    IpbTimer *input_timer;
    IpbEventFunc on_event;
    void *data;
    bool is_timed_out;
    bool is_cancelled;
    bool is_interrupted;
    bool is_reset; /* while it ran: its kernel is ended on purpose */
    bool undoes_on_error, is_undone;
    /* While it is being undone: how it ended. */
    IpbCellStatus status;
    char *end_text;
    int64_t execution_count;
    unsigned n_violations;
    /* Its clock. */
    unsigned timeout_ms;
    int64_t left_us;    /* of the time, when the clock was last paused */
    int64_t started_us; /* when the clock was last started */
    IpbTimer *timer;    /* NULL: the clock is paused */
} Cell;

/* What late events need of a cell that has ended. */
typedef struct {
    uint64_t number; /* 0: none */
    int64_t execution_count;
    char *parent; /* or NULL */
} EndedCell;

struct IpbCells {
    IpbLoop *loop;
    IpbKernel *kernel;
    IpbApprovals *approvals;
    IpbSandboxing *sandboxing; /* NULL: no sandbox */
    IpbRecord *record;         /* or NULL */
    char *workspace;
    char *images_dir;           /* or NULL */
    char *working_dir;          /* or NULL */
    IpbStagedWorkspace *staged; /* or NULL */
    IpbEventFunc on_event;
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
    Cell *current;
    GQueue waiting; /* Cell */
    EndedCell ended[MAX_ENDED_CELLS], ended_comms[MAX_ENDED_CELLS];
    unsigned n_ended, n_ended_comms; /* so far: each replaces the oldest */
    bool has_rich_client;
    IpbEventFunc late_func; /* or NULL */
    void *late_data;
    uint64_t last_number, last_run;
    unsigned n_holds;             /* cells wait until all are released */
    const IpbCellUndoFuncs *undo; /* or NULL */
    void *undo_data;
    uint64_t preparing;  /* the first cell that waits: it is being prepared; 0: none */
    uint64_t prepared;   /* the cell that can run */
    bool is_undoing;     /* the current cell has ended */
    GQueue kept_notices; /* char *: for the next cell */
    IpbTimer *start_timer;
    bool is_awaiting_approval;
    bool has_logged_preload_failures;
    bool is_closed;
};

/* --- a cell ----------------------------------------------------------------------------------- */

static Cell *
new_cell(IpbCells *cells, const char *code, const IpbCellOptions *options, IpbEventFunc on_event,
         void *data)
{
    Cell *cell = g_new0(Cell, 1);
    cell->cells = cells;
    cell->number = ++cells->last_number;
    cell->code = g_strdup(code);
    cell->is_silent = options->is_silent;
    cell->stores_history = options->stores_history;
    cell->user_expressions = g_strdup(options->user_expressions);
    cell->allows_input = options->allows_input;
    cell->input_timeout_ms =
        options->input_timeout_ms > 0 ? options->input_timeout_ms : INPUT_TIMEOUT_MS;
    cell->parent = g_strdup(options->parent);
    cell->comm = options->comm != NULL ? g_bytes_ref(options->comm) : NULL;
    cell->undoes_on_error = options->undoes_on_error;
    cell->timeout_ms = options->timeout_ms;
    cell->left_us = (int64_t) options->timeout_ms * 1000;
    cell->on_event = on_event;
    cell->data = data;
    return cell;
}

static void
free_cell(Cell *cell)
{
    if (cell == NULL)
        return;
    ipb_timer_free(cell->timer);
    ipb_timer_free(cell->input_timer);
    g_free(cell->code);
    g_free(cell->user_expressions);
    g_free(cell->parent);
    g_free(cell->end_text);
    g_clear_pointer(&cell->comm, g_bytes_unref);
    g_free(cell);
}

static void
log_text(const IpbCells *cells, const char *level, const char *text)
{
    cells->on_log(level, text, cells->data);
}

/* For the end of the running cell, or the start of the next one. */
static void
keep_notice(IpbCells *cells, const char *text)
{
    if (g_queue_get_length(&cells->kept_notices) < MAX_KEPT_NOTICES)
        g_queue_push_tail(&cells->kept_notices, g_strconcat(NOTICE_PREFIX, text, NULL));
}

/* The record has ended: says so once, since it reports one error only. */
static void
report_record_error(IpbCells *cells, const Cell *cell, const GError *error)
{
    g_autofree char *notice = g_strconcat(NOTICE_PREFIX, error->message, NULL);
    log_text(cells, "warning", error->message);
    if (cell == NULL)
        keep_notice(cells, error->message);
    else if (cell->on_event != NULL)
        cell->on_event(&(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice}, cell->data);
}

static void
record_cell(Cell *cell)
{
    g_autoptr(GError) error = NULL;
    if (cell->is_recorded || cell->comm != NULL)
        return;
    cell->is_recorded = true;
    if (!ipb_record_cell(cell->cells->record, cell->number, cell->code, cell->is_silent, &error))
        report_record_error(cell->cells, cell, error);
}

/* A comm message is no cell of the record. What its handlers print and show is kept as output of no
 * cell. Their clear_output is for a widget, and not for the cell before. */
static bool
is_kept_of_comm(IpbEventType type)
{
    return type != IPB_EVENT_STARTED && type != IPB_EVENT_DONE && type != IPB_EVENT_CLEAR_OUTPUT;
}

/* @cell: NULL if the event is of none that runs. */
static void
record_event(IpbCells *cells, const Cell *cell, const IpbEvent *event)
{
    g_autoptr(GError) error = NULL;
    bool is_comm = cell != NULL && cell->comm != NULL;
    if (is_comm && !is_kept_of_comm(event->type))
        return;
    uint64_t number = cell == NULL ? event->cell : is_comm ? 0 : cell->number;
    if (!ipb_record_event(cells->record, number, event, &error))
        report_record_error(cells, cell, error);
}

static void
send_event(const Cell *cell, const IpbEvent *event)
{
    record_event(cell->cells, cell, event);
    if (cell->on_event != NULL)
        cell->on_event(event, cell->data);
}

static void
on_timeout(void *data)
{
    Cell *cell = data;
    IpbCells *cells = cell->cells;
    g_clear_pointer(&cell->timer, ipb_timer_free);
    cell->is_timed_out = true;
    ipb_approvals_cancel_all(cells->approvals);
    ipb_kernel_interrupt(cells->kernel);
}

static void
start_clock(Cell *cell)
{
    if (cell->timeout_ms == 0 || cell->timer != NULL)
        return;
    unsigned left_ms = (unsigned) ((MAX(cell->left_us, 0) + 999) / 1000);
    cell->started_us = g_get_monotonic_time();
    cell->timer = ipb_timer_new(cell->cells->loop, left_ms, on_timeout, cell);
}

static void
pause_clock(Cell *cell)
{
    if (cell->timer == NULL)
        return;
    g_clear_pointer(&cell->timer, ipb_timer_free);
    cell->left_us -= g_get_monotonic_time() - cell->started_us;
}

/* The clock runs unless the cell waits for a person. */
static void
update_clock(Cell *cell)
{
    if (cell->is_timed_out || cell->cells->is_undoing)
        return;
    if (cell->cells->is_awaiting_approval || cell->input != 0)
        pause_clock(cell);
    else
        start_clock(cell);
}

static EndedCell *
next_slot(const Cell *cell)
{
    IpbCells *cells = cell->cells;
    return cell->comm != NULL ? &cells->ended_comms[cells->n_ended_comms++ % MAX_ENDED_CELLS]
                              : &cells->ended[cells->n_ended++ % MAX_ENDED_CELLS];
}

/* NULL: not known any more. */
static const EndedCell *
find_ended(const EndedCell *ended, uint64_t number)
{
    for (size_t i = 0; i < MAX_ENDED_CELLS && number != 0; i++)
        if (ended[i].number == number)
            return &ended[i];
    return NULL;
}

static void
remember_ended(Cell *cell, const IpbEvent *done)
{
    EndedCell *ended = next_slot(cell);
    g_free(ended->parent);
    *ended = (EndedCell){
        .number = cell->number,
        .execution_count = cell->stores_history && !cell->is_silent ? done->execution_count : 0,
        .parent = g_steal_pointer(&cell->parent),
    };
}

/* Ends a cell, however it ended, and frees it. @event: the kernel's DONE; NULL if the kernel did
 * not run it. */
static void
end_cell(Cell *cell, IpbCellStatus status, const char *text, const IpbEvent *event)
{
    pause_clock(cell);
    record_cell(cell); /* of a cell that never ran */
    if (event != NULL)
        remember_ended(cell, event);
    IpbStagedWorkspace *staged = cell->cells->staged;
    g_autofree char *cut = NULL;
    g_autofree char *changes = event != NULL && staged != NULL && cell->comm == NULL
                                   ? ipb_staged_workspace_end_cell(staged, &cut)
                                   : NULL;
    if (event != NULL && staged != NULL && cell->comm != NULL)
        ipb_staged_workspace_forget_cell(staged);
    send_event(cell, &(IpbEvent){
                         .type = IPB_EVENT_DONE,
                         .status = status,
                         .text = text,
                         .execution_count = event != NULL ? event->execution_count : 0,
                         .is_undone = cell->is_undone,
                         .changes = changes,
                         .changes_cut = cut,
                         .user_expressions = event != NULL ? event->user_expressions : NULL,
                         .payload = event != NULL ? event->payload : NULL,
                     });
    free_cell(cell);
}

/* What the end of a cell means to the caller that asked for it. The caller frees @ret_text. */
static IpbCellStatus
explain_end(const Cell *cell, const IpbEvent *event, char **ret_text)
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
    /* Another process sent the SIGINT: the ERROR event has said it. */
    return event->status == IPB_CELL_INTERRUPTED ? IPB_CELL_ERROR : event->status;
}

/* --- notices ---------------------------------------------------------------------------------- */

static void
send_notice(const Cell *cell, const char *text)
{
    g_autofree char *notice = g_strconcat(NOTICE_PREFIX, text, NULL);
    send_event(cell, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice});
}

/* @func may keep them again. */
static void
send_kept_notices(IpbCells *cells, IpbEventFunc func, void *data)
{
    GQueue kept = cells->kept_notices;
    g_queue_init(&cells->kept_notices);
    char *next;
    while ((next = g_queue_pop_head(&kept)) != NULL) {
        g_autofree char *notice = next;
        if (func != NULL)
            func(&(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice}, data);
    }
}

void
ipb_cells_keep_notices(IpbCells *cells, const GPtrArray *notices)
{
    for (guint i = 0; i < notices->len; i++)
        if (g_queue_get_length(&cells->kept_notices) < MAX_KEPT_NOTICES)
            g_queue_push_tail(&cells->kept_notices, g_strdup(g_ptr_array_index(notices, i)));
}

void
ipb_cells_report_progress(IpbCells *cells, const char *text)
{
    if (cells->current != NULL)
        send_event(cells->current, &(IpbEvent){.type = IPB_EVENT_TOOL_PROGRESS, .text = text});
}

void
ipb_cells_report_violation(IpbCells *cells, const char *text)
{
    Cell *cell = cells->current;
    log_text(cells, cell != NULL ? "info" : "warning", text);
    if (cell == NULL || cell->n_violations >= MAX_VIOLATIONS)
        return;
    bool is_last = ++cell->n_violations == MAX_VIOLATIONS;
    g_autofree char *notice = g_strconcat(
        NOTICE_PREFIX, text, is_last ? " (further denials are in the log only)" : "", NULL);
    send_event(cell, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice, .is_violation = true});
}

void
ipb_cells_report_notice(IpbCells *cells, const char *text)
{
    keep_notice(cells, text);
    log_text(cells, "warning", text);
}

/* --- events of the kernel --------------------------------------------------------------------- */

static void start_next_cell(IpbCells *cells);

static void
on_started(IpbCells *cells, const IpbEvent *event)
{
    Cell *cell = cells->current;
    update_clock(cell);
    send_event(cell, event);
    send_kept_notices(cells, cell->on_event, cell->data);
}

/* Saves the image of a bundle. The path, which the caller frees; NULL: there is none. */
static char *
save_image(IpbCells *cells, const IpbEvent *event)
{
    char *path = NULL;
    g_autoptr(GError) error = NULL;
    if (event->data == NULL || cells->images_dir == NULL ||
        ipb_images_save(event->data, cells->images_dir, cells->workspace, &path, &error))
        return path;
    g_autofree char *notice = g_strdup_printf("image not saved: %s", error->message);
    if (cells->current != NULL)
        send_notice(cells->current, notice);
    else
        keep_notice(cells, notice);
    return NULL;
}

/* The image is saved first, so that the event can name the file. */
static void
on_bundle(IpbCells *cells, const IpbEvent *event)
{
    g_autofree char *image_path = save_image(cells, event);
    IpbEvent with_path = *event;
    with_path.image_path = image_path;
    send_event(cells->current, &with_path);
}

/* Of code whose cell has ended. A client that does not look at late events has displays with the
 * running cell, and text by LATE_OUTPUT. */
static void
on_late_event(IpbCells *cells, const IpbEvent *event)
{
    const EndedCell *ended = find_ended(cells->ended, event->cell);
    const EndedCell *comm = find_ended(cells->ended_comms, event->cell);
    g_autofree char *image_path = save_image(cells, event);
    IpbEvent copy = *event;
    copy.image_path = image_path;
    copy.execution_count = ended != NULL ? ended->execution_count : 0;
    copy.parent = ended != NULL ? ended->parent : comm != NULL ? comm->parent : NULL;
    /* The number of a comm's message is not in the record. */
    IpbEvent recorded = copy;
    recorded.cell = ended != NULL || !cells->has_rich_client ? event->cell : 0;
    record_event(cells, NULL, &recorded);
    if (cells->late_func != NULL)
        cells->late_func(&copy, cells->late_data);
    Cell *cell = cells->current;
    if (cell != NULL && cell->on_event != NULL && !cells->has_rich_client && event->data != NULL)
        cell->on_event(&copy, cell->data);
}

static void
on_error(IpbCells *cells, const IpbEvent *event)
{
    send_event(cells->current, event);
    g_autofree char *text =
        cells->sandboxing != NULL
            ? ipb_sandboxing_explain_error(cells->sandboxing, event->ename, event->evalue)
            : NULL;
    if (text != NULL)
        ipb_cells_report_violation(cells, text);
}

/* --- input ------------------------------------------------------------------------------------ */

static void
end_input(Cell *cell)
{
    cell->input = 0;
    g_clear_pointer(&cell->input_timer, ipb_timer_free);
    update_clock(cell);
}

/* The answer is not needed any more. */
static void
withdraw_input(Cell *cell)
{
    uint64_t input = cell->input;
    end_input(cell);
    send_event(cell, &(IpbEvent){.type = IPB_EVENT_INPUT_WITHDRAWN, .input = input});
}

static void
on_input_timeout(void *data)
{
    Cell *cell = data;
    g_autofree char *why =
        g_strdup_printf("no answer came within %.3g s", cell->input_timeout_ms / 1000.0);
    ipb_kernel_answer_input(cell->cells->kernel, cell->input, NULL, why, NULL);
    withdraw_input(cell);
}

static void
on_input_request(IpbCells *cells, const IpbEvent *event)
{
    Cell *cell = cells->current;
    cell->input = event->input;
    cell->input_timer = ipb_timer_new(cells->loop, cell->input_timeout_ms, on_input_timeout, cell);
    update_clock(cell);
    send_event(cell, event);
}

bool
ipb_cells_answer_input(IpbCells *cells, uint64_t input, const char *value, const char *why,
                       GError **error)
{
    if (!ipb_kernel_answer_input(cells->kernel, input, value, why, error))
        return false;
    if (cells->current != NULL && cells->current->input == input)
        end_input(cells->current);
    return true;
}

/* --- the end of a cell ------------------------------------------------------------------------ */

/* A caller that cancelled the cell may not look at its end, and would not know why the variables
 * are gone. */
static void
report_lost_state(const IpbCells *cells, const Cell *cell, const IpbEvent *event)
{
    if (event->status == IPB_CELL_LOST && cell->is_cancelled && !cell->is_reset &&
        !cells->is_closed)
        send_notice(cell, event->text);
}

static void
report_not_undone(Cell *cell, const char *problem)
{
    g_autofree char *notice = g_strdup_printf("the cell was not undone: %s", problem);
    send_notice(cell, notice);
}

static void
report_undone(Cell *cell, const char *left_out)
{
    g_autofree char *notice =
        left_out != NULL ? g_strdup_printf("the cell failed and was undone, but not in files: the "
                                           "variables are as they were before it; %s",
                                           left_out)
                         : NULL;
    send_notice(cell, notice != NULL
                          ? notice
                          : "the cell failed and was undone: the state is as it was before it");
}

/* A cell that failed is current until its changes are undone. */
static bool
begin_undo(IpbCells *cells, Cell *cell, IpbCellStatus status, const char *text,
           const IpbEvent *event)
{
    g_autofree char *problem = NULL;
    if (!cell->undoes_on_error || status == IPB_CELL_OK || cell->is_reset || cells->is_closed ||
        cells->undo == NULL)
        return false;
    pause_clock(cell);
    if (!cells->undo->undo(cell->number, &problem, cells->undo_data)) {
        if (problem != NULL)
            report_not_undone(cell, problem);
        return false;
    }
    cells->is_undoing = true;
    cell->status = status;
    cell->end_text = g_strdup(text);
    cell->execution_count = event->execution_count;
    return true;
}

void
ipb_cells_undone(IpbCells *cells, const char *problem, const char *left_out)
{
    Cell *cell = g_steal_pointer(&cells->current);
    cells->is_undoing = false;
    cell->is_undone = problem == NULL;
    if (problem != NULL)
        report_not_undone(cell, problem);
    else
        report_undone(cell, left_out);
    const IpbEvent event = {.execution_count = cell->execution_count};
    uint64_t number = cell->number;
    g_autofree char *text = g_steal_pointer(&cell->end_text);
    end_cell(cell, cell->status, text, &event);
    cells->undo->end(number, cells->undo_data);
    start_next_cell(cells);
}

static void
on_done(IpbCells *cells, const IpbEvent *event)
{
    Cell *cell = cells->current;
    send_kept_notices(cells, cell->on_event, cell->data); /* of a cell that never started */
    g_autofree char *text = NULL;
    IpbCellStatus status = explain_end(cell, event, &text);
    if (status == IPB_CELL_LOST)
        ipb_approvals_cancel_all(cells->approvals);
    if (cells->sandboxing != NULL)
        ipb_sandboxing_report_denials(cells->sandboxing); /* they are this cell's */
    if (begin_undo(cells, cell, status, text, event))
        return;
    cells->current = NULL;
    if (event->is_cwd_reset && cells->working_dir != NULL) {
        g_autofree char *notice =
            g_strconcat(NOTICE_PREFIX "cwd reset to ", cells->working_dir, NULL);
        send_event(cell, &(IpbEvent){.type = IPB_EVENT_NOTICE, .text = notice, .is_in_text = true});
    }
    report_lost_state(cells, cell, event);
    uint64_t number = cell->number;
    end_cell(cell, status, text, event);
    if (cells->undo != NULL)
        cells->undo->end(number, cells->undo_data);
    start_next_cell(cells);
}

/* Once for a session: the failures of the next process are the same. */
static void
log_preload_failures(IpbCells *cells, const IpbEvent *event)
{
    const char *const *failure = event->preload_failures;
    if (failure == NULL || cells->has_logged_preload_failures)
        return;
    cells->has_logged_preload_failures = true;
    for (; *failure != NULL; failure++) {
        g_autofree char *text = g_strdup_printf("not preloaded: %s", *failure);
        log_text(cells, "warning", text);
    }
}

/* An event that belongs to no cell. */
static void
on_event_of_no_cell(IpbCells *cells, const IpbEvent *event)
{
    if (event->type == IPB_EVENT_READY)
        log_preload_failures(cells, event);
    IpbEvent copy = *event;
    g_autofree char *notice =
        event->type == IPB_EVENT_NOTICE ? g_strconcat(NOTICE_PREFIX, event->text, NULL) : NULL;
    if (notice != NULL)
        copy.text = notice;
    record_event(cells, NULL, &copy);
    if (cells->on_event != NULL)
        cells->on_event(&copy, cells->data);
}

void
ipb_cells_on_kernel_event(const IpbEvent *event, void *data)
{
    IpbCells *cells = data;
    if (event->is_late) {
        on_late_event(cells, event);
        return;
    }
    if (event->cell == 0) {
        on_event_of_no_cell(cells, event);
        return;
    }
    if (cells->current == NULL)
        return;
    switch (event->type) {
    case IPB_EVENT_STARTED:
        on_started(cells, event);
        break;
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
    case IPB_EVENT_LATE_OUTPUT:
    case IPB_EVENT_CLEAR_OUTPUT:
    case IPB_EVENT_COMM:
        send_event(cells->current, event);
        break;
    case IPB_EVENT_NOTICE:
        send_notice(cells->current, event->text);
        break;
    case IPB_EVENT_ERROR:
        on_error(cells, event);
        break;
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_UPDATE:
    case IPB_EVENT_RESULT:
        on_bundle(cells, event);
        break;
    case IPB_EVENT_INPUT_REQUEST:
        on_input_request(cells, event);
        break;
    case IPB_EVENT_INPUT_WITHDRAWN:
        if (cells->current->input == event->input)
            withdraw_input(cells->current);
        break;
    case IPB_EVENT_DONE:
        on_done(cells, event);
        break;
    case IPB_EVENT_TOOL_PROGRESS: /* not of a kernel */
    case IPB_EVENT_READY:         /* of no cell */
    case IPB_EVENT_START_FAILED:
    case IPB_EVENT_DIED:
        break;
    }
}

void
ipb_cells_watch_late_output(IpbCells *cells, IpbEventFunc func, void *data)
{
    cells->late_func = func;
    cells->late_data = data;
}

void
ipb_cells_report_late_output(IpbCells *cells)
{
    if (cells->current != NULL || cells->is_closed)
        return;
    send_kept_notices(cells, cells->on_event, cells->data);
    ipb_kernel_report_late_output(cells->kernel);
}

/* --- the queue -------------------------------------------------------------------------------- */

/* The cell runs although it cannot be undone. */
static void
keep_problem(IpbCells *cells, const char *problem)
{
    g_autofree char *notice = g_strdup_printf("this cell cannot be undone: %s", problem);
    keep_notice(cells, notice);
}

/* Whether the cell can run now. */
static bool
prepare(IpbCells *cells, const Cell *cell)
{
    g_autofree char *problem = NULL;
    if (cells->undo == NULL || cells->prepared == cell->number || cell->comm != NULL)
        return true;
    if (cells->undo->prepare(cell->number, cells->last_run, cell->undoes_on_error, &problem,
                             cells->undo_data)) {
        cells->preparing = cell->number;
        return false;
    }
    if (problem != NULL)
        keep_problem(cells, problem);
    return true;
}

static void
start_next_cell(IpbCells *cells)
{
    while (cells->current == NULL && !cells->is_closed && cells->n_holds == 0 &&
           cells->preparing == 0) {
        Cell *cell = g_queue_peek_head(&cells->waiting);
        if (cell == NULL || !prepare(cells, cell))
            return;
        g_queue_pop_head(&cells->waiting);
        cells->current = cell;
        cells->last_run = cell->number;
        record_cell(cell);
        if (cells->staged != NULL)
            ipb_staged_workspace_begin_cell(cells->staged);
        g_autoptr(GError) error = NULL;
        IpbKernelCode code = {
            .number = cell->number,
            .code = cell->code,
            .is_silent = cell->is_silent,
            .stores_history = cell->stores_history,
            .user_expressions = cell->user_expressions,
            .allows_input = cell->allows_input,
            .parent = cell->parent,
            .comm = cell->comm,
        };
        if (ipb_kernel_execute(cells->kernel, &code, &error) != 0)
            return;
        cells->current = NULL;
        if (cells->staged != NULL)
            ipb_staged_workspace_forget_cell(cells->staged);
        end_cell(cell, IPB_CELL_LOST, error->message, NULL);
    }
}

void
ipb_cells_prepared(IpbCells *cells, const char *problem)
{
    /* If it was cancelled since, another one is the first. */
    cells->prepared = cells->preparing;
    cells->preparing = 0;
    const Cell *first = g_queue_peek_head(&cells->waiting);
    if (problem != NULL && first != NULL && first->number == cells->prepared)
        keep_problem(cells, problem);
    start_next_cell(cells);
}

void
ipb_cells_set_undo(IpbCells *cells, const IpbCellUndoFuncs *funcs, void *data)
{
    cells->undo = funcs;
    cells->undo_data = data;
}

static void
on_start_timer(void *data)
{
    IpbCells *cells = data;
    g_clear_pointer(&cells->start_timer, ipb_timer_free);
    start_next_cell(cells);
}

/* From the loop: no event comes from within a call. */
static void
schedule_start(IpbCells *cells)
{
    if (cells->start_timer == NULL)
        cells->start_timer = ipb_timer_new(cells->loop, 0, on_start_timer, cells);
}

void
ipb_cells_hold(IpbCells *cells, bool is_held)
{
    g_return_if_fail(is_held || cells->n_holds > 0);
    cells->n_holds += is_held ? 1 : -1u;
    if (cells->n_holds == 0)
        schedule_start(cells);
}

uint64_t
ipb_cells_execute(IpbCells *cells, const char *code, const IpbCellOptions *options,
                  IpbEventFunc on_event, void *data, GError **error)
{
    size_t size = strlen(code);
    if (cells->is_closed) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the session is closed");
        return 0;
    }
    if (size > MAX_CODE_SIZE || g_queue_get_length(&cells->waiting) >= MAX_WAITING_CELLS) {
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
    Cell *cell = new_cell(cells, code, options, on_event, data);
    g_queue_push_tail(&cells->waiting, cell);
    schedule_start(cells);
    return cell->number;
}

static void
interrupt_current(IpbCells *cells)
{
    ipb_approvals_cancel_all(cells->approvals);
    ipb_kernel_interrupt(cells->kernel);
}

bool
ipb_cells_cancel(IpbCells *cells, uint64_t number)
{
    if (cells->current != NULL && cells->current->number == number) {
        if (cells->is_undoing) /* it has ended */
            return true;
        cells->current->is_cancelled = true;
        interrupt_current(cells);
        return true;
    }
    for (GList *link = cells->waiting.head; link != NULL; link = link->next) {
        Cell *cell = link->data;
        if (cell->number != number)
            continue;
        g_queue_delete_link(&cells->waiting, link);
        end_cell(cell, IPB_CELL_CANCELLED, "the cell was cancelled before it ran", NULL);
        return true;
    }
    return false;
}

void
ipb_cells_interrupt(IpbCells *cells)
{
    if (cells->current == NULL || cells->is_undoing)
        return;
    cells->current->is_interrupted = true;
    interrupt_current(cells);
}

static void
drop_waiting(IpbCells *cells, const char *why)
{
    Cell *cell;
    while ((cell = g_queue_pop_head(&cells->waiting)) != NULL)
        end_cell(cell, IPB_CELL_LOST, why, NULL);
}

void
ipb_cells_reset(IpbCells *cells)
{
    if (cells->current != NULL)
        cells->current->is_reset = true;
    cells->prepared = 0;
    drop_waiting(cells, "the session was reset");
}

void
ipb_cells_close(IpbCells *cells)
{
    cells->is_closed = true;
    drop_waiting(cells, "the session was closed");
}

void
ipb_cells_set_awaiting_approval(IpbCells *cells, bool is_awaiting)
{
    Cell *cell = cells->current;
    cells->is_awaiting_approval = is_awaiting;
    if (cell != NULL)
        update_clock(cell);
}

uint64_t
ipb_cells_running(const IpbCells *cells)
{
    return cells->current != NULL && cells->current->comm == NULL ? cells->current->number : 0;
}

bool
ipb_cells_is_idle(const IpbCells *cells)
{
    return cells->current == NULL && cells->waiting.length == 0;
}

static void
copy_ended(EndedCell *copies, const EndedCell *ended)
{
    for (size_t i = 0; i < MAX_ENDED_CELLS; i++) {
        copies[i] = ended[i];
        copies[i].parent = g_strdup(ended[i].parent);
    }
}

void
ipb_cells_continue(IpbCells *cells, const IpbCells *forerunner)
{
    cells->last_number = forerunner->last_number;
    cells->n_ended = forerunner->n_ended;
    cells->n_ended_comms = forerunner->n_ended_comms;
    copy_ended(cells->ended, forerunner->ended);
    copy_ended(cells->ended_comms, forerunner->ended_comms);
}

void
ipb_cells_set_kernel(IpbCells *cells, IpbKernel *kernel)
{
    cells->kernel = kernel;
}

IpbCells *
ipb_cells_new(IpbLoop *loop, const IpbCellsOptions *options)
{
    IpbCells *cells = g_new0(IpbCells, 1);
    *cells = (IpbCells){
        .loop = ipb_loop_ref(loop),
        .approvals = options->approvals,
        .sandboxing = options->sandboxing,
        .staged = options->staged,
        .record = options->record,
        .workspace = g_strdup(options->workspace),
        .images_dir = g_strdup(options->images_dir),
        .working_dir = g_strdup(options->working_dir),
        .has_rich_client = options->has_rich_client,
        .on_event = options->on_event,
        .on_log = options->on_log,
        .data = options->data,
    };
    g_queue_init(&cells->waiting);
    g_queue_init(&cells->kept_notices);
    return cells;
}

void
ipb_cells_free(IpbCells *cells)
{
    if (cells == NULL)
        return;
    ipb_timer_free(cells->start_timer);
    free_cell(cells->current);
    g_queue_clear_full(&cells->waiting, (GDestroyNotify) free_cell);
    g_queue_clear_full(&cells->kept_notices, g_free);
    for (size_t i = 0; i < MAX_ENDED_CELLS; i++) {
        g_free(cells->ended[i].parent);
        g_free(cells->ended_comms[i].parent);
    }
    g_free(cells->workspace);
    g_free(cells->images_dir);
    g_free(cells->working_dir);
    ipb_loop_unref(cells->loop);
    g_free(cells);
}
