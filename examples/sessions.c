/* SPDX-License-Identifier: Apache-2.0
 *
 * Many sessions at once, in one thread. Each has its own kernel with its own state. The cells of
 * a session run in order, those of several sessions in parallel.
 *
 *     cc -o sessions sessions.c $(pkg-config --cflags --libs ipybox)
 *     ./sessions [NUMBER]
 */
#include <stdio.h>
#include <stdlib.h>

#include <ipybox/ipybox.h>

typedef struct {
    GMainLoop *loop;
    int n_open;
    long sum;
    int status; /* of this program */
} Program;

typedef struct {
    Program *program;
    IpyboxSession *session;
} Worker;

static void
complain(Program *program, GError *error)
{
    fprintf(stderr, "sessions: %s\n", error->message);
    g_error_free(error);
    program->status = 1;
}

static void
on_closed(GObject *source, GAsyncResult *result, gpointer user_data)
{
    Worker *worker = user_data;
    Program *program = worker->program;
    GError *error = NULL;
    (void) source;
    if (!ipybox_session_close_finish(worker->session, result, &error))
        complain(program, error);
    ipybox_session_free(worker->session);
    g_free(worker);
    if (--program->n_open == 0)
        g_main_loop_quit(program->loop);
}

static void
on_computed(GObject *source, GAsyncResult *result, gpointer user_data)
{
    Worker *worker = user_data;
    GError *error = NULL;
    (void) source;
    g_autoptr(IpyboxResult) computed =
        ipybox_session_execute_finish(worker->session, result, &error);
    if (computed == NULL || !ipybox_result_check(computed, &error))
        complain(worker->program, error);
    else
        worker->program->sum += strtol(ipybox_result_get_text(computed), NULL, 10);
    ipybox_session_close_async(worker->session, on_closed, worker);
}

/* All cells are requested at once: each waits for its turn. */
static gboolean
start_worker(Program *program, IpyboxRuntime *runtime, int number, GError **error)
{
    IpyboxSession *session = ipybox_session_new(runtime, NULL, error);
    if (session == NULL)
        return FALSE;
    Worker *worker = g_new(Worker, 1);
    *worker = (Worker){program, session};
    program->n_open++;
    g_autofree char *code = g_strdup_printf("x = %d", number);
    ipybox_session_execute_async(session, code, NULL, NULL, NULL, NULL);
    ipybox_session_execute_async(session, "x *= x", NULL, NULL, NULL, NULL);
    ipybox_session_execute_async(session, "x", NULL, NULL, on_computed, worker);
    return TRUE;
}

int
main(int argc, char **argv)
{
    int n_sessions = argc > 1 ? atoi(argv[1]) : 10;
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    Program program = {.loop = loop};
    GError *error = NULL;
    g_autoptr(IpyboxRuntime) runtime = ipybox_runtime_new(NULL, &error);
    for (int i = 1; error == NULL && i <= n_sessions; i++)
        start_worker(&program, runtime, i, &error);
    if (program.n_open > 0)
        g_main_loop_run(loop);
    if (error == NULL)
        ipybox_runtime_close(runtime, &error);
    if (error != NULL)
        complain(&program, error);
    else
        printf("%d sessions computed %ld\n", n_sessions, program.sum);
    return program.status;
}
