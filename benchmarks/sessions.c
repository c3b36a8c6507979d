/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens many sessions in one program, for compare.py and many_sessions.py. A line "new" on stdin
 * opens a session in the current directory, runs the cell `1` in it, and prints the seconds that
 * this took. A line "cells" runs the cell in each session, one after the other, and prints the
 * seconds of all. The end of stdin closes all sessions.
 *
 * usage: bench-sessions [--sandbox] [--python PYTHON]
 */
#include "base/error.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_TIMEOUT_MS 60000

typedef struct {
    GMainLoop *loop;
    IpbRuntime *runtime;
    GPtrArray *sessions;
    bool is_sandboxed;
    IpbCellStatus status; /* of the last cell, and what happened unless it is OK or ERROR */
    char *reason;
} Program;

static void
on_event(const IpbEvent *event, void *data)
{
    Program *program = data;
    if (event->type != IPB_EVENT_DONE)
        return;
    program->status = event->status;
    g_free(program->reason);
    program->reason = g_strdup(event->text);
    g_main_loop_quit(program->loop);
}

static void
on_closed(void *data)
{
    g_main_loop_quit(data);
}

static bool
run_cell(Program *program, IpbSession *session, GError **error)
{
    if (!ipb_session_execute(session, "1", CELL_TIMEOUT_MS, on_event, program, error))
        return false;
    g_main_loop_run(program->loop);
    if (program->status == IPB_CELL_OK)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, "the cell of session %u: %s",
                program->sessions->len, program->reason ? program->reason : "an error");
    return false;
}

static bool
open_session(Program *program, GError **error)
{
    IpbSessionOptions options = {
        .approval = IPB_APPROVAL_ALLOW,
        .approval_timeout_ms = -1,
        .is_sandboxed = program->is_sandboxed,
    };
    IpbSession *session = ipb_session_new(program->runtime, &options, error);
    if (!session)
        return false;
    g_ptr_array_add(program->sessions, session);
    return run_cell(program, session, error);
}

static bool
run_cells(Program *program, GError **error)
{
    for (guint i = 0; i < program->sessions->len; i++)
        if (!run_cell(program, program->sessions->pdata[i], error))
            return false;
    return true;
}

static bool
obey(Program *program, const char *line, GError **error)
{
    int64_t start_us = g_get_monotonic_time();
    bool is_new = strcmp(line, "new\n") == 0;
    if (!is_new && strcmp(line, "cells\n") != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "neither \"new\" nor \"cells\": %s",
                    line);
        return false;
    }
    if (!(is_new ? open_session(program, error) : run_cells(program, error)))
        return false;
    printf("%.6f\n", (double) (g_get_monotonic_time() - start_us) / 1e6);
    fflush(stdout);
    return true;
}

static void
close_all(Program *program)
{
    for (guint i = 0; i < program->sessions->len; i++) {
        IpbSession *session = program->sessions->pdata[i];
        ipb_session_close(session, on_closed, program->loop);
        g_main_loop_run(program->loop);
        ipb_session_free(session);
    }
    ipb_runtime_stop(program->runtime, on_closed, program->loop);
    g_main_loop_run(program->loop);
}

int
main(int argc, char **argv)
{
    IpbRuntimeOptions options = {0};
    bool is_sandboxed = argc > 1 && strcmp(argv[1], "--sandbox") == 0;
    if (argc == 3 + is_sandboxed && strcmp(argv[1 + is_sandboxed], "--python") == 0)
        options.python = argv[2 + is_sandboxed];

    g_autoptr(GError) error = NULL;
    g_autoptr(IpbRuntime) runtime = ipb_runtime_new(NULL, &options, &error);
    if (!runtime) {
        fprintf(stderr, "bench-sessions: %s\n", error->message);
        return EXIT_FAILURE;
    }
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, false);
    g_autoptr(GPtrArray) sessions = g_ptr_array_new();
    Program program = {
        .loop = loop, .runtime = runtime, .sessions = sessions, .is_sandboxed = is_sandboxed};

    bool is_ok = true;
    char line[16];
    while (is_ok && fgets(line, sizeof line, stdin))
        is_ok = obey(&program, line, &error);
    if (!is_ok)
        fprintf(stderr, "bench-sessions: %s\n", error->message);
    close_all(&program);
    g_free(program.reason);
    return is_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
