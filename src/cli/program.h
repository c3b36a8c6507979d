/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbProgram: a verb that serves until it is ended. It has the main loop, watches for what ends it,
 * and closes in order, which may take 15 s. A plain struct, which the verb keeps as a variable; if
 * all of its bytes are zero, it is not open.
 *
 * SIGTERM, SIGHUP and, if the verb wants it, SIGINT begin to close it. A further signal ends it at
 * once. Everything else that ends a program (its client, standard input, the process that started
 * it) begins to close it, and never ends it at once.
 */
#pragma once

#include "base/loop.h"
#include "cli/signals.h"

typedef struct {
    GMainLoop *main_loop;
    IpbSignals *signals;
    int input;  /* a duplicate of standard input; -1: not watched */
    int parent; /* pidfd of the process that started it; -1: not watched */
    IpbWatch *input_watch, *parent_watch;
    guint end_timer;
    void (*close)(void *data);
    void (*reload)(void *data); /* NULL: SIGHUP ends it */
    bool has_terminal;          /* standard input is, or was, one */
    void *data;
    bool is_ending;
    int status; /* the exit status */
} IpbProgram;

/* Signals are blocked from now on and handled while the program runs. @close is called once, while
 * it runs. It closes what the verb has opened, and calls ipb_program_quit() when that is done. */
bool ipb_program_init(IpbProgram *program, bool ends_at_interrupt, void (*close)(void *data),
                      void *data, GError **error);
/* SIGHUP calls @reload from now on, with the data of @close, until the program begins to close. If
 * the terminal is gone from which it was started, SIGHUP ends it as before. */
void ipb_program_reload_with_hangup(IpbProgram *program, void (*reload)(void *data));
/* For a server that a program started for itself. It ends when standard input ends, if that is a
 * pipe or a socket, or when the process that started it ends: a child that this process forked may
 * hold the pipe open. A server started from a terminal, by an init or with /dev/null runs until a
 * signal ends it. */
bool ipb_program_end_with_input(IpbProgram *program, IpbLoop *loop, GError **error);
/* It ends when the process that started it ends. The verb reads standard input itself. */
bool ipb_program_end_with_parent(IpbProgram *program, IpbLoop *loop, GError **error);
/* Runs the main loop until the program has ended. */
void ipb_program_run(IpbProgram *program);
/* Begins to close the program, because its client has disconnected or, with @why, cannot be served
 * any more. @why is logged, and makes the exit status a failure. @program: an IpbProgram. */
void ipb_program_end(const GError *why, void *program);
/* The verb is closed. @program: an IpbProgram. */
void ipb_program_quit(void *program);
/* Call it before what the verb has opened is freed. */
void ipb_program_clear(IpbProgram *program);
