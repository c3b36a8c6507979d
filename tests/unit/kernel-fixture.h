/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixture for tests of kernels. It runs a kernel and records its events as text. After each test
 * it checks that no process and no file descriptor is left.
 */
#pragma once

#include "kernel/native-kernel.h"

/* The end of the message for a kernel's death, if the kernel had state to lose. */
#define STATE_LOST "; its state is lost, the next cell runs in a fresh kernel"

typedef struct {
    IpbLoop *loop;
    IpbForkserver *forkserver;
    IpbKernel *kernel;
    GString *trace; /* the events: " started out(x) err(y) late(z) display(x) … done(ok)" */
    GString *late;  /* the late events, with their cells: " 0:out(x) 3:display(y)" */
    int open_text;  /* the event type, if the trace ends in text, else -1 */
    unsigned n_done;
    unsigned n_ready;
    unsigned n_failed_starts;
    unsigned n_died;
    IpbCellStatus status; /* of the last cell */
    char *cause;          /* text of its done event */
    char *traceback;      /* of the last error */
    uint64_t n_bytes;     /* size of all text, if is_counting */
    bool is_counting;     /* count the text instead of recording it */
    bool is_stopped;
    size_t n_fds;
    void (*on_event)(void *fixture, const IpbEvent *event);
} KernelFixture;

typedef struct {
    const char *mode; /* of the fake forkserver; NULL: "normal" */
    const char *python;
    const char *host_directory; /* NULL: that of the fake forkserver */
    unsigned interrupt_grace_ms, init_timeout_ms, start_timeout_ms;
    bool has_rich_client;
} KernelFixtureOptions;

/* @data: KernelFixtureOptions, or NULL. */
void kernel_fixture_set_up(KernelFixture *fixture, const void *data);
void kernel_fixture_tear_down(KernelFixture *fixture, const void *data);
/* Also called by tear_down. */
void kernel_fixture_free_kernel(KernelFixture *fixture);

/* Runs everything that is pending in the main loop, without waiting. */
void kernel_fixture_run(KernelFixture *fixture);
void kernel_fixture_wait_done(KernelFixture *fixture, unsigned n_done);
/* Waits until the trace contains @text. */
void kernel_fixture_wait_for(KernelFixture *fixture, const char *text);
/* Clears the trace, runs a cell to its end, and returns the trace of the cell. */
const char *kernel_fixture_cell(KernelFixture *fixture, const char *code);
/* Runs a cell and asserts its trace. */
void kernel_fixture_assert_cell(KernelFixture *fixture, const char *code, const char *trace);
/* The same, for a cell in which the kernel dies. @cause: the text of its done event. */
void kernel_fixture_assert_lost(KernelFixture *fixture, const char *code, const char *trace,
                                const char *cause);
uint64_t kernel_fixture_execute(KernelFixture *fixture, const char *code);
/* Runs a cell of any kernel. */
uint64_t kernel_execute(IpbKernel *kernel, const char *code, GError **error);
void kernel_fixture_stop(KernelFixture *fixture);
pid_t kernel_fixture_pid(KernelFixture *fixture);

/* Waits until the process, which is not a child of this process, has ended. */
void kernel_fixture_wait_gone(pid_t pid);
size_t kernel_fixture_count_fds(void);
