/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of kernels: a kernel, what it told as text, and the check that nothing is left behind.
 */
#pragma once

#include "kernel/native-kernel.h"

/* What the cause of a death ends in, where there was state. */
#define STATE_LOST "; its state is lost, the next cell runs in a fresh kernel"

typedef struct {
    IpbLoop *loop;
    IpbForkserver *forkserver;
    IpbKernel *kernel;
    GString *told; /* "started out(x) err(y) late(z) display(x) … done(ok)", one space between */
    int open_text; /* the event type of the text that "told" ends in, or -1 */
    unsigned n_done;
    unsigned n_ready;
    unsigned n_failed_starts;
    IpbCellStatus status; /* of the last cell */
    char *cause;          /* and its text */
    char *traceback;      /* of the last error */
    uint64_t n_bytes;     /* of text, with is_counting */
    bool is_counting;     /* do not keep the text */
    bool is_stopped;
    size_t n_fds;
    void (*on_event)(void *fixture, const IpbEvent *event);
} KernelFixture;

typedef struct {
    const char *mode; /* the fake forkserver's; NULL: "normal" */
    const char *python;
    const char *host_directory; /* NULL: the fake one */
    unsigned interrupt_grace_ms, init_timeout_ms, start_timeout_ms;
} KernelFixtureOptions;

/* @data: KernelFixtureOptions or NULL. */
void kernel_fixture_set_up(KernelFixture *fixture, const void *data);
void kernel_fixture_tear_down(KernelFixture *fixture, const void *data);
/* Also called by tear_down. */
void kernel_fixture_free_kernel(KernelFixture *fixture);

void kernel_fixture_run(KernelFixture *fixture); /* what can be done now, without waiting */
void kernel_fixture_wait_done(KernelFixture *fixture, unsigned n_done);
void kernel_fixture_wait_for(KernelFixture *fixture, const char *told);
/* Forgets what was told, runs a cell to its end, and returns what it told. */
const char *kernel_fixture_cell(KernelFixture *fixture, const char *code);
/* Asserts what it told. */
void kernel_fixture_assert_cell(KernelFixture *fixture, const char *code, const char *told);
/* The same of a cell that ends in a death. */
void kernel_fixture_assert_lost(KernelFixture *fixture, const char *code, const char *told,
                                const char *cause);
uint64_t kernel_fixture_execute(KernelFixture *fixture, const char *code);
/* Runs a cell of any kernel. */
uint64_t kernel_execute(IpbKernel *kernel, const char *code, GError **error);
void kernel_fixture_stop(KernelFixture *fixture);
pid_t kernel_fixture_pid(KernelFixture *fixture);

/* Waits until the process is gone (it is not this process' child). */
void kernel_fixture_wait_gone(pid_t pid);
size_t kernel_fixture_count_fds(void);
