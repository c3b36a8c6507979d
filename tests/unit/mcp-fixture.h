/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the MCP client: a client with what it reports, and calls that a test waits for.
 */
#pragma once

#include "mcp/client.h"

/* Enough for a server to start on any machine. */
#define PATIENT_CONNECT_MS (300 * 1000)
#define PATIENT_PROBE_MS (PATIENT_CONNECT_MS / 2)

typedef struct {
    IpbLoop *loop;
    IpbMcpClient *client;
    GString *log;   /* "level: text\n" for each line */
    GError *closed; /* of on_closed */
    unsigned n_closed, n_changed;
    unsigned connect_timeout_ms, call_timeout_ms;
    IpbMcpLimits limits;
    IpbLegacyServers *legacy_servers; /* borrowed */
    const char *cwd;
} Fixture;

typedef struct {
    unsigned n_ended; /* must never be more than 1 */
    IpbJsonDoc *document;
    const IpbJson *result;
    GError *error;
    GString *progress;         /* "progress/total message\n" for each */
    IpbMcpClient *free_client; /* freed in the callback */
} Answer;

void fixture_set_up(Fixture *fixture);
void fixture_tear_down(Fixture *fixture);
/* Adds a test that also fails if it leaves an fd open. */
void add_test(const char *path, void (*test)(void));
/* Makes a client for a stdio server, which is not connected. @args: NULL-terminated list. */
void fixture_start(Fixture *fixture, const char *command, const char *const *args);

/* A Python that runs without a wrapper. */
const char *find_python(void);
/* tests/scripted_server/scripted_server.py. */
const char *find_scripted_server(void);
/* As fixture_start, for the script "hostile" in up to two modes (NULL: none). */
void start_fake_in(Fixture *fixture, const char *mode, const char *other_mode);
void start_fake(Fixture *fixture, const char *mode);
/* As start_fake_in, for the script "modern". */
void start_modern(Fixture *fixture, const char *mode, const char *other_mode);
/* Sets up the fixture, starts the server and connects. */
void set_up_fake(Fixture *fixture, const char *mode);

void answer_clear(Answer *answer);
/* Pass these as functions, with an Answer as data. */
void on_answer(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data);
void on_answer_progress(const IpbMcpProgress *progress, void *data);
/* Runs the loop until the answer is there. */
void wait_for(Answer *answer);
/* Connects and expects success. */
void fixture_connect(Fixture *fixture);
/* Calls a tool and waits. For call_ok, the error must be NULL. */
void call(Fixture *fixture, const char *tool, const char *arguments, Answer *answer);
void call_ok(Fixture *fixture, const char *tool, const char *arguments, Answer *answer);
void list_tools(Fixture *fixture, Answer *answer);
/* The answer must be an error with this code whose message has this part. */
void assert_answer_error(const Answer *answer, int code, const char *part);
/* content[0].text of the result. */
const char *answer_text(const Answer *answer);
void close_and_wait(Fixture *fixture);
void wait_until_closed(Fixture *fixture);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Answer, answer_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fixture, fixture_tear_down)

#define g_assert_contains(text, part)                                                              \
    G_STMT_START                                                                                   \
    {                                                                                              \
        const char *text_ = (text);                                                                \
        if (text_ == NULL || strstr(text_, (part)) == NULL)                                        \
            g_error("%s:%d: \"%s\" is not in \"%s\"", __FILE__, __LINE__, (part),                  \
                    text_ == NULL ? "(null)" : text_);                                             \
    }                                                                                              \
    G_STMT_END
