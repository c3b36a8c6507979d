/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of checkpoints: their number and their memory, of a session and in all, and what is
 * dropped when they are reached. Kernels and checkpoints are real. Only how much memory each of
 * them has is what the test says, because no machine has so much.
 */
#include "session/session.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"

#define GIB ((uint64_t) 1 << 30)
#define MAX_IN_ALL 1000u

/* What the system would say. */
static struct {
    uint64_t bytes;        /* of a kernel that is measured for the first time */
    bool fails;            /* to say it */
    GHashTable *by_kernel; /* IpbKernel → guint64 */
    const IpbKernelOps *native;
    IpbKernelOps ops;
} memory;

typedef struct {
    IpbKernelProvider base;
    IpbKernelProvider *native;
} MeasuredProvider;

typedef struct {
    IpbRuntime *runtime;
    IpbCheckpointTotals *totals;
    char *workspace;
} Fixture;

/* What the last call of a function has said. */
typedef struct {
    uint64_t checkpoint;
    bool is_done;
    GError *error;
    GString *text; /* of a cell: what it printed, and its notices */
} Answer;

/* --- kernels with memory that the test names -------------------------------------------------- */

static bool
measure(const IpbKernel *kernel, uint64_t *ret_bytes)
{
    uint64_t real;
    g_assert_true(memory.native->measure(kernel, &real));
    g_assert_cmpuint(real, >, 0);
    if (memory.fails)
        return false;
    if (!g_hash_table_contains(memory.by_kernel, kernel))
        g_hash_table_insert(memory.by_kernel, (void *) kernel,
                            g_memdup2(&memory.bytes, sizeof memory.bytes));
    *ret_bytes = *(uint64_t *) g_hash_table_lookup(memory.by_kernel, kernel);
    return true;
}

static void
free_kernel(IpbKernel *kernel)
{
    g_hash_table_remove(memory.by_kernel, kernel);
    memory.native->free(kernel);
}

static IpbKernel *
make_kernel(IpbKernelProvider *base, const IpbKernelOptions *options, IpbEventFunc on_event,
            void *data, GError **error)
{
    const MeasuredProvider *provider = (const MeasuredProvider *) base;
    IpbKernel *kernel =
        ipb_kernel_provider_make_kernel(provider->native, options, on_event, data, error);
    memory.native = kernel->ops;
    memory.ops = *kernel->ops;
    memory.ops.measure = measure;
    memory.ops.free = free_kernel;
    kernel->ops = &memory.ops;
    return kernel;
}

static void
start(IpbKernelProvider *base)
{
}

static void
stop(IpbKernelProvider *base, void (*done)(void *data), void *data)
{
    done(data);
}

static void
free_provider(IpbKernelProvider *base)
{
    MeasuredProvider *provider = (MeasuredProvider *) base;
    ipb_kernel_provider_unref(provider->native);
    g_free(provider);
}

static const IpbKernelProviderOps PROVIDER_OPS = {
    .name = "measured",
    .capabilities = IPB_KERNEL_CAN_BE_FORKED | IPB_KERNEL_HAS_TOOL_STUBS |
                    IPB_KERNEL_ORDERS_OUTPUT | IPB_KERNEL_TAKES_RULES,
    .make_kernel = make_kernel,
    .start = start,
    .stop = stop,
    .free = free_provider,
};

static void
set_up(Fixture *fixture, const void *unused)
{
    g_autofree char *root = g_canonicalize_filename("../..", g_getenv("G_TEST_SRCDIR"));
    g_autofree char *python = g_build_filename(root, ".venv/bin/python3", NULL);
    g_autofree char *host = g_build_filename(root, "python/ipybox/kernel_host", NULL);
    g_autoptr(GError) error = NULL;
    fixture->workspace = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    fixture->runtime = ipb_runtime_new(NULL,
                                       &(IpbRuntimeOptions){.python = python,
                                                            .host_directory = host,
                                                            .state_dir = fixture->workspace},
                                       &error);
    g_assert_no_error(error);
    fixture->totals = ipb_runtime_checkpoint_totals(fixture->runtime);
    memory.by_kernel = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    memory.bytes = 1;
    memory.fails = false;
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    g_assert_cmpuint(fixture->totals->n, ==, 0);
    g_assert_cmpuint(fixture->totals->bytes, ==, 0);
    ipb_runtime_unref(fixture->runtime);
    g_assert_cmpuint(g_hash_table_size(memory.by_kernel), ==, 0);
    g_hash_table_unref(memory.by_kernel);
    g_assert_true(ipb_file_remove_tree(fixture->workspace, NULL));
    g_free(fixture->workspace);
}

/* --- what a session does ---------------------------------------------------------------------- */

static void
clear_answer(Answer *answer)
{
    g_clear_error(&answer->error);
    if (answer->text != NULL)
        g_string_free(answer->text, TRUE);
    *answer = (Answer){0};
}

static void
await(const Answer *answer)
{
    while (!answer->is_done)
        g_main_context_iteration(NULL, TRUE);
}

static void
on_event(const IpbEvent *event, void *data)
{
    Answer *answer = data;
    if (event->type == IPB_EVENT_STDOUT || event->type == IPB_EVENT_NOTICE)
        g_string_append(answer->text, event->text);
    answer->is_done = answer->is_done || event->type == IPB_EVENT_DONE;
}

/* Asserts what a cell prints, with notices. NULL: it prints nothing. */
static void
assert_cell(IpbSession *session, const char *code, const char *part)
{
    g_autoptr(GError) error = NULL;
    Answer answer = {.text = g_string_new(NULL)};
    ipb_session_execute(session, code, 0, on_event, &answer, &error);
    g_assert_no_error(error);
    await(&answer);
    if (part == NULL)
        g_assert_cmpstr(answer.text->str, ==, "");
    else if (strstr(answer.text->str, part) == NULL)
        g_error("\"%s\" is not in \"%s\"", part, answer.text->str);
    clear_answer(&answer);
}

static IpbSession *
open_session(const Fixture *fixture, unsigned undo)
{
    g_autoptr(GError) error = NULL;
    MeasuredProvider *provider = g_new0(MeasuredProvider, 1);
    provider->base = (IpbKernelProvider){.ops = &PROVIDER_OPS, .references = 1};
    provider->native = ipb_kernel_provider_ref(ipb_runtime_kernel_provider(fixture->runtime));
    IpbSessionOptions options = {
        .workspace = fixture->workspace,
        .approval_timeout_ms = -1,
        .undo = undo,
        .kernel_provider = &provider->base,
    };
    IpbSession *session = ipb_session_new(fixture->runtime, &options, &error);
    g_assert_no_error(error);
    ipb_kernel_provider_unref(&provider->base);
    return session;
}

static void
on_made(uint64_t id, const GError *error, void *data)
{
    Answer *answer = data;
    answer->checkpoint = id;
    answer->error = error != NULL ? g_error_copy(error) : NULL;
    answer->is_done = true;
}

static void
on_restored(const GError *error, void *data)
{
    on_made(0, error, data);
}

/* Makes a checkpoint that has @bytes. 0: it is refused, with *ret_error. */
static uint64_t
make(IpbSession *session, const char *name, uint64_t bytes, GError **ret_error)
{
    Answer answer = {0};
    memory.bytes = bytes;
    if (ipb_session_checkpoint(session, name, on_made, &answer, &answer.error))
        await(&answer);
    g_assert_true((answer.error == NULL) == (answer.checkpoint != 0));
    if (answer.error != NULL)
        g_propagate_error(ret_error, answer.error);
    return answer.checkpoint;
}

static void
assert_made(IpbSession *session, const char *name, uint64_t bytes)
{
    g_autoptr(GError) error = NULL;
    uint64_t checkpoint = make(session, name, bytes, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(checkpoint, >, 0);
}

static unsigned
count_kept(IpbSession *session)
{
    g_autoptr(GArray) list = ipb_checkpoints_list(ipb_session_checkpoints(session));
    return list->len;
}

static void
assert_refused(IpbSession *session, IpyboxError code, const char *part)
{
    g_autoptr(GError) error = NULL;
    unsigned n = count_kept(session);
    g_assert_cmpuint(make(session, NULL, 1, &error), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, (int) code);
    if (strstr(error->message, part) == NULL)
        g_error("\"%s\" is not in \"%s\"", part, error->message);
    g_assert_cmpuint(count_kept(session), ==, n);
}

static void
drop(IpbSession *session, const char *name)
{
    g_autoptr(GError) error = NULL;
    IpbCheckpoints *checkpoints = ipb_session_checkpoints(session);
    g_assert_true(
        ipb_checkpoints_drop(checkpoints, ipb_checkpoints_find(checkpoints, name), &error));
    g_assert_no_error(error);
}

static void
assert_undone(IpbSession *session, unsigned n)
{
    Answer answer = {0};
    g_assert_true(ipb_session_undo(session, n, true, on_restored, &answer, &answer.error));
    await(&answer);
    g_assert_no_error(answer.error);
}

static unsigned
count_undo(IpbSession *session)
{
    return ipb_checkpoints_n_undo(ipb_session_checkpoints(session));
}

/* --- tests ------------------------------------------------------------------------------------ */

static void
test_memory_of_a_session(Fixture *fixture, const void *data)
{
    IpbSession *session = open_session(fixture, 0);
    assert_made(session, "small", 1 * GIB);
    assert_made(session, "large", 3 * GIB - 1);
    assert_made(session, "last", 1);
    g_assert_cmpuint(fixture->totals->bytes, ==, 4 * GIB);
    assert_refused(session, IPYBOX_ERROR_LIMIT,
                   "the session's checkpoints hold 4096 MiB of memory of their own, 4096 are "
                   "allowed: drop one; the largest of this session is \"large\" with 3071 MiB");
    drop(session, "last");
    assert_made(session, "again", 1);
    drop(session, "large");
    assert_made(session, NULL, 1);
    ipb_session_free(session);
}

static void
test_memory_in_all(Fixture *fixture, const void *data)
{
    IpbSession *sessions[6];
    for (size_t i = 0; i < G_N_ELEMENTS(sessions); i++) {
        sessions[i] = open_session(fixture, 0);
        assert_made(sessions[i], "one", 3 * GIB);
    }
    IpbSession *last = open_session(fixture, 1);
    assert_refused(last, IPYBOX_ERROR_LIMIT,
                   "the checkpoints of all sessions hold 18432 MiB of memory of their own, 16384 "
                   "are allowed: this session has none to drop");
    assert_refused(sessions[0], IPYBOX_ERROR_LIMIT, "\"one\" with 3072 MiB");
    assert_cell(last, "x = 1", "this cell cannot be undone: the checkpoints of all sessions hold");
    ipb_session_free(sessions[5]);
    assert_made(last, NULL, 1);
    assert_cell(last, "x = 2", NULL);
    for (size_t i = 0; i < 5; i++)
        ipb_session_free(sessions[i]);
    ipb_session_free(last);
}

/* Some of them are not made here: each would be a process. */
static void
test_number_in_all(Fixture *fixture, const void *data)
{
    IpbSession *session = open_session(fixture, 2);
    fixture->totals->n = MAX_IN_ALL - 2;
    assert_made(session, "first", 1);
    assert_made(session, "second", 1);
    assert_refused(session, IPYBOX_ERROR_LIMIT,
                   "all sessions together have 1000 checkpoints already: drop one");
    assert_cell(session, "x = 1", "this cell cannot be undone: all sessions together have 1000");
    drop(session, "first");
    assert_cell(session, "x = 2", NULL);
    /* One of the ring makes room for the next one, and for one with a name. */
    assert_cell(session, "x = 3", NULL);
    g_assert_cmpuint(count_undo(session), ==, 1);
    assert_undone(session, 1);
    assert_cell(session, "print(x)", "2");
    g_assert_cmpuint(count_undo(session), ==, 1);
    assert_made(session, "third", 1);
    g_assert_cmpuint(count_undo(session), ==, 0);
    assert_refused(session, IPYBOX_ERROR_LIMIT, "all sessions together");
    fixture->totals->n -= MAX_IN_ALL - 2;
    ipb_session_free(session);
}

static void
test_ring(Fixture *fixture, const void *data)
{
    IpbSession *session = open_session(fixture, 3);
    assert_cell(session, "x = 0", NULL);
    for (unsigned i = 1; i <= 4; i++) {
        g_autofree char *code = g_strdup_printf("x = %u", i);
        memory.bytes = GIB;
        assert_cell(session, code, NULL);
        g_assert_cmpuint(count_undo(session), ==, MIN(i + 1, 3));
    }
    /* The three have 3 GiB. The oldest ones go until there is room for the next. */
    assert_made(session, "named", 3 * GIB);
    g_assert_cmpuint(count_undo(session), ==, 3);
    memory.bytes = GIB / 2;
    assert_cell(session, "x = 5", NULL);
    g_assert_cmpuint(count_undo(session), ==, 1);
    assert_undone(session, 1);
    assert_cell(session, "print(x)", "4");
    /* Also for one with a name. Those stay, whatever comes. */
    assert_cell(session, "pass", NULL);
    g_assert_cmpuint(count_undo(session), ==, 2);
    assert_made(session, "more", GIB);
    g_assert_cmpuint(count_undo(session), ==, 1);
    assert_cell(session, "x = 6",
                "this cell cannot be undone: the session's checkpoints hold 4096 MiB of memory of "
                "their own, 4096 are allowed: drop one; the largest of this session is \"named\"");
    g_assert_cmpuint(count_undo(session), ==, 0);
    assert_refused(session, IPYBOX_ERROR_LIMIT, "\"named\" with 3072 MiB");
    drop(session, "named");
    assert_cell(session, "x = 7", NULL);
    assert_undone(session, 1);
    assert_cell(session, "print(x)", "6");
    ipb_session_free(session);
}

/* No checkpoint counts as none because the system does not say how large it is. */
static void
test_unknown_memory(Fixture *fixture, const void *data)
{
    IpbSession *session = open_session(fixture, 2);
    assert_made(session, "known", 2 * GIB);
    memory.fails = true;
    assert_refused(session, IPYBOX_ERROR_SYSTEM,
                   "the system does not say how much memory the checkpoint holds");
    assert_cell(session, "x = 1",
                "this cell cannot be undone: the system does not say how much memory");
    g_assert_cmpuint(count_undo(session), ==, 0);
    g_assert_cmpuint(fixture->totals->n, ==, 1);
    g_autoptr(GArray) list = ipb_checkpoints_list(ipb_session_checkpoints(session));
    g_assert_cmpuint(g_array_index(list, IpbCheckpointInfo, 0).private_bytes, ==, 2 * GIB);
    g_assert_cmpuint(fixture->totals->bytes, ==, 2 * GIB);
    memory.fails = false;
    memory.bytes = 1;
    assert_cell(session, "x = 2", NULL);
    assert_undone(session, 1);
    assert_cell(session, "print(x)", "1");
    ipb_session_free(session);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/checkpoints/memory-of-a-session", Fixture, NULL, set_up, test_memory_of_a_session,
               tear_down);
    g_test_add("/checkpoints/memory-in-all", Fixture, NULL, set_up, test_memory_in_all, tear_down);
    g_test_add("/checkpoints/number-in-all", Fixture, NULL, set_up, test_number_in_all, tear_down);
    g_test_add("/checkpoints/ring", Fixture, NULL, set_up, test_ring, tear_down);
    g_test_add("/checkpoints/unknown-memory", Fixture, NULL, set_up, test_unknown_memory,
               tear_down);
    return g_test_run();
}
