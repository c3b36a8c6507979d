/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoints of a session; see the header.
 *
 * What is under way, the task, ends by a timer and not in the callback of the kernel that it made:
 * that kernel may have to be freed. Only ipb_checkpoints_drop_all() ends it at once.
 */
#include "session/checkpoints.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

/* Of a session, without those of the ring; and of a runtime, with them. Each is a process. */
#define MAX_CHECKPOINTS 100u
#define MAX_CHECKPOINTS_IN_ALL 1000u
/* Memory that they share with no other process. */
#define MAX_BYTES (UINT64_C(4) << 30)
#define MAX_BYTES_IN_ALL (UINT64_C(16) << 30)
#define MAX_NAME 100
#define MIB ((uint64_t) 1 << 20)

typedef struct {
    uint64_t id;
    char *name;    /* NULL: of the ring */
    uint64_t cell; /* of the ring: it was made before this cell */
    int64_t created_us;
    uint64_t bytes;
    char **warnings;
    char *lost_cause; /* or NULL */
    IpbKernel *kernel;
    uint64_t copy; /* of files; 0: there is none */
} Checkpoint;

typedef enum { TASK_NONE, TASK_MAKE, TASK_MAKE_FOR_CELL, TASK_RESTORE, TASK_UNDO_CELL } TaskKind;

/* What is under way. */
typedef struct {
    TaskKind kind;
    Checkpoint *made;  /* MAKE: the new one */
    uint64_t restored; /* RESTORE: its id */
    uint64_t copy;     /* RESTORE: of files that are restored, too; or 0 */
    char *left_out;    /* UNDO_CELL: why files are not; or NULL */
    IpbKernel *branch; /* RESTORE: whose process the kernel gets */
    bool is_replaced;  /* it has got it */
    GError *error;
    IpbTimer *timer; /* it has ended */
    IpbCheckpointMadeFunc made_func;
    IpbRestoredFunc restored_func;
    void *data;
} Task;

struct IpbCheckpoints {
    IpbLoop *loop;
    IpbCheckpointsOptions options;
    GPtrArray *kept; /* Checkpoint, the oldest first */
    GPtrArray *ring; /* likewise, for undo */
    uint64_t last_id;
    uint64_t n_named;    /* so far */
    guint next_measured; /* of both, modulo their lengths */
    Task task;
    bool is_copying;    /* files of the task, or of one that was cancelled: */
    bool ignores_files; /* their end is of no interest */
};

/* --- a checkpoint ----------------------------------------------------------------------------- */

static void
free_checkpoint(void *data)
{
    Checkpoint *checkpoint = data;
    ipb_kernel_free(checkpoint->kernel);
    g_strfreev(checkpoint->warnings);
    g_free(checkpoint->lost_cause);
    g_free(checkpoint->name);
    g_free(checkpoint);
}

/* Nothing runs in a parked copy: only its end is of interest. */
static void
on_parked_event(const IpbEvent *event, void *data)
{
    Checkpoint *checkpoint = data;
    if (event->type == IPB_EVENT_DIED && checkpoint->lost_cause == NULL)
        checkpoint->lost_cause = g_strndup(event->text, event->text_size);
}

static void
on_branch_event(const IpbEvent *event, void *data)
{
    /* The kernel whose place it takes reports what happens from then on. */
}

static void
set_bytes(IpbCheckpoints *checkpoints, Checkpoint *checkpoint, uint64_t bytes)
{
    checkpoints->options.totals->bytes += bytes - checkpoint->bytes;
    checkpoint->bytes = bytes;
}

/* False: its memory cannot be read. */
static bool
measure(IpbCheckpoints *checkpoints, Checkpoint *checkpoint)
{
    uint64_t bytes = 0;
    if (checkpoint->lost_cause == NULL && !ipb_kernel_measure(checkpoint->kernel, &bytes))
        return false;
    set_bytes(checkpoints, checkpoint, bytes);
    return true;
}

static void
drop_files(const IpbCheckpoints *checkpoints, const Checkpoint *checkpoint)
{
    if (checkpoints->options.staged != NULL)
        ipb_staged_workspace_drop(checkpoints->options.staged, checkpoint->copy);
}

static void
remove_checkpoint(IpbCheckpoints *checkpoints, GPtrArray *list, guint i)
{
    set_bytes(checkpoints, g_ptr_array_index(list, i), 0);
    drop_files(checkpoints, g_ptr_array_index(list, i));
    checkpoints->options.totals->n--;
    g_ptr_array_remove_index(list, i);
}

static void
clear_list(IpbCheckpoints *checkpoints, GPtrArray *list)
{
    while (list->len > 0)
        remove_checkpoint(checkpoints, list, list->len - 1);
}

static Checkpoint *
find_in(GPtrArray *list, uint64_t id)
{
    for (guint i = 0; i < list->len; i++) {
        Checkpoint *checkpoint = g_ptr_array_index(list, i);
        if (checkpoint->id == id)
            return checkpoint;
    }
    return NULL;
}

static Checkpoint *
find(IpbCheckpoints *checkpoints, uint64_t id)
{
    Checkpoint *checkpoint = find_in(checkpoints->kept, id);
    return checkpoint != NULL ? checkpoint : find_in(checkpoints->ring, id);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static uint64_t
sum_bytes(const GPtrArray *list)
{
    uint64_t sum = 0;
    for (guint i = 0; i < list->len; i++)
        sum += ((Checkpoint *) g_ptr_array_index(list, i))->bytes;
    return sum;
}

/* Examining a large process takes milliseconds. So only two of a list are: the last one, from which
 * the kernel has moved away, and another one in turn. */
static void
measure_some(IpbCheckpoints *checkpoints, GPtrArray *list)
{
    if (list->len == 0)
        return;
    measure(checkpoints, g_ptr_array_index(list, list->len - 1));
    measure(checkpoints, g_ptr_array_index(list, checkpoints->next_measured++ % list->len));
}

/* What to drop: "the largest is "x" with 120 MiB". */
static char *
describe_largest(const IpbCheckpoints *checkpoints)
{
    const Checkpoint *largest = NULL;
    for (guint i = 0; i < checkpoints->kept->len; i++) {
        const Checkpoint *checkpoint = g_ptr_array_index(checkpoints->kept, i);
        if (largest == NULL || checkpoint->bytes > largest->bytes)
            largest = checkpoint;
    }
    if (largest == NULL)
        return g_strdup("this session has none to drop");
    return g_strdup_printf("drop one; the largest of this session is \"%s\" with %" PRIu64 " MiB",
                           largest->name, largest->bytes / MIB);
}

/* @with_ring: those of the ring count. */
static bool
check_bounds(const IpbCheckpoints *checkpoints, bool with_ring, GError **error)
{
    IpbCheckpointTotals totals = *checkpoints->options.totals;
    uint64_t bytes = sum_bytes(checkpoints->kept), of_ring = sum_bytes(checkpoints->ring);
    g_autofree char *what = NULL;
    bytes += with_ring ? of_ring : 0;
    totals.bytes -= with_ring ? 0 : of_ring;
    totals.n -= with_ring ? 0 : checkpoints->ring->len;
    if (checkpoints->kept->len >= MAX_CHECKPOINTS)
        what = g_strdup_printf("the session has %u checkpoints already", MAX_CHECKPOINTS);
    else if (totals.n >= MAX_CHECKPOINTS_IN_ALL)
        what = g_strdup_printf("all sessions together have %u checkpoints already",
                               MAX_CHECKPOINTS_IN_ALL);
    else if (bytes >= MAX_BYTES)
        what = g_strdup_printf("the session's checkpoints hold %" PRIu64
                               " MiB of memory of their own, %" PRIu64 " are allowed",
                               bytes / MIB, MAX_BYTES / MIB);
    else if (totals.bytes >= MAX_BYTES_IN_ALL)
        what = g_strdup_printf("the checkpoints of all sessions hold %" PRIu64
                               " MiB of memory of their own, %" PRIu64 " are allowed",
                               totals.bytes / MIB, MAX_BYTES_IN_ALL / MIB);
    if (what == NULL)
        return true;
    g_autofree char *largest = describe_largest(checkpoints);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s: %s", what, largest);
    return false;
}

/* The oldest of the ring goes first, until it has @max at most, and the bounds allow another
 * checkpoint. */
static void
make_room(IpbCheckpoints *checkpoints, unsigned max)
{
    GPtrArray *ring = checkpoints->ring;
    while (ring->len > 0 &&
           (ring->len > max || !check_bounds(checkpoints, /* with_ring= */ true, NULL)))
        remove_checkpoint(checkpoints, ring, 0);
}

/* --- the task --------------------------------------------------------------------------------- */

bool
ipb_checkpoints_is_busy(const IpbCheckpoints *checkpoints)
{
    return checkpoints->task.kind != TASK_NONE;
}

static bool
begin_task(IpbCheckpoints *checkpoints, TaskKind kind, GError **error)
{
    if (checkpoints->task.kind != TASK_NONE) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "a checkpoint is being made or restored: wait until that has ended");
        return false;
    }
    bool is_of_cell = kind == TASK_MAKE_FOR_CELL || kind == TASK_UNDO_CELL;
    if (!checkpoints->options.check(is_of_cell, checkpoints->options.data, error))
        return false;
    checkpoints->task = (Task){.kind = kind};
    return true;
}

/* What cannot be measured cannot be bounded. Later, the last figure counts until there is another
 * one: the process may be ending. */
static bool
measure_made(IpbCheckpoints *checkpoints, Checkpoint *made, GError **error)
{
    if (made->lost_cause != NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, "the checkpoint is lost: %s",
                    made->lost_cause);
    else if (!measure(checkpoints, made))
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                            "the system does not say how much memory the checkpoint holds "
                            "(/proc/PID/smaps_rollup), so it would have no bound");
    else
        return true;
    return false;
}

static void
keep_made(IpbCheckpoints *checkpoints, Checkpoint *made)
{
    g_ptr_array_add(made->name != NULL ? checkpoints->kept : checkpoints->ring, made);
    checkpoints->options.totals->n++;
}

/* The cells from @restored on are undone, or all if it is no checkpoint of the ring. */
static void
forget_undone(IpbCheckpoints *checkpoints, uint64_t restored)
{
    GPtrArray *ring = checkpoints->ring;
    bool is_of_ring = find_in(ring, restored) != NULL;
    while (ring->len > 0) {
        const Checkpoint *last = g_ptr_array_index(ring, ring->len - 1);
        bool is_it = last->id == restored;
        remove_checkpoint(checkpoints, ring, ring->len - 1);
        if (is_of_ring && is_it)
            return;
    }
}

static void
report_made(IpbCheckpoints *checkpoints, Task *task)
{
    uint64_t id = task->made != NULL ? task->made->id : 0;
    if (task->error == NULL && measure_made(checkpoints, task->made, &task->error)) {
        keep_made(checkpoints, g_steal_pointer(&task->made));
    } else if (task->made != NULL) {
        drop_files(checkpoints, task->made);
        g_clear_pointer(&task->made, free_checkpoint);
    }
    if (task->kind == TASK_MAKE) {
        ipb_cells_hold(checkpoints->options.cells, false);
        task->made_func(task->error == NULL ? id : 0, task->error, task->data);
    } else {
        ipb_cells_prepared(checkpoints->options.cells,
                           task->error != NULL ? task->error->message : NULL);
    }
}

static void
report_restored(IpbCheckpoints *checkpoints, Task *task)
{
    if (task->is_replaced)
        forget_undone(checkpoints, task->restored);
    g_clear_pointer(&task->branch, ipb_kernel_free);
    if (task->kind == TASK_RESTORE) {
        ipb_cells_hold(checkpoints->options.cells, false);
        task->restored_func(task->error, task->data);
    } else {
        ipb_cells_undone(checkpoints->options.cells,
                         task->error != NULL ? task->error->message : NULL, task->left_out);
    }
}

static void
end_task(IpbCheckpoints *checkpoints)
{
    Task task = checkpoints->task;
    checkpoints->task = (Task){.kind = TASK_NONE};
    ipb_timer_free(task.timer);
    if (task.kind == TASK_MAKE || task.kind == TASK_MAKE_FOR_CELL)
        report_made(checkpoints, &task);
    else
        report_restored(checkpoints, &task);
    g_clear_error(&task.error);
    g_free(task.left_out);
}

static void
on_task_timer(void *data)
{
    end_task(data);
}

static void
end_task_soon(IpbCheckpoints *checkpoints)
{
    checkpoints->task.timer = ipb_timer_new(checkpoints->loop, 0, on_task_timer, checkpoints);
}

static void
on_files(const GError *error, void *data)
{
    IpbCheckpoints *checkpoints = data;
    Task *task = &checkpoints->task;
    checkpoints->is_copying = false;
    if (checkpoints->ignores_files) {
        checkpoints->ignores_files = false;
        return;
    }
    if (error != NULL && task->is_replaced)
        g_set_error(&task->error, error->domain, error->code,
                    "the variables were restored, but not all files: %s", error->message);
    else if (error != NULL)
        task->error = g_error_copy(error);
    end_task_soon(checkpoints);
}

/* Once the kernel is copied, or replaced. No code of cells runs. */
static void
copy_files(IpbCheckpoints *checkpoints)
{
    IpbStagedWorkspace *staged = checkpoints->options.staged;
    Task *task = &checkpoints->task;
    checkpoints->is_copying =
        task->made != NULL
            ? ipb_staged_workspace_keep(staged, &task->made->copy, on_files, checkpoints,
                                        &task->error)
            : ipb_staged_workspace_restore(staged, task->copy, on_files, checkpoints, &task->error);
    if (!checkpoints->is_copying)
        end_task_soon(checkpoints);
}

static void
on_replace_timer(void *data)
{
    IpbCheckpoints *checkpoints = data;
    Task *task = &checkpoints->task;
    g_clear_pointer(&task->timer, ipb_timer_free);
    ipb_kernel_replace(checkpoints->options.kernel, task->branch);
    task->is_replaced = true;
    if (task->copy != 0)
        copy_files(checkpoints);
    else
        end_task(checkpoints);
}

static void
on_branched(const char *const *warnings, const GError *error, void *data)
{
    IpbCheckpoints *checkpoints = data;
    Task *task = &checkpoints->task;
    if (error != NULL)
        task->error = g_error_copy(error);
    else if (task->made != NULL)
        task->made->warnings = g_strdupv((char **) warnings);
    if (error != NULL || (task->made != NULL && checkpoints->options.staged == NULL))
        end_task_soon(checkpoints);
    else if (task->made != NULL)
        copy_files(checkpoints);
    else
        task->timer = ipb_timer_new(checkpoints->loop, 0, on_replace_timer, checkpoints);
}

/* --- making ----------------------------------------------------------------------------------- */

static bool
start_making(IpbCheckpoints *checkpoints, Checkpoint *checkpoint, GError **error)
{
    const IpbCheckpointsOptions *options = &checkpoints->options;
    IpbBranchOptions branch = {
        .kind = IPB_BRANCH_PARKED,
        .files = options->staged != NULL ? options->workspace : NULL,
    };
    g_autoptr(GError) token_error = NULL;
    checkpoint->kernel = options->make_kernel(on_parked_event, checkpoint, options->data, error);
    if (checkpoint->kernel == NULL)
        return false;
    branch.token = options->get_token(options->data, &token_error);
    if (token_error != NULL) {
        g_propagate_error(error, g_steal_pointer(&token_error));
        return false;
    }
    return ipb_kernel_fork(options->kernel, checkpoint->kernel, &branch, on_branched, checkpoints,
                           error);
}

/* @name: NULL: for the ring. */
static bool
make(IpbCheckpoints *checkpoints, TaskKind kind, const char *name, uint64_t cell, GError **error)
{
    if (!begin_task(checkpoints, kind, error))
        return false;
    Checkpoint *checkpoint = g_new0(Checkpoint, 1);
    checkpoint->id = ++checkpoints->last_id;
    checkpoints->n_named += name != NULL ? 1 : 0;
    checkpoint->name = g_strdup(name);
    checkpoint->cell = cell;
    checkpoint->created_us = g_get_real_time();
    if (start_making(checkpoints, checkpoint, error)) {
        checkpoints->task.made = checkpoint;
        return true;
    }
    free_checkpoint(checkpoint);
    checkpoints->task.kind = TASK_NONE;
    return false;
}

uint64_t
ipb_checkpoints_find(const IpbCheckpoints *checkpoints, const char *name)
{
    for (guint i = 0; i < checkpoints->kept->len; i++) {
        const Checkpoint *checkpoint = g_ptr_array_index(checkpoints->kept, i);
        if (g_str_equal(checkpoint->name, name))
            return checkpoint->id;
    }
    return 0;
}

static bool
is_printable(const char *name)
{
    for (; *name != '\0'; name = g_utf8_next_char(name))
        if (!g_unichar_isprint(g_utf8_get_char(name)))
            return false;
    return true;
}

static bool
check_name(const IpbCheckpoints *checkpoints, const char *name, GError **error)
{
    if (!g_utf8_validate(name, -1, NULL) || *name == '\0' || g_utf8_strlen(name, -1) > MAX_NAME ||
        !is_printable(name)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the name of a checkpoint has 1 to %d printable characters", MAX_NAME);
        return false;
    }
    if (ipb_checkpoints_find(checkpoints, name) == 0)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "there is a checkpoint \"%s\": drop it, or choose another name", name);
    return false;
}

static char *
make_up_name(const IpbCheckpoints *checkpoints)
{
    for (uint64_t number = checkpoints->n_named + 1;; number++) {
        g_autofree char *name = g_strdup_printf("checkpoint-%" PRIu64, number);
        if (ipb_checkpoints_find(checkpoints, name) == 0)
            return g_steal_pointer(&name);
    }
}

bool
ipb_checkpoints_make(IpbCheckpoints *checkpoints, const char *name, IpbCheckpointMadeFunc func,
                     void *data, GError **error)
{
    g_autofree char *own = name == NULL ? make_up_name(checkpoints) : NULL;
    if (name != NULL && !check_name(checkpoints, name, error))
        return false;
    measure_some(checkpoints, checkpoints->kept);
    measure_some(checkpoints, checkpoints->ring);
    if (!check_bounds(checkpoints, /* with_ring= */ false, error) ||
        !make(checkpoints, TASK_MAKE, own != NULL ? own : name, 0, error))
        return false;
    make_room(checkpoints, G_MAXUINT);
    checkpoints->task.made_func = func;
    checkpoints->task.data = data;
    ipb_cells_hold(checkpoints->options.cells, true);
    return true;
}

/* --- restoring -------------------------------------------------------------------------------- */

IpbKernel *
ipb_checkpoints_kernel(IpbCheckpoints *checkpoints, uint64_t id, GError **error)
{
    const Checkpoint *checkpoint = find(checkpoints, id);
    if (checkpoint == NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                            "there is no such checkpoint: it was dropped, or the session was "
                            "reset");
        return NULL;
    }
    if (checkpoint->lost_cause == NULL)
        return checkpoint->kernel;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, "the checkpoint is lost: %s",
                checkpoint->lost_cause);
    return NULL;
}

/* Why files cannot be restored now; NULL: they can. Caller frees. */
static char *
find_sharing(const IpbCheckpoints *checkpoints)
{
    const IpbStagedWorkspace *staged = checkpoints->options.staged;
    unsigned n = staged != NULL ? ipb_staged_workspace_n_others(staged) : 0;
    return n > 0 ? g_strdup_printf("%u other session%s the files of this one", n,
                                   n == 1 ? " shares" : "s share")
                 : NULL;
}

static bool
restore(IpbCheckpoints *checkpoints, TaskKind kind, uint64_t id, bool with_files, GError **error)
{
    const IpbCheckpointsOptions *options = &checkpoints->options;
    const IpbBranchOptions branch = {.kind = IPB_BRANCH_RESTORED};
    IpbKernel *parked = ipb_checkpoints_kernel(checkpoints, id, error);
    g_autofree char *sharing = with_files ? find_sharing(checkpoints) : NULL;
    if (parked == NULL || !begin_task(checkpoints, kind, error))
        return false;
    if (sharing == NULL && with_files)
        checkpoints->task.copy = find(checkpoints, id)->copy;
    else if (kind == TASK_UNDO_CELL)
        checkpoints->task.left_out = g_steal_pointer(&sharing);
    g_autoptr(IpbKernel) kernel = options->make_kernel(on_branch_event, NULL, options->data, error);
    if (kernel == NULL ||
        !ipb_kernel_fork(parked, kernel, &branch, on_branched, checkpoints, error)) {
        g_free(checkpoints->task.left_out);
        checkpoints->task = (Task){.kind = TASK_NONE};
        return false;
    }
    checkpoints->task.branch = g_steal_pointer(&kernel);
    checkpoints->task.restored = id;
    return true;
}

bool
ipb_checkpoints_restore(IpbCheckpoints *checkpoints, uint64_t id, bool with_files,
                        IpbRestoredFunc func, void *data, GError **error)
{
    g_autofree char *sharing = with_files ? find_sharing(checkpoints) : NULL;
    if (sharing != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "%s, which would change under it: close it, or restore without files", sharing);
        return false;
    }
    if (!restore(checkpoints, TASK_RESTORE, id, with_files, error))
        return false;
    checkpoints->task.restored_func = func;
    checkpoints->task.data = data;
    ipb_cells_hold(checkpoints->options.cells, true);
    return true;
}

bool
ipb_checkpoints_undo(IpbCheckpoints *checkpoints, unsigned n, bool with_files, IpbRestoredFunc func,
                     void *data, GError **error)
{
    const GPtrArray *ring = checkpoints->ring;
    if (checkpoints->options.undo == 0) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "no cell can be undone: the session was opened without the option "
                            "undo");
        return false;
    }
    if (n == 0 || n > ring->len) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%u cells can be undone now, not %u",
                    ring->len, n);
        return false;
    }
    const Checkpoint *checkpoint = g_ptr_array_index(ring, ring->len - n);
    return ipb_checkpoints_restore(checkpoints, checkpoint->id, with_files, func, data, error);
}

/* --- cells ------------------------------------------------------------------------------------ */

/* A checkpoint of the ring that was made before a cell, which then did not run. */
static void
drop_unused(IpbCheckpoints *checkpoints, uint64_t cell, uint64_t last_run)
{
    GPtrArray *ring = checkpoints->ring;
    while (ring->len > 0) {
        const Checkpoint *last = g_ptr_array_index(ring, ring->len - 1);
        if (last->cell <= last_run && last->cell != cell)
            return;
        remove_checkpoint(checkpoints, ring, ring->len - 1);
    }
}

static bool
prepare_cell(uint64_t cell, uint64_t last_run, bool undoes_on_error, char **ret_problem, void *data)
{
    IpbCheckpoints *checkpoints = data;
    g_autoptr(GError) error = NULL;
    *ret_problem = NULL;
    if (checkpoints->options.undo == 0 && !undoes_on_error)
        return false;
    drop_unused(checkpoints, cell, last_run);
    measure_some(checkpoints, checkpoints->ring);
    make_room(checkpoints, MAX(checkpoints->options.undo, 1) - 1);
    if (check_bounds(checkpoints, /* with_ring= */ true, &error) &&
        make(checkpoints, TASK_MAKE_FOR_CELL, NULL, cell, &error))
        return true;
    *ret_problem = g_strdup(error->message);
    return false;
}

static const Checkpoint *
last_of_ring(const IpbCheckpoints *checkpoints)
{
    const GPtrArray *ring = checkpoints->ring;
    return ring->len > 0 ? g_ptr_array_index(ring, ring->len - 1) : NULL;
}

static bool
undo_cell(uint64_t cell, char **ret_problem, void *data)
{
    IpbCheckpoints *checkpoints = data;
    const Checkpoint *last = last_of_ring(checkpoints);
    g_autoptr(GError) error = NULL;
    *ret_problem = NULL;
    if (last == NULL || last->cell != cell)
        return false; /* a notice has said why */
    if (restore(checkpoints, TASK_UNDO_CELL, last->id, /* with_files= */ true, &error))
        return true;
    *ret_problem = g_strdup(error->message);
    return false;
}

/* Without a ring, the checkpoint was for the one cell. */
static void
end_cell(uint64_t cell, void *data)
{
    IpbCheckpoints *checkpoints = data;
    if (checkpoints->options.undo == 0)
        clear_list(checkpoints, checkpoints->ring);
}

const IpbCellUndoFuncs IPB_CHECKPOINTS_CELL_FUNCS = {
    .prepare = prepare_cell,
    .undo = undo_cell,
    .end = end_cell,
};

/* --- the interface ---------------------------------------------------------------------------- */

bool
ipb_checkpoints_drop(IpbCheckpoints *checkpoints, uint64_t id, GError **error)
{
    if (checkpoints->task.branch != NULL && checkpoints->task.restored == id) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "the checkpoint is being restored");
        return false;
    }
    for (guint i = 0; i < checkpoints->kept->len; i++) {
        if (((Checkpoint *) g_ptr_array_index(checkpoints->kept, i))->id != id)
            continue;
        remove_checkpoint(checkpoints, checkpoints->kept, i);
        return true;
    }
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                        "there is no such checkpoint: it was dropped, or the session was reset");
    return false;
}

unsigned
ipb_checkpoints_drop_all(IpbCheckpoints *checkpoints)
{
    unsigned n = checkpoints->kept->len;
    if (checkpoints->task.kind != TASK_NONE) {
        if (checkpoints->task.error == NULL)
            checkpoints->task.error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                                          "the session was reset or closed before");
        checkpoints->ignores_files = checkpoints->is_copying;
        end_task(checkpoints);
    }
    clear_list(checkpoints, checkpoints->ring);
    clear_list(checkpoints, checkpoints->kept);
    return n;
}

static IpbCheckpointInfo
info_of(const Checkpoint *checkpoint)
{
    return (IpbCheckpointInfo){
        .id = checkpoint->id,
        .name = checkpoint->name,
        .created_us = checkpoint->created_us,
        .private_bytes = checkpoint->bytes,
        .warnings = (const char *const *) checkpoint->warnings,
        .lost_cause = checkpoint->lost_cause,
    };
}

GArray *
ipb_checkpoints_list(IpbCheckpoints *checkpoints)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(IpbCheckpointInfo));
    for (guint i = 0; i < checkpoints->kept->len; i++) {
        Checkpoint *checkpoint = g_ptr_array_index(checkpoints->kept, i);
        measure(checkpoints, checkpoint);
        IpbCheckpointInfo info = info_of(checkpoint);
        g_array_append_val(list, info);
    }
    return list;
}

bool
ipb_checkpoints_get(IpbCheckpoints *checkpoints, uint64_t id, IpbCheckpointInfo *ret_info)
{
    const Checkpoint *checkpoint = find_in(checkpoints->kept, id);
    if (checkpoint != NULL)
        *ret_info = info_of(checkpoint);
    return checkpoint != NULL;
}

unsigned
ipb_checkpoints_n_undo(const IpbCheckpoints *checkpoints)
{
    return checkpoints->options.undo > 0 ? checkpoints->ring->len : 0;
}

IpbCheckpoints *
ipb_checkpoints_new(IpbLoop *loop, const IpbCheckpointsOptions *options)
{
    IpbCheckpoints *checkpoints = g_new0(IpbCheckpoints, 1);
    checkpoints->loop = ipb_loop_ref(loop);
    checkpoints->options = *options;
    checkpoints->kept = g_ptr_array_new_with_free_func(free_checkpoint);
    checkpoints->ring = g_ptr_array_new_with_free_func(free_checkpoint);
    return checkpoints;
}

void
ipb_checkpoints_free(IpbCheckpoints *checkpoints)
{
    if (checkpoints == NULL)
        return;
    Task *task = &checkpoints->task;
    ipb_timer_free(task->timer);
    g_clear_pointer(&task->branch, ipb_kernel_free);
    g_clear_pointer(&task->made, free_checkpoint);
    g_clear_error(&task->error);
    g_free(task->left_out);
    clear_list(checkpoints, checkpoints->ring);
    clear_list(checkpoints, checkpoints->kept);
    g_ptr_array_unref(checkpoints->ring);
    g_ptr_array_unref(checkpoints->kept);
    ipb_loop_unref(checkpoints->loop);
    g_free(checkpoints);
}
