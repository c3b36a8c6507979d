/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a verb that has a session; see the header.
 */
#include "cli/program.h"

#include "session/workspace.h"

#define END_TIMEOUT_MS 15000

bool
ipb_program_open(IpbProgram *program, const IpbRuntimeOptions *options, GError **error)
{
    program->main_loop = g_main_loop_new(NULL, FALSE);
    program->runtime = ipb_runtime_new(NULL, options, error);
    return program->runtime != NULL;
}

bool
ipb_program_open_session(IpbProgram *program, const IpbSessionOptions *options, GError **error)
{
    program->session = ipb_session_new(program->runtime, options, error);
    return program->session != NULL && ipb_workspace_allow_registered(program->session, error);
}

void
ipb_program_run(IpbProgram *program)
{
    g_main_loop_run(program->main_loop);
}

static void
on_quit(void *data)
{
    IpbProgram *program = data;
    g_main_loop_quit(program->main_loop);
}

static void
on_session_closed(void *data)
{
    IpbProgram *program = data;
    ipb_runtime_stop(program->runtime, on_quit, program);
}

void
ipb_program_end(IpbProgram *program)
{
    if (program->is_ending) {
        g_main_loop_quit(program->main_loop);
        return;
    }
    program->is_ending = true;
    program->end_timer =
        ipb_timer_new(ipb_runtime_loop(program->runtime), END_TIMEOUT_MS, on_quit, program);
    ipb_session_close(program->session, on_session_closed, program);
}

void
ipb_program_clear(IpbProgram *program)
{
    g_clear_pointer(&program->end_timer, ipb_timer_free);
    g_clear_pointer(&program->session, ipb_session_free);
    g_clear_pointer(&program->runtime, ipb_runtime_unref);
    g_clear_pointer(&program->main_loop, g_main_loop_unref);
}
