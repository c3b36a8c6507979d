/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a verb that serves; see the header.
 */
#include "cli/program.h"

#include <signal.h>

#include "cli/cli.h"

#define END_TIMEOUT_MS 15000

void
ipb_program_quit(void *data)
{
    IpbProgram *program = data;
    if (program->main_loop != NULL) /* NULL: cleared, and what is freed now still has its say */
        g_main_loop_quit(program->main_loop);
}

/* --- what ends it ------------------------------------------------------------------------------ */

static gboolean
on_end_timeout(gpointer data)
{
    IpbProgram *program = data;
    program->end_timer = 0;
    g_main_loop_quit(program->main_loop);
    return G_SOURCE_REMOVE;
}

static void
end(IpbProgram *program)
{
    if (program->is_ending)
        return;
    program->is_ending = true;
    program->end_timer = g_timeout_add(END_TIMEOUT_MS, on_end_timeout, program);
    program->close(program->data);
}

static void
on_signal(int number, void *data)
{
    IpbProgram *program = data;
    if (program->is_ending)
        g_main_loop_quit(program->main_loop);
    end(program);
}

static void
on_lifeline_end(void *data)
{
    end(data);
}

void
ipb_program_end(const GError *why, void *data)
{
    IpbProgram *program = data;
    if (program->main_loop == NULL) /* as above */
        return;
    if (why != NULL) {
        ipb_cli_log("ERROR", why->message, NULL);
        program->status = IPB_EXIT_FAILED;
    }
    end(program);
}

/* --- life -------------------------------------------------------------------------------------- */

bool
ipb_program_init(IpbProgram *program, bool ends_at_interrupt, void (*close)(void *data), void *data,
                 GError **error)
{
    static const int NUMBERS[] = {SIGTERM, SIGHUP, SIGINT};
    *program = (IpbProgram){
        .main_loop = g_main_loop_new(NULL, FALSE),
        .close = close,
        .data = data,
    };
    program->signals =
        ipb_signals_new(NUMBERS, ends_at_interrupt ? 3 : 2, on_signal, program, error);
    return program->signals != NULL;
}

bool
ipb_program_hang_on_input(IpbProgram *program, IpbLoop *loop, GError **error)
{
    program->lifeline = ipb_lifeline_new(loop, on_lifeline_end, program, error);
    return program->lifeline != NULL;
}

bool
ipb_program_hang_on_parent(IpbProgram *program, IpbLoop *loop, GError **error)
{
    program->lifeline = ipb_lifeline_new_of_parent(loop, on_lifeline_end, program, error);
    return program->lifeline != NULL;
}

void
ipb_program_run(IpbProgram *program)
{
    g_main_loop_run(program->main_loop);
}

void
ipb_program_clear(IpbProgram *program)
{
    g_clear_pointer(&program->signals, ipb_signals_free);
    g_clear_handle_id(&program->end_timer, g_source_remove);
    g_clear_pointer(&program->lifeline, ipb_lifeline_free);
    g_clear_pointer(&program->main_loop, g_main_loop_unref);
}
