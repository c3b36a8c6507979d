/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbProgram: a verb that serves until somebody ends it: the main loop, the signals and the lifeline that end it, and the orderly end,
 * which may take 15 s. A plain struct, owned by value by the verb; zeroed is not open.
 *
 * SIGTERM, SIGHUP and, if the verb wants it, SIGINT begin the end; a signal that comes while it ends quits at once. Everything else that
 * ends a program (its client, standard input, the process that started it) begins the end and never hurries it.
 */
#pragma once

#include "cli/lifeline.h"
#include "cli/signals.h"

typedef struct {
    GMainLoop *main_loop;
    IpbLifeline *lifeline;
    IpbSignals *signals;
    guint end_timer;
    void (*close)(void *data);
    void *data;
    bool is_ending;
    int status; /* the exit status */
} IpbProgram;

/* Signals are caught from now on, and dispatched when it runs. @close, called once and not before it runs, closes what the verb has
 * opened, and calls ipb_program_quit when that is done. */
bool ipb_program_init(IpbProgram *program, bool ends_at_interrupt, void (*close)(void *data),
                      void *data, GError **error);
/* It ends with standard input, if that is a pipe or a socket, or with who started it; see cli/lifeline.h. */
bool ipb_program_hang_on_input(IpbProgram *program, IpbLoop *loop, GError **error);
bool ipb_program_hang_on_parent(IpbProgram *program, IpbLoop *loop, GError **error);
/* Runs the loop until it has ended. */
void ipb_program_run(IpbProgram *program);
/* Begins the end, for what serves a client: the client has gone, or @why it cannot be served any more, which is logged and a failure.
 * @program: an IpbProgram. */
void ipb_program_end(const GError *why, void *program);
/* The verb is closed. @program: an IpbProgram. */
void ipb_program_quit(void *program);
/* Before what the verb has opened is freed. */
void ipb_program_clear(IpbProgram *program);
