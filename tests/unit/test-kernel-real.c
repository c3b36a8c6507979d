/* SPDX-License-Identifier: Apache-2.0
 *
 * Native kernels that run IPython: order and completeness of output, memory use, deaths and
 * interrupts. The interpreter is $IPYBOX_TEST_PYTHON, or else that of .venv. If it has no IPython,
 * the tests are skipped. `-m perf` also measures starts and cells.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "kernel-fixture.h"
#include "sanitizer.h"

typedef KernelFixture Fixture;

static char *
find_python(void)
{
    const char *python = g_getenv("IPYBOX_TEST_PYTHON");
    if (python != NULL)
        return g_strdup(python);
    return g_test_build_filename(G_TEST_DIST, "..", "..", ".venv", "bin", "python", NULL);
}

static void
set_up(Fixture *fixture, const void *data)
{
    g_autofree char *python = find_python();
    g_autofree char *host =
        g_test_build_filename(G_TEST_DIST, "..", "..", "python", "ipybox", "kernel_host", NULL);
    KernelFixtureOptions options = {.python = python, .host_directory = host};
    if (data != NULL)
        options.interrupt_grace_ms = ((const KernelFixtureOptions *) data)->interrupt_grace_ms;
    kernel_fixture_set_up(fixture, &options);
}

static void
assert_lost(Fixture *fixture, const char *code, const char *cause)
{
    const char *trace = kernel_fixture_cell(fixture, code);
    g_assert_true(g_str_has_suffix(trace, " done(lost)"));
    g_assert_cmpstr(fixture->cause, ==, cause);
    kernel_fixture_assert_cell(fixture, "'x' in globals()", "started result(False) done(ok)");
    kernel_fixture_cell(fixture, "x = 1");
}

static size_t
resident_kib(void)
{
    g_autofree char *status = NULL;
    g_file_get_contents("/proc/self/status", &status, NULL, NULL);
    return strtoul(strstr(status, "VmRSS:") + 6, NULL, 10);
}

/* A thousand cells write to stdout and stderr in every possible way. Output is complete and in
 * order. */
static void
test_order(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "import ctypes, os, subprocess, sys\n"
                                 "libc = ctypes.CDLL(None)\n"
                                 "def cell(i):\n"
                                 "    print(f'a{i}', flush=True)\n"
                                 "    libc.puts(f'b{i}'.encode())\n"
                                 "    libc.fflush(None)\n"
                                 "    os.write(1, f'c{i}\\n'.encode())\n"
                                 "    print(f'd{i}', file=sys.stderr)\n"
                                 "    print(f'e{i}')\n"
                                 "    print(f'f{i}', file=sys.stderr)\n"
                                 "    display(i)\n"
                                 "    os.write(1, f'g{i}'.encode())\n"
                                 "    return i\n");
    for (int i = 0; i < 1000; i++) {
        char code[32];
        snprintf(code, sizeof code, "cell(%d)", i);
        g_autofree char *expected = g_strdup_printf(
            "started out(a%d\nb%d\nc%d\n) err(d%d\n) out(e%d\n) err(f%d\n) display(%d) out(g%d) "
            "result(%d) done(ok)",
            i, i, i, i, i, i, i, i, i);
        g_assert_cmpstr(kernel_fixture_cell(fixture, code), ==, expected);
    }
}

static void
test_child_processes(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_cell(
        fixture,
        "print('a')\n!echo b\nprint('c')\n"
        "import subprocess; subprocess.run('echo d; echo e', shell=True)\nprint('f')",
        "started out(a\nb\nc\nd\ne\nf\n) done(ok)");
    kernel_fixture_assert_cell(fixture, "!echo g >&2", "started err(g\n) done(ok)");
}

/* 100 MB in each way, with bounded memory. */
static void
test_large_output(Fixture *fixture, const void *data)
{
    static const char *const codes[] = {
        "for i in range(1000000): print('x' * 99)",
        "import os\nfor i in range(1600): os.write(1, b'x' * 62500)",
        "import sys; sys.stderr.write('x' * 100_000_000)",
        "!head -c 100000000 /dev/zero | tr '\\0' x",
    };
    kernel_fixture_cell(fixture, "");
    fixture->is_counting = true;
    for (size_t i = 0; i < G_N_ELEMENTS(codes); i++) {
        size_t before = resident_kib();
        fixture->n_bytes = 0;
        gint64 start = g_get_monotonic_time();
        kernel_fixture_cell(fixture, codes[i]);
        double seconds = (double) (g_get_monotonic_time() - start) / 1e6;
        g_assert_cmpint(fixture->status, ==, IPB_CELL_OK);
        g_assert_cmpuint(fixture->n_bytes, ==, 100000000);
        g_test_message("%.0f MB/s: %s", 100 / seconds, codes[i]);
        if (!HAS_ADDRESS_SANITIZER)
            g_assert_cmpuint(resident_kib(), <, before + 8 * 1024);
    }
}

static void
test_large_display(Fixture *fixture, const void *data)
{
    const char *trace = kernel_fixture_cell(
        fixture, "print('a'); display({'text/plain': 'x' * 30_000_000}, raw=True); print('b')");
    g_assert_cmpuint(strlen(trace), ==,
                     strlen("started out(a\n) display() out(b\n) done(ok)") + 30000000);
    kernel_fixture_assert_cell(fixture, "1", "started result(1) done(ok)");
}

static void
test_deaths(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "x = 1");
    assert_lost(fixture, "import os; print('a'); os._exit(3)",
                "the kernel ended with exit status 3" STATE_LOST);
    assert_lost(fixture, "import ctypes; print('a'); ctypes.string_at(0)",
                "the kernel was killed by SIGSEGV (segmentation fault)" STATE_LOST);
    assert_lost(fixture, "import os; print('a'); os.kill(os.getpid(), 9)",
                "the kernel was killed by SIGKILL (killed)" STATE_LOST);
    assert_lost(fixture, "import os; print('a'); os.abort()",
                "the kernel was killed by SIGABRT (aborted)" STATE_LOST);
    assert_lost(fixture, "import ctypes, os, time; os.closerange(3, 65536); time.sleep(1000)",
                "the kernel's connection was closed by code that ran in it, so the kernel was "
                "killed" STATE_LOST);
    assert_lost(fixture, "import os; os.kill(os.getppid(), 9); import time; time.sleep(1000)",
                "the kernel was lost with the forkserver: the forkserver ended (killed by SIGKILL "
                "(killed))" STATE_LOST);
    g_assert_true(g_str_has_prefix(kernel_fixture_cell(fixture, "raise SystemExit(3)"),
                                   "started error(SystemExit)"));
    kernel_fixture_assert_cell(fixture, "x", "started result(1) done(ok)");
}

/* A kernel's death is reported even if its background children hold the pipes open. The
 * children have ended by then, too. */
static void
test_death_with_children(Fixture *fixture, const void *data)
{
    const char *trace = kernel_fixture_cell(
        fixture, "import os, subprocess\n"
                 "p = subprocess.Popen(['sh', '-c', 'while :; do echo y; done'])\n"
                 "q = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
                 "display(q.pid); os.kill(os.getpid(), 9)");
    const char *pid = strstr(trace, "display(");
    g_assert_nonnull(pid);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    kernel_fixture_wait_gone((pid_t) strtol(pid + 8, NULL, 10));
}

static void
interrupt_when(Fixture *fixture, const char *code, const char *text)
{
    g_string_truncate(fixture->trace, 0);
    kernel_fixture_execute(fixture, code);
    if (text != NULL)
        kernel_fixture_wait_for(fixture, text);
    ipb_kernel_interrupt(fixture->kernel);
    kernel_fixture_wait_done(fixture, fixture->n_done + 1);
}

static void
assert_interrupted(Fixture *fixture)
{
    if (fixture->status != IPB_CELL_INTERRUPTED)
        g_test_message("trace:%s\n%s", fixture->trace->str, fixture->traceback);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_INTERRUPTED);
}

static void
test_interrupts(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "x = 1; import asyncio, time");
    interrupt_when(fixture, "print('a'); time.sleep(1000)", "out(a");
    g_assert_cmpstr(fixture->trace->str, ==,
                    " started out(a\n) error(KeyboardInterrupt) done(interrupted)");
    interrupt_when(fixture, "print('a')\nwhile True: pass", "out(a");
    assert_interrupted(fixture);
    interrupt_when(fixture, "print('a'); await asyncio.sleep(1000)", "out(a");
    assert_interrupted(fixture);
    interrupt_when(fixture, "while True: print('a' * 1000)", "out(a");
    assert_interrupted(fixture);
    for (int i = 0; i < 20; i++) { /* before the kernel has read the cell */
        interrupt_when(fixture, "time.sleep(1000)", NULL);
        assert_interrupted(fixture);
    }
    kernel_fixture_assert_cell(fixture, "x", "started result(1) done(ok)");
}

static void
test_interrupt_ignored(Fixture *fixture, const void *data)
{
    interrupt_when(
        fixture,
        "import signal, time\n"
        "for s in (signal.SIGINT, signal.SIGRTMIN + 6): signal.signal(s, signal.SIG_IGN)\n"
        "print('a'); time.sleep(1000)",
        "out(a");
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    kernel_fixture_assert_cell(fixture, "1", "started result(1) done(ok)");
}

static void
test_late_output(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "import threading, os\n"
                                 "r, w = os.pipe()\n"
                                 "def late():\n"
                                 "    os.read(r, 1)\n"
                                 "    print('late')\n"
                                 "thread = threading.Thread(target=late); thread.start()");
    /* It is the first cell's output, although the second one waits for it. */
    kernel_fixture_assert_cell(fixture, "os.write(w, b'x'); thread.join()",
                               "started late(late\n) done(ok)");
    g_assert_cmpstr(fixture->late->str, ==, " 1:out(late\n)");
    g_string_truncate(fixture->late, 0);
    kernel_fixture_assert_cell(fixture,
                               "import asyncio\n"
                               "async def late(): await asyncio.sleep(0); print('task')\n"
                               "task = asyncio.ensure_future(late())",
                               "started done(ok)");
    const char *trace = kernel_fixture_cell(fixture, "await task");
    g_assert_nonnull(strstr(trace, "late(task\n)"));
    g_assert_cmpstr(fixture->late->str, ==, " 3:out(task\n)");
}

static void
wait_for_late(Fixture *fixture, const char *text)
{
    while (strstr(fixture->late->str, text) == NULL)
        g_main_context_iteration(NULL, TRUE);
}

/* What a process writes belongs to the cell that started it. */
static void
test_children(Fixture *fixture, const void *data)
{
    static const char start[] = "import os, subprocess\n"
                                "def start(text):\n"
                                "    return subprocess.Popen(['sh', '-c', 'read x; echo %s; echo "
                                "E%s >&2' % (text, text)],\n"
                                "                            stdin=subprocess.PIPE)\n"
                                "def end(child): child.stdin.close(); child.wait()\n"
                                "saved = os.dup(1)\n"
                                "a = start('a')";
    kernel_fixture_assert_cell(fixture, start, "started done(ok)");
    kernel_fixture_assert_cell(fixture, "b = start('b'); print(2)", "started out(2\n) done(ok)");
    /* Our own descriptors are those of the running cell. */
    const char *trace = kernel_fixture_cell(fixture, "end(b); end(a); os.write(saved, b'3')");
    g_assert_nonnull(strstr(trace, " out(3)"));
    wait_for_late(fixture, "2:err(Eb\n)");
    wait_for_late(fixture, "2:out(b\n)");
    wait_for_late(fixture, "1:err(Ea\n)");
    wait_for_late(fixture, "1:out(a\n)");
    g_assert_cmpuint(strlen(fixture->late->str), ==,
                     strlen(" 1:out(a\n) 1:err(Ea\n) 2:out(b\n) 2:err(Eb\n)"));
    kernel_fixture_cell(fixture, "print(4)"); /* has what was late */
    kernel_fixture_assert_cell(fixture, "print(5)", "started out(5\n) done(ok)");
}

/* The kernel does not see it as a child, or did not start it by Python's functions. */
static void
test_hidden_children(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "import os, ctypes, subprocess\n"
                                 "r, w = os.pipe(); os.set_inheritable(r, True)\n"
                                 "os.system('(read x <&%d; echo orphan) &' % r)");
    kernel_fixture_cell(fixture, "q, v = os.pipe(); os.set_inheritable(q, True)\n"
                                 "libc = ctypes.CDLL(None)\n"
                                 "libc.popen(b'read x <&%d; echo child >&2' % q, b'w')");
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
    kernel_fixture_cell(fixture, "os.write(w, b'\\n'); os.write(v, b'\\n')");
    wait_for_late(fixture, " 1:out(orphan\n)");
    wait_for_late(fixture, " 2:err(child\n)");
}

/* Beyond the maximum their output is shown with other cells, and a notice says so. */
static void
test_many_children(Fixture *fixture, const void *data)
{
    size_t n_fds = 0;
    kernel_fixture_cell(fixture, "import subprocess; children = []");
    for (int i = 0; i < 20; i++) {
        kernel_fixture_cell(fixture, "children.append(subprocess.Popen(['sleep', '1000']))");
        if (i == 17)
            n_fds = kernel_fixture_count_fds();
    }
    g_assert_cmpuint(kernel_fixture_count_fds(), ==, n_fds);
    const char *trace = kernel_fixture_cell(fixture, "");
    g_assert_nonnull(strstr(trace, "notice(processes that 16 cells have started still run"));
    kernel_fixture_cell(fixture, "for child in children: child.kill(); child.wait()");
    while (kernel_fixture_count_fds() > n_fds - 30)
        g_main_context_iteration(NULL, TRUE);
    kernel_fixture_assert_cell(fixture, "subprocess.call(['echo', 'a'])",
                               "started out(a\n) result(0) done(ok)");
    kernel_fixture_assert_cell(fixture, "print('b')", "started out(b\n) done(ok)");
}

static void
test_reset_and_stop(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "x = 1");
    ipb_kernel_reset(fixture->kernel);
    kernel_fixture_assert_cell(fixture, "'x' in globals()", "started result(False) done(ok)");
    pid_t pid = kernel_fixture_pid(fixture);
    kernel_fixture_stop(fixture);
    kernel_fixture_wait_gone(pid);
}

static void
on_reply(const IpbJson *result, const GError *error, void *data)
{
    Fixture *fixture = data;
    IpbSpan raw = ipb_json_raw(result);
    g_string_append_printf(fixture->trace, " reply(%s%.*s)", error != NULL ? error->message : "",
                           (int) (result != NULL ? raw.size : 0), raw.start);
}

static void
ask(Fixture *fixture, const char *method, const char *params)
{
    g_autoptr(GError) error = NULL;
    ipb_kernel_request(fixture->kernel, method, params, on_reply, fixture, &error);
    g_assert_no_error(error);
}

static void
assert_reply(Fixture *fixture, const char *method, const char *params, const char *expected)
{
    g_string_truncate(fixture->trace, 0);
    ask(fixture, method, params);
    kernel_fixture_wait_for(fixture, expected);
}

static void
test_requests(Fixture *fixture, const void *data)
{
    /* A request starts the kernel and is answered between cells. It fails if the kernel dies. */
    assert_reply(fixture, "is_complete", "{\"code\": \"for x in y:\"}", "reply({\"status\"");
    assert_reply(fixture, "no_such", "{}", "reply(ValueError: no method 'no_such')");
    kernel_fixture_cell(fixture, "import time, os");
    kernel_fixture_execute(fixture, "time.sleep(0.01); my_variable = 1");
    ask(fixture, "complete", "{\"code\": \"my_vari\"}");
    kernel_fixture_wait_for(fixture, "reply({\"matches\":[\"my_variable\"]");
    kernel_fixture_execute(fixture, "print('dies'); time.sleep(0.1); os._exit(1)");
    kernel_fixture_wait_for(fixture, "out(dies");
    ask(fixture, "complete", "{}");
    kernel_fixture_wait_for(fixture, "reply(the kernel ended with exit status 1)");
    assert_reply(fixture, "is_complete", "{\"code\": \"1\"}", "reply({\"status\":\"complete\"");
    g_autoptr(GError) error = NULL;
    g_assert_false(ipb_kernel_request(fixture->kernel, "x", "[]", on_reply, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static int
compare_doubles(const void *a, const void *b)
{
    double left = *(const double *) a, right = *(const double *) b;
    return (left > right) - (left < right);
}

static void
measure_cell(Fixture *fixture, const char *code)
{
    enum { N = 2000 };
    static double times[N];
    for (int i = 0; i < N; i++) {
        gint64 start = g_get_monotonic_time();
        kernel_fixture_cell(fixture, code);
        times[i] = (double) (g_get_monotonic_time() - start);
    }
    qsort(times, N, sizeof *times, compare_doubles);
    g_test_message("cell %s: p50 %.0f us, p99 %.0f us, min %.0f us", code, times[N / 2],
                   times[N * 99 / 100], times[0]);
}

/* The interrupt can arrive before the kernel has read the cell. It must be repeated, or stopping
 * takes the full grace period. */
static void
test_stop_while_cell_starts(Fixture *fixture, const void *data)
{
    for (int i = 0; i < 5; i++) {
        kernel_fixture_cell(fixture, "import time");
        kernel_fixture_execute(fixture, "time.sleep(100000)");
        kernel_fixture_stop(fixture);
    }
}

static void
test_speed(Fixture *fixture, const void *data)
{
    gint64 start = g_get_monotonic_time();
    kernel_fixture_cell(fixture, "1");
    g_test_message("cold start to first result: %.0f ms",
                   (double) (g_get_monotonic_time() - start) / 1e3);
    for (int i = 0; i < 3; i++) {
        start = g_get_monotonic_time();
        ipb_kernel_reset(fixture->kernel);
        kernel_fixture_cell(fixture, "1");
        g_test_message("reset to first result: %.1f ms",
                       (double) (g_get_monotonic_time() - start) / 1e3);
    }
    for (int i = 0; i < 3; i++) {
        start = g_get_monotonic_time();
        kernel_fixture_cell(fixture, "import os; os._exit(1)");
        g_test_message("death to its report: %.1f ms",
                       (double) (g_get_monotonic_time() - start) / 1e3);
    }
    static const char *const codes[] = {"1", "x = 1", "print(1)"};
    for (size_t i = 0; i < G_N_ELEMENTS(codes); i++)
        measure_cell(fixture, codes[i]);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_autofree char *python = find_python();
    g_autofree char *check =
        g_strdup_printf("'%s' -c 'import IPython, pydantic' 2>/dev/null", python);
    if (system(check) != 0) {
        printf("1..0 # SKIP %s has no IPython and pydantic\n", python);
        return 0;
    }
    static const KernelFixtureOptions quick = {.interrupt_grace_ms = 500};
    static const KernelFixtureOptions patient = {.interrupt_grace_ms = 60 * 60 * 1000};
#define ADD(path, options, func)                                                                   \
    g_test_add("/kernel/real/" path, Fixture, options, set_up, func, kernel_fixture_tear_down)
    ADD("order", NULL, test_order);
    ADD("child-processes", NULL, test_child_processes);
    ADD("large-output", NULL, test_large_output);
    ADD("large-display", NULL, test_large_display);
    ADD("deaths", NULL, test_deaths);
    ADD("death-with-children", NULL, test_death_with_children);
    ADD("interrupts", NULL, test_interrupts);
    ADD("requests", NULL, test_requests);
    ADD("interrupt-ignored", &quick, test_interrupt_ignored);
    ADD("late-output", NULL, test_late_output);
    ADD("children", NULL, test_children);
    ADD("hidden-children", NULL, test_hidden_children);
    ADD("many-children", NULL, test_many_children);
    ADD("reset-and-stop", NULL, test_reset_and_stop);
    ADD("stop-while-cell-starts", &patient, test_stop_while_cell_starts);
    if (g_test_perf())
        ADD("speed", NULL, test_speed);
    return g_test_run();
}
