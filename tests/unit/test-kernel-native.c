/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of native kernels: output, limits, deaths of the kernel, interrupts and pauses. Tests of
 * how kernels start and end are in test-kernel-life.c. The tests use a fake forkserver, whose
 * kernels run the code of the test (fake-kernel/). After each test, the fixture checks that no
 * process and no fd is left.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "kernel-fixture.h"

typedef KernelFixture Fixture;

static const KernelFixtureOptions quick_interrupt = {.interrupt_grace_ms = 100};

static const KernelFixtureOptions rich = {.has_rich_client = true};
static const KernelFixtureOptions oom_mode = {.mode = "oom"};
static const KernelFixtureOptions no_exit_mode = {.mode = "no-exit"};
static const KernelFixtureOptions bad_hello_mode = {.mode = "bad-hello"};
static const KernelFixtureOptions die_before_start_mode = {.mode = "die-before-start"};

static void
test_cells(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
    g_assert_cmpstr(fixture->cause, ==, "/");
    kernel_fixture_assert_cell(
        fixture, "x = 1; out('a'); err('b'); out('c'); display('d'); out('e'); result('f')",
        "started out(a) err(b) out(c) display(d) out(e) result(f) done(ok)");
    kernel_fixture_assert_cell(
        fixture, "out(str(x)); send(66, data={}, display_id='i'); send(67, wait=True)",
        "started out(1) update() clear(wait) done(ok)");
    kernel_fixture_assert_cell(fixture, "out('a'); 1/0",
                               "started out(a) error(ZeroDivisionError) done(error)");
    kernel_fixture_assert_cell(fixture, "out('\xc3\xa9\\0')",
                               "started out(\xc3\xa9\xe2\x90\x80) done(ok)");
}

static void
test_many_cells(Fixture *fixture, const void *data)
{
    for (int i = 0; i < 500; i++)
        kernel_fixture_assert_cell(fixture, "out('a'); display('b'); err('c')",
                                   "started out(a) display(b) err(c) done(ok)");
}

static void
test_bad_code(Fixture *fixture, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_assert_cmpuint(kernel_execute(fixture->kernel, "\xff", &error), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_autofree char *large = g_strnfill(33 << 20, 'x');
    g_assert_cmpuint(kernel_execute(fixture->kernel, large, &error), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_clear_error(&error);
    /* 20 MB of control characters, which are 120 MB in JSON. */
    memset(large, 1, 20 << 20);
    large[20 << 20] = '\0';
    kernel_fixture_cell(fixture, "");
    g_assert_cmpuint(kernel_execute(fixture->kernel, large, &error), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
}

static void
test_large_code(Fixture *fixture, const void *data)
{
    g_autofree char *text = g_strnfill(8 << 20, 'x');
    g_autofree char *code = g_strdup_printf("out(str(len('%s')))", text);
    kernel_fixture_assert_cell(fixture, code, "started out(8388608) done(ok)");
}

static void
test_busy(Fixture *fixture, const void *data)
{
    for (int i = 0; i < 2; i++) { /* while the kernel starts, then while the cell runs */
        g_autoptr(GError) error = NULL;
        kernel_fixture_execute(fixture, "time.sleep(1000)");
        if (i == 1)
            kernel_fixture_wait_for(fixture, "started");
        g_assert_cmpuint(kernel_execute(fixture->kernel, "", &error), ==, 0);
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
        ipb_kernel_interrupt(fixture->kernel);
        kernel_fixture_wait_done(fixture, fixture->n_done + 1);
        g_string_truncate(fixture->trace, 0);
    }
}

/* Runs a cell whose code continues after its done frame. Returns when the code has ended. */
static void
run_late(Fixture *fixture, const char *code)
{
    g_autofree char *directory = g_dir_make_tmp("ipybox-test-XXXXXX", NULL);
    g_autofree char *fifo = g_build_filename(directory, "fifo", NULL);
    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    g_autofree char *whole = g_strdup_printf("done(); %s; open('%s', 'w').close()", code, fifo);
    kernel_fixture_cell(fixture, whole);
    close(open(fifo, O_RDONLY | O_CLOEXEC)); /* blocks until the code opens it */
    kernel_fixture_run(fixture);
    g_unlink(fifo);
    g_rmdir(directory);
}

static void
test_late_output(Fixture *fixture, const void *data)
{
    run_late(fixture, "out('a'); err('b'); display('c', cell=0); out('d')");
    kernel_fixture_assert_cell(fixture, "out('e')", "started late(abc\nd) out(e) done(ok)");
    kernel_fixture_assert_cell(fixture, "out('f')", "started out(f) done(ok)");
    /* The next cell reports late output even if it prints nothing. */
    run_late(fixture, "out('g')");
    kernel_fixture_assert_cell(fixture, "", "started late(g) done(ok)");
    g_assert_cmpstr(fixture->late->str, ==, " 0:out(a) 0:err(b) 0:display(c) 0:out(d) 0:out(g)");
}

/* Frames of cells that have ended. */
static void
test_late_frames(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "out('a')");
    run_late(fixture, "stream('b', cell=1); stream('c', cell=2, name='stderr')");
    kernel_fixture_assert_cell(
        fixture, "stream('d', cell=2); display('e', cell=1); display('f'); send(CLEAR, cell=1)",
        "started late(bcd) display(f) done(ok)");
    g_assert_cmpstr(fixture->late->str, ==, " 1:out(b) 2:err(c) 2:out(d) 1:display(e) 1:clear()");
}

/* More than a pipe holds, so the collector must read it, and drop it, while no cell runs. */
static void
test_large_late_output(Fixture *fixture, const void *data)
{
    pid_t pid = kernel_fixture_pid(fixture);
    kernel_fixture_cell(fixture, "done(); out('\xc3\xa9' * 1000000); os._exit(1)");
    while (kill(pid, 0) == 0) /* until the forkserver has reaped it */
        g_main_context_iteration(NULL, TRUE);
    const char *trace = kernel_fixture_cell(fixture, "");
    trace = strstr(trace, "late(");
    g_assert_nonnull(trace);
    const char *end = strstr(trace, ") notice(");
    g_assert_nonnull(end);
    /* The limit, 256 KiB, cuts no character of two bytes. */
    g_assert_cmpuint((size_t) (end - trace), ==, strlen("late(") + 256 * 1024);
    g_assert_nonnull(strstr(
        end, " more bytes were dropped) notice(while idle, the kernel ended with exit status"));
}

/* A kernel that causes many notices cannot hide the notice of its death. */
static void
test_many_notices(Fixture *fixture, const void *data)
{
    pid_t pid = kernel_fixture_pid(fixture);
    kernel_fixture_cell(
        fixture, "done(); [display_nothing(cell=0) for n in range(1000)]; os.kill(os.getpid(), 9)");
    while (kill(pid, 0) == 0) /* until the forkserver has reaped it */
        g_main_context_iteration(NULL, TRUE);
    kernel_fixture_assert_cell(
        fixture, "",
        "started notice(a display without text came while no cell ran) notice(while idle, the "
        "kernel was killed by SIGKILL (killed); its state is lost) done(ok)");
}

static void
test_display_without_cell(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_cell(fixture, "out('a'); display('b', cell=0); out('c')",
                               "started out(ac) done(ok)");
    g_assert_cmpstr(fixture->late->str, ==, " 0:display(b)");
}

/* Deaths. */

static void
test_exit_status(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(fixture, "out('a'); err('b'); os._exit(3)",
                               "started out(a) err(b) done(lost)",
                               "the kernel ended with exit status 3" STATE_LOST);
    kernel_fixture_assert_cell(fixture, "out('x' in globals() and 'old' or 'new')",
                               "started out(new) done(ok)");
}

static void
test_signal(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "x = 1");
    kernel_fixture_assert_lost(fixture,
                               "display('a'); out('b'); os.kill(os.getpid(), signal.SIGSEGV)",
                               "started display(a) out(b) done(lost)",
                               "the kernel was killed by SIGSEGV (segmentation fault)" STATE_LOST);
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
}

static void
test_out_of_memory(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(
        fixture, "os.kill(os.getpid(), 9)", "started done(lost)",
        "the kernel was killed by SIGKILL (killed), probably by the system for lack of "
        "memory" STATE_LOST);
}

/* All output that the kernel wrote before its death is reported, in order. */
static void
test_output_before_death(Fixture *fixture, const void *data)
{
    const char *trace = kernel_fixture_cell(
        fixture, "for i in range(1000): out(f'{i:09}|'); (i % 100 == 0) and display('d')\n"
                 "out('z' * 60000); os._exit(1)");
    g_assert_nonnull(strstr(trace, "000000100|) display(d) out(000000101|"));
    g_assert_nonnull(strstr(trace, "000000999|z"));
    g_assert_true(g_str_has_suffix(trace, "z) done(lost)"));
    g_assert_cmpuint(strlen(trace), >, 70000);
}

/* A kernel's death is reported even if a child holds the pipes and the wire open and writes. */
static void
test_death_with_child(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "");
    const char *trace = kernel_fixture_cell(fixture, "r, w = os.pipe()\n"
                                                     "child = os.fork()\n"
                                                     "if child == 0:\n"
                                                     "    os.write(w, b'x')\n"
                                                     "    while True: os.write(1, b'y' * 100)\n"
                                                     "os.read(r, 1)\n"
                                                     "send(65, data={'text/plain': str(child)})\n"
                                                     "os.kill(os.getpid(), 9)");
    const char *child = strstr(trace, "display(");
    g_assert_nonnull(child);
    g_assert_true(g_str_has_suffix(trace, " done(lost)"));
    kill((pid_t) strtol(child + 8, NULL, 10), SIGKILL);
}

static void
test_death_without_status(Fixture *fixture, const void *data)
{
    /* This forkserver does not report how kernels end. */
    kernel_fixture_assert_lost(fixture, "os._exit(1)", "started done(lost)",
                               "the kernel ended, and the forkserver does not say how" STATE_LOST);
}

static void
test_closed_wire(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(
        fixture, "out('a'); os.close(kernel.wire); time.sleep(1000)", "started out(a) done(lost)",
        "the kernel's connection was closed by code that ran in it, so the kernel was "
        "killed" STATE_LOST);
}

static void
test_death_while_idle(Fixture *fixture, const void *data)
{
    pid_t pid = kernel_fixture_pid(fixture);
    kernel_fixture_cell(fixture, "x = 1; done(); out('late'); os.kill(os.getpid(), 9)");
    kernel_fixture_wait_gone(pid); /* its exit has not been handled yet */
    kernel_fixture_assert_cell(
        fixture, "out('x' in globals() and 'old' or 'new')",
        "started late(late) notice(while idle, the kernel was killed by SIGKILL (killed); "
        "its state is lost) out(new) done(ok)");
    pid = kernel_fixture_pid(fixture);
    kill(pid, SIGKILL);
    while (kill(pid, 0) == 0)
        g_main_context_iteration(NULL, TRUE);
    kernel_fixture_run(fixture);
    kernel_fixture_assert_cell(fixture, "",
                               "started notice(while idle, the kernel was killed by SIGKILL "
                               "(killed); its state is lost) done(ok)");
    g_assert_cmpuint(fixture->n_died, ==, 2);
}

static void
test_death_without_state(Fixture *fixture, const void *data)
{
    ipb_kernel_start(fixture->kernel, false);
    kernel_fixture_run(fixture);
    ipb_kernel_reset(fixture->kernel);
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
    g_assert_cmpuint(fixture->n_died, ==, 0);
}

static void
test_forkserver_death(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "x = 1");
    kernel_fixture_assert_lost(
        fixture, "os.kill(os.getppid(), 9); time.sleep(1000)", "started done(lost)",
        "the kernel was lost with the forkserver: the forkserver ended (killed by SIGKILL "
        "(killed))" STATE_LOST);
    kernel_fixture_assert_cell(fixture, "out('x' in globals() and 'old' or 'new')",
                               "started out(new) done(ok)");
}

/* Violations of the protocol. */

static void
assert_breach(Fixture *fixture, const char *code, const char *what)
{
    const char *trace = kernel_fixture_cell(fixture, code);
    g_autofree char *cause = g_strdup_printf("the kernel broke its protocol: %s", what);
    g_assert_true(g_str_has_suffix(trace, " done(lost)"));
    if (!g_str_has_prefix(fixture->cause, cause))
        g_assert_cmpstr(fixture->cause, ==, cause);
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
}

static void
test_breaches(Fixture *fixture, const void *data)
{
    assert_breach(fixture, "raw(b'\\xff' * 20); time.sleep(1000)",
                  "a frame of length 4294967295 (5 to 67108864 are allowed)");
    assert_breach(fixture, "raw(b'\\x05\\0\\0\\0\\x03'); time.sleep(1000)",
                  "a frame of the unknown type 3");
    assert_breach(fixture, "send(64, version=1); time.sleep(1000)", "a second hello");
    assert_breach(fixture, "send(64, version=2); time.sleep(1000)",
                  "a frame hello with a version that is not ours");
    assert_breach(fixture, "display('x', cell=77); time.sleep(1000)",
                  "a frame of cell 77 while cell 9 runs");
    assert_breach(fixture, "stream('x', cell=9); time.sleep(1000)", /* of another process */
                  "a frame of cell 9 while cell 11 runs");
    assert_breach(fixture,
                  "result('x', cell=0) if False else send(68, cell=0, execution_count=1, "
                  "data={}, metadata={}); time.sleep(1000)",
                  "a frame of cell 0 while cell 13 runs");
    assert_breach(fixture, "send(77); time.sleep(1000)",
                  "new pipes were taken that were not given");
    assert_breach(fixture, "send(76); send(76); time.sleep(1000)", "new pipes were wanted twice");
    assert_breach(fixture, "done('error'); time.sleep(1000)",
                  "a cell that failed without an error frame");
    assert_breach(fixture, "send(72, id=1, prompt=''); time.sleep(1000)",
                  "a request for input in a cell that allows none");
    assert_breach(fixture, "send(71, id=1, result=1); time.sleep(1000)",
                  "a reply to request 1, which was not made");
    assert_breach(fixture, "raw(b'\\x06\\0\\0\\0\\x46\\0\\0\\0\\0{'); time.sleep(1000)",
                  "a frame done: ");
}

/* --- comms ------------------------------------------------------------------------------------ */

static uint64_t
send_comm(Fixture *fixture, const char *code)
{
    g_autofree char *text = g_strdup_printf("\"%s\"", code);
    g_autoptr(IpbJsonDoc) data = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    IpbComm comm = {.kind = IPB_COMM_MSG, .comm_id = "c", .data = ipb_json_root(data)};
    g_autoptr(GBytes) bytes = ipb_comm_write(&comm, NULL);
    IpbKernelCode options = {.code = "", .comm = bytes};
    g_autoptr(GError) error = NULL;
    uint64_t cell = ipb_kernel_execute(fixture->kernel, &options, &error);
    g_assert_no_error(error);
    return cell;
}

/* The message waits for the kernel's start, and is handled like a cell. */
static void
test_comms(Fixture *fixture, const void *data)
{
    send_comm(fixture, "x = 1; out('a'); send(75, kind='msg', comm_id='c', data={})");
    kernel_fixture_wait_done(fixture, 1);
    g_assert_cmpstr(fixture->trace->str, ==, " started out(a) comm(c) done(ok)");
    kernel_fixture_assert_cell(fixture, "out(str(x)); send(75, kind='close', comm_id='d', data=1)",
                               "started out(1) comm(d) done(ok)");
    g_string_truncate(fixture->trace, 0);
    send_comm(fixture, "out('b'); time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "out(b");
    ipb_kernel_interrupt(fixture->kernel);
    kernel_fixture_wait_done(fixture, 3);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_INTERRUPTED);
}

/* It is reported at once. */
static void
test_comm_without_cell(Fixture *fixture, const void *data)
{
    run_late(fixture, "send(75, cell=0, kind='msg', comm_id='late', data={})");
    g_assert_cmpstr(fixture->late->str, ==, " 0:comm(late)");
    run_late(fixture, "send(75, cell=1, kind='msg', comm_id='later', data={})");
    g_assert_cmpstr(fixture->late->str, ==, " 0:comm(late) 1:comm(later)");
    /* None of it comes again. */
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
}

static void
test_comm_breaches(Fixture *fixture, const void *data)
{
    const KernelFixtureOptions *options = data;
    if (options == NULL) {
        assert_breach(fixture, "send(75, kind='msg', comm_id='c', data={}); time.sleep(1000)",
                      "a frame comm, but the client shows text only");
        return;
    }
    assert_breach(fixture, "send(75, kind='new', comm_id='c', data={}); time.sleep(1000)",
                  "a frame comm without a known \"kind\"");
    assert_breach(fixture, "send(75, cell=9, kind='msg', comm_id='c', data={}); time.sleep(1000)",
                  "a frame of cell 9 while cell 3 runs");
}

static void
test_frame_after_done(Fixture *fixture, const void *data)
{
    pid_t pid = kernel_fixture_pid(fixture);
    kernel_fixture_cell(fixture,
                        "done(); send(70, cell=1, status='ok', execution_count=1, cwd='/')");
    while (kill(pid, 0) == 0)
        g_main_context_iteration(NULL, TRUE);
    kernel_fixture_assert_cell(
        fixture, "",
        "started notice(while idle, the kernel broke its protocol: a frame of cell 1 "
        "while no cell runs; its state is lost) done(ok)");
}

static void
test_first_frame(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(fixture, "", "done(lost)",
                               "the kernel broke its protocol: the first frame was not hello");
}

/* Writing to the kernel fails, but the exit status is the error to report. */
static void
test_death_before_start(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(fixture, "", "done(lost)", "the kernel ended with exit status 5");
}

/* Interrupts. */

static void
test_interrupt(Fixture *fixture, const void *data)
{
    kernel_fixture_execute(fixture, "x = 1; out('a'); time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "out(a");
    ipb_kernel_interrupt(fixture->kernel);
    kernel_fixture_wait_done(fixture, 1);
    g_assert_cmpstr(fixture->trace->str, ==,
                    " started out(a) error(KeyboardInterrupt) done(interrupted)");
    kernel_fixture_assert_cell(fixture, "out(str(x))", "started out(1) done(ok)");
    ipb_kernel_interrupt(fixture->kernel); /* no effect on an idle kernel */
    kernel_fixture_assert_cell(fixture, "out(str(x))", "started out(1) done(ok)");
}

static void
test_interrupt_ignored(Fixture *fixture, const void *data)
{
    kernel_fixture_execute(
        fixture,
        "for s in (signal.SIGINT, signal.SIGRTMIN + 6): signal.signal(s, lambda *_: out('no'))\n"
        "out('a'); time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "out(a");
    ipb_kernel_interrupt(fixture->kernel);
    kernel_fixture_wait_for(fixture, "no");
    ipb_kernel_interrupt(fixture->kernel);
    kernel_fixture_wait_done(fixture, 1);
    g_assert_true(g_str_has_prefix(fixture->trace->str, " started out(ano"));
    g_assert_cmpstr(fixture->cause, ==,
                    "the cell did not react to the interrupt within 0.1 s, so the kernel was "
                    "killed" STATE_LOST);
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
}

/* The cell catches the first interrupt. The second one ends it. */
static void
test_interrupt_twice(Fixture *fixture, const void *data)
{
    kernel_fixture_execute(fixture, "try: out('a'); time.sleep(1000)\n"
                                    "except KeyboardInterrupt: out('b'); time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "out(a");
    ipb_kernel_interrupt(fixture->kernel);
    kernel_fixture_wait_for(fixture, "out(ab");
    ipb_kernel_interrupt(fixture->kernel);
    kernel_fixture_wait_done(fixture, 1);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_INTERRUPTED);
}

/* The interrupt is sent before the kernel can have read the cell. */
static void
test_interrupt_immediately(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "");
    for (int i = 0; i < 5; i++) {
        kernel_fixture_execute(fixture, "time.sleep(1000)");
        ipb_kernel_interrupt(fixture->kernel);
        kernel_fixture_wait_done(fixture, fixture->n_done + 1);
        g_assert_cmpint(fixture->status, ==, IPB_CELL_INTERRUPTED);
    }
}

static void
test_interrupt_before_start(Fixture *fixture, const void *data)
{
    kernel_fixture_execute(fixture, "out('never')");
    ipb_kernel_interrupt(fixture->kernel);
    g_assert_cmpstr(fixture->trace->str, ==, "");
    kernel_fixture_wait_done(fixture, 1);
    g_assert_cmpstr(fixture->trace->str, ==, " error(KeyboardInterrupt) done(interrupted)");
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
}

/* Pauses. */

static void
test_paused(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "");
    g_string_truncate(fixture->trace, 0);
    kernel_fixture_execute(fixture, "out('a' * 1000000)");
    kernel_fixture_wait_for(fixture, "out(a");
    ipb_kernel_set_paused(fixture->kernel, true);
    size_t size = fixture->trace->len;
    kernel_fixture_run(fixture);
    g_assert_cmpuint(fixture->trace->len, ==, size);
    /* The grace period is paused, too. Otherwise the kernel would be killed, because its answer is
     * not read. */
    ipb_kernel_interrupt(fixture->kernel);
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    IpbTimer *timer =
        ipb_timer_new(fixture->loop, 300, (IpbTimerFunc) (void *) g_main_loop_quit, loop);
    g_main_loop_run(loop);
    ipb_timer_free(timer);
    g_assert_cmpuint(fixture->n_done, ==, 1);
    ipb_kernel_set_paused(fixture->kernel, false);
    kernel_fixture_wait_done(fixture, 2);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_INTERRUPTED);
}

static void
test_paused_and_stopped(Fixture *fixture, const void *data)
{
    kernel_fixture_execute(fixture, "while True: out('a' * 1000)");
    kernel_fixture_wait_for(fixture, "out(a");
    ipb_kernel_set_paused(fixture->kernel, true);
    kernel_fixture_stop(fixture);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
}

/* Readiness. */

static void
wait_until(const unsigned *count, unsigned n)
{
    while (*count < n)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(*count, ==, n);
}

static void
test_ready(Fixture *fixture, const void *data)
{
    ipb_kernel_start(fixture->kernel, false);
    g_assert_cmpuint(fixture->n_ready, ==, 0);
    wait_until(&fixture->n_ready, 1);
    ipb_kernel_start(fixture->kernel, false); /* the kernel is ready already */
    ipb_kernel_start(fixture->kernel, false);
    wait_until(&fixture->n_ready, 2);
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
    ipb_kernel_start(fixture->kernel, false);
    ipb_kernel_reset(fixture->kernel); /* now the fresh process is awaited */
    wait_until(&fixture->n_ready, 3);
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
    g_assert_cmpuint(fixture->n_ready, ==, 3);
    g_assert_cmpuint(fixture->n_failed_starts, ==, 0);
}

static void
test_ready_by_cell(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "os._exit(1)");
    g_assert_cmpuint(fixture->n_ready, ==, 1);
    kernel_fixture_cell(fixture, "");
    g_assert_cmpuint(fixture->n_ready, ==, 2);
}

static void
test_failed_start(Fixture *fixture, const void *data)
{
    ipb_kernel_start(fixture->kernel, false);
    wait_until(&fixture->n_failed_starts, 1);
    kernel_fixture_cell(fixture, "");
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    g_assert_cmpuint(fixture->n_failed_starts, ==, 2);
    g_assert_cmpuint(fixture->n_ready, ==, 0);
}

static void
test_stop_while_starting(Fixture *fixture, const void *data)
{
    ipb_kernel_start(fixture->kernel, false);
    kernel_fixture_stop(fixture);
    g_assert_cmpuint(fixture->n_failed_starts, ==, 1);
    g_assert_cmpuint(fixture->n_ready, ==, 0);
}

/* Calls from within callbacks. */

static void
execute_again(void *data, const IpbEvent *event)
{
    Fixture *fixture = data;
    if (event->type == IPB_EVENT_DONE && fixture->n_done < 5)
        kernel_fixture_execute(fixture, event->status == IPB_CELL_LOST
                                            ? "out('x')"
                                            : "done(); out('late'); os._exit(1)");
}

static void
test_execute_in_callback(Fixture *fixture, const void *data)
{
    fixture->on_event = execute_again;
    kernel_fixture_execute(fixture, "out('x')");
    kernel_fixture_wait_done(fixture, 5);
}

static void
reset_once(void *data, const IpbEvent *event)
{
    Fixture *fixture = data;
    if (event->type == IPB_EVENT_STDOUT || event->type == IPB_EVENT_DISPLAY)
        ipb_kernel_reset(fixture->kernel);
}

static void
test_reset_in_callback(Fixture *fixture, const void *data)
{
    fixture->on_event = reset_once;
    kernel_fixture_cell(fixture, "out('a'); display('b'); out('c'); time.sleep(1000)");
    g_assert_cmpstr(fixture->cause, ==, "the kernel was reset");
    kernel_fixture_cell(fixture, "display('b'); out('c')");
    g_assert_cmpstr(fixture->cause, ==, "the kernel was reset");
    fixture->on_event = NULL;
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
}

static void
interrupt_once(void *data, const IpbEvent *event)
{
    Fixture *fixture = data;
    if (event->type == IPB_EVENT_STDOUT || event->type == IPB_EVENT_ERROR ||
        event->type == IPB_EVENT_DONE)
        ipb_kernel_interrupt(fixture->kernel);
}

static void
test_interrupt_in_callback(Fixture *fixture, const void *data)
{
    fixture->on_event = interrupt_once;
    kernel_fixture_assert_cell(fixture, "out('a'); time.sleep(1000)",
                               "started out(a) error(KeyboardInterrupt) done(interrupted)");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, options, func)                                                                   \
    g_test_add("/kernel/native/" path, Fixture, options, kernel_fixture_set_up, func,              \
               kernel_fixture_tear_down)
    ADD("cells", NULL, test_cells);
    ADD("many-cells", NULL, test_many_cells);
    ADD("bad-code", NULL, test_bad_code);
    ADD("large-code", NULL, test_large_code);
    ADD("busy", NULL, test_busy);
    ADD("late-output", NULL, test_late_output);
    ADD("large-late-output", NULL, test_large_late_output);
    ADD("late-frames", NULL, test_late_frames);
    ADD("many-notices", NULL, test_many_notices);
    ADD("display-without-cell", NULL, test_display_without_cell);
    ADD("exit-status", NULL, test_exit_status);
    ADD("signal", NULL, test_signal);
    ADD("out-of-memory", &oom_mode, test_out_of_memory);
    ADD("output-before-death", NULL, test_output_before_death);
    ADD("death-with-child", NULL, test_death_with_child);
    ADD("death-without-status", &no_exit_mode, test_death_without_status);
    ADD("closed-wire", NULL, test_closed_wire);
    ADD("death-while-idle", NULL, test_death_while_idle);
    ADD("death-without-state", NULL, test_death_without_state);
    ADD("forkserver-death", NULL, test_forkserver_death);
    ADD("breaches", NULL, test_breaches);
    ADD("comms", &rich, test_comms);
    ADD("comm-without-cell", &rich, test_comm_without_cell);
    ADD("comm-breaches", &rich, test_comm_breaches);
    ADD("comm-without-rich-client", NULL, test_comm_breaches);
    ADD("frame-after-done", NULL, test_frame_after_done);
    ADD("first-frame", &bad_hello_mode, test_first_frame);
    ADD("death-before-start", &die_before_start_mode, test_death_before_start);
    ADD("interrupt", NULL, test_interrupt);
    ADD("interrupt-ignored", &quick_interrupt, test_interrupt_ignored);
    ADD("interrupt-twice", NULL, test_interrupt_twice);
    ADD("interrupt-immediately", NULL, test_interrupt_immediately);
    ADD("interrupt-before-start", NULL, test_interrupt_before_start);
    ADD("paused", &quick_interrupt, test_paused);
    ADD("paused-and-stopped", &quick_interrupt, test_paused_and_stopped);
    ADD("ready", NULL, test_ready);
    ADD("ready-by-cell", NULL, test_ready_by_cell);
    ADD("failed-start", &die_before_start_mode, test_failed_start);
    ADD("stop-while-starting", NULL, test_stop_while_starting);
    ADD("execute-in-callback", NULL, test_execute_in_callback);
    ADD("reset-in-callback", NULL, test_reset_in_callback);
    ADD("interrupt-in-callback", NULL, test_interrupt_in_callback);
    return g_test_run();
}
