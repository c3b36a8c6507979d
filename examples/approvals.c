/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks before each tool call, without blocking. It registers the MCP server mail_server.py, runs
 * a cell that calls its tool twice, and reads the answers, y or n, from standard input.
 * Generated files stay in ./approvals-workspace.
 *
 *     cc -o approvals approvals.c $(pkg-config --cflags --libs ipybox)
 *     ./approvals
 */
#include <stdio.h>

#include <ipybox/ipybox.h>

#define WORKSPACE "approvals-workspace"

static const char SERVER[] = "{\"command\": \"python3\", \"args\": [\"%s\"]}";
static const char CELL[] = "from mcptools.mail import send_mail\n"
                           "for to in ['ada@example.org', 'everybody@example.org']:\n"
                           "    try:\n"
                           "        print(send_mail.run(send_mail.Params(to=to, text='hello')))\n"
                           "    except Exception as error:\n"
                           "        print(f'{type(error).__name__}: {error}')\n";

typedef struct {
    GMainLoop *loop;
    IpyboxRuntime *runtime;
    IpyboxSession *session;
    GIOChannel *input;
    guint watch;   /* of the input, while a question is on the screen; else 0 */
    GQueue *asked; /* IpyboxApproval; the head is the one on the screen */
    int status;
} Program;

static void
complain(Program *program, GError *error)
{
    fprintf(stderr, "approvals: %s\n", error->message);
    g_error_free(error);
    program->status = 1;
}

/* --- questions and answers ------------------------------------------------------------------- */

static void ask(Program *program);

/* The end of the input counts as no. */
static gboolean
on_input(GIOChannel *input, GIOCondition condition, gpointer user_data)
{
    Program *program = user_data;
    g_autofree char *line = NULL;
    g_autoptr(IpyboxApproval) approval = g_queue_pop_head(program->asked);
    (void) condition;
    program->watch = 0;
    g_io_channel_read_line(input, &line, NULL, NULL, NULL);
    gboolean accept = line != NULL && line[0] == 'y';
    puts(accept ? "yes" : "no");
    ipybox_approval_respond(approval, accept);
    ask(program);
    return G_SOURCE_REMOVE;
}

/* Shows the first question and waits for its answer, if it is not on the screen already. */
static void
ask(Program *program)
{
    IpyboxApproval *approval = g_queue_peek_head(program->asked);
    if (approval == NULL || program->watch != 0)
        return;
    printf("%s\nMay it run? [y/n] ", ipybox_approval_get_question(approval));
    fflush(stdout);
    program->watch = g_io_add_watch(program->input, G_IO_IN | G_IO_HUP, on_input, program);
}

static void
on_approval(IpyboxSession *session, IpyboxApproval *approval, gpointer user_data)
{
    Program *program = user_data;
    (void) session;
    if (ipybox_approval_get_question(approval) == NULL) { /* too long to be read */
        ipybox_approval_respond(approval, FALSE);
        return;
    }
    g_queue_push_tail(program->asked, ipybox_approval_ref(approval));
    ask(program);
}

/* A question was withdrawn, for example because its cell was interrupted: it leaves the screen. */
static void
on_withdrawn(IpyboxSession *session, IpyboxApproval *approval, gpointer user_data)
{
    Program *program = user_data;
    (void) session;
    if (g_queue_peek_head(program->asked) == approval) {
        puts("(no longer asked)");
        g_source_remove(program->watch);
        program->watch = 0;
    }
    if (g_queue_remove(program->asked, approval))
        ipybox_approval_unref(approval);
    ask(program);
}

/* --- one step after the other ---------------------------------------------------------------- */

static void
on_closed(GObject *source, GAsyncResult *result, gpointer user_data)
{
    Program *program = user_data;
    GError *error = NULL;
    (void) source;
    if (!ipybox_runtime_close_finish(program->runtime, result, &error))
        complain(program, error);
    g_main_loop_quit(program->loop);
}

static void
on_executed(GObject *source, GAsyncResult *result, gpointer user_data)
{
    Program *program = user_data;
    GError *error = NULL;
    (void) source;
    g_autoptr(IpyboxResult) cell = ipybox_session_execute_finish(program->session, result, &error);
    if (cell == NULL || !ipybox_result_check(cell, &error))
        complain(program, error);
    ipybox_runtime_close_async(program->runtime, on_closed, program); /* closes the session, too */
}

static void
on_event(IpyboxSession *session, const IpyboxEvent *event, gpointer user_data)
{
    (void) session;
    (void) user_data;
    if (ipybox_event_get_type(event) == IPYBOX_EVENT_STDOUT)
        fputs(ipybox_event_get_text(event), stdout);
}

static void
on_registered(GObject *source, GAsyncResult *result, gpointer user_data)
{
    Program *program = user_data;
    GError *error = NULL;
    (void) source;
    g_auto(GStrv) modules = ipybox_session_register_finish(program->session, result, &error);
    if (modules == NULL) {
        complain(program, error);
        ipybox_runtime_close_async(program->runtime, on_closed, program);
        return;
    }
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_event;
    ipybox_session_execute_async(program->session, CELL, &options, NULL, on_executed, program);
}

static gboolean
start(Program *program, const char *script, GError **error)
{
    IpyboxRuntimeOptions runtime = IPYBOX_RUNTIME_OPTIONS_INIT;
    runtime.state_dir = WORKSPACE "/.state"; /* apart from the user's own servers */
    program->runtime = ipybox_runtime_new(&runtime, error);
    if (program->runtime == NULL)
        return FALSE;
    IpyboxSessionOptions session = IPYBOX_SESSION_OPTIONS_INIT;
    session.workspace = WORKSPACE;
    session.on_approval = on_approval;
    session.on_withdrawn = on_withdrawn;
    session.user_data = program;
    program->session = ipybox_session_new(program->runtime, &session, error);
    if (program->session == NULL)
        return FALSE;
    g_autofree char *path = g_canonicalize_filename(script, NULL);
    g_autofree char *params = g_strdup_printf(SERVER, path);
    ipybox_session_register_async(program->session, "mail", params, NULL, NULL, on_registered,
                                  program);
    return TRUE;
}

int
main(int argc, char **argv)
{
    Program program = {.loop = g_main_loop_new(NULL, FALSE), .asked = g_queue_new()};
    GError *error = NULL;
    g_mkdir_with_parents(WORKSPACE, 0755);
    program.input = g_io_channel_unix_new(0);
    if (start(&program, argc > 1 ? argv[1] : "mail_server.py", &error))
        g_main_loop_run(program.loop);
    else
        complain(&program, error);
    ipybox_session_free(program.session);
    ipybox_runtime_free(program.runtime);
    g_io_channel_unref(program.input);
    g_queue_free_full(program.asked, (GDestroyNotify) ipybox_approval_unref);
    g_main_loop_unref(program.loop);
    return program.status;
}
