/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApiClient: a verb that uses libipybox as any program may: main loop, runtime and session, and their orderly end. A plain struct,
 * owned by value by the verb; zeroed is not open.
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

/* Opens the runtime; false with @error, and then _clear is still to be called. */
bool ipb_api_client_open(IpbApiClient *client, const IpyboxRuntimeOptions *options, GError **error);
/* Runs the loop until _end is through. */
void ipb_api_client_run(IpbApiClient *client);
/* Closes session and runtime in order, for at most 15 s; a second call ends the loop at once. */
void ipb_api_client_end(IpbApiClient *client);
/* Frees everything; what an orderly end has not ended is killed. */
void ipb_api_client_clear(IpbApiClient *client);

/* The log of a session, on stderr. */
void ipb_api_client_log(IpyboxSession *session, const char *level, const char *text, gpointer data);
