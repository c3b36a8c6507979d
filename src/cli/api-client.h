/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApiClient: a verb that uses the public API of libipybox as any program may. It has the main
 * loop, the runtime and the session, and closes them in order. A plain struct, which the verb keeps
 * as a variable. If all of its bytes are zero, it is not open.
 */
#pragma once

#include <stdbool.h>

#include <ipybox/ipybox.h>

typedef struct {
    GMainLoop *main_loop;
    IpyboxRuntime *runtime;
    IpyboxSession *session;
    bool is_ending;
    int status; /* the exit status */
} IpbApiClient;

/* Opens the runtime. Call _clear also if this returns false. */
bool ipb_api_client_open(IpbApiClient *client, const IpyboxRuntimeOptions *options, GError **error);
/* Runs the main loop until _end has finished. */
void ipb_api_client_run(IpbApiClient *client);
/* Closes the session and the runtime in order, in at most 15 s. A second call ends the loop at
 * once. */
void ipb_api_client_end(IpbApiClient *client);
/* Frees everything, and kills what is not closed. */
void ipb_api_client_clear(IpbApiClient *client);

/* Writes the log of a session to stderr. */
void ipb_api_client_log(IpyboxSession *session, const char *level, const char *text, gpointer data);
