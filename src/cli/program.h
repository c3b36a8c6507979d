/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbProgram: a verb that has a session: loop, runtime and session, and their orderly end. A plain struct, owned by value
 * by the verb; zeroed is not open.
 */
#pragma once

#include "session/session.h"

typedef struct {
    GMainLoop *main_loop;
    IpbRuntime *runtime;
    IpbSession *session;
    IpbTimer *end_timer;
    bool is_ending;
    int status; /* the exit status */
} IpbProgram;

/* Opens the runtime; false with @error, and then _clear is still to be called. */
bool ipb_program_open(IpbProgram *program, const IpbRuntimeOptions *options, GError **error);
/* Opens the session, which may call what is registered in its workspace. */
bool ipb_program_open_session(IpbProgram *program, const IpbSessionOptions *options,
                              GError **error);
/* Runs the loop until _end is through. */
void ipb_program_run(IpbProgram *program);
/* Closes session and runtime in order, for at most 15 s; a second call ends the loop at once. */
void ipb_program_end(IpbProgram *program);
/* Frees everything; what an orderly end has not ended is killed. */
void ipb_program_clear(IpbProgram *program);
