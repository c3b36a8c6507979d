/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of the library, which use it as any program does: linked to libipybox.so, by its
 * public headers.
 */
#pragma once

#include <stdbool.h>

#include <ipybox/ipybox.h>

typedef struct {
    char *place;     /* a directory of the test's own */
    char *workspace; /* in it */
    char *state;     /* likewise; there when something is registered */
    IpyboxRuntime *runtime;
    IpyboxSession *session;
} Fixture;

/* What one asynchronous call gave. */
typedef struct {
    GAsyncResult *result;
    unsigned n_told;
} Answer;

/* A runtime with the project's Python, in @context (NULL: default), and a session that asks no
 * one. */
void fixture_set_up(Fixture *fixture, GMainContext *context);
void fixture_tear_down(Fixture *fixture);
IpyboxRuntime *new_runtime(const char *state_dir, GMainContext *context);
/* Options for a session in the fixture's workspace. */
IpyboxSessionOptions session_options(const Fixture *fixture);
IpyboxSession *new_session(Fixture *fixture, const IpyboxSessionOptions *options);

/* Runs a cell that ends with @status; the result is the caller's. */
IpyboxResult *run(IpyboxSession *session, const char *code, IpyboxStatus status);
void assert_prints(IpyboxSession *session, const char *code, const char *text);

/* Parameters of the fake MCP server in @mode ("": none); caller frees. */
char *fake_server_params(const char *mode);
/* Registers it as "fake". */
void register_fake_server(IpyboxSession *session);
/* A cell that calls its tool; caller frees. */
char *call_tool(const char *tool);

/* The callback of asynchronous calls, with an Answer as data. */
void on_answer(GObject *source, GAsyncResult *result, gpointer data);
void wait_for(const Answer *answer);
void answer_clear(Answer *answer);
/* Adds a test that fails also if it leaves an fd or a child process. */
void add_test(const char *path, void (*test)(void));

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Answer, answer_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fixture, fixture_tear_down)
