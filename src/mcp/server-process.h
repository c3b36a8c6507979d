/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServerProcess: the process of a stdio server. It is a child of ours, or a command in a sandbox
 * if the parameters ask for one. If the command `srt` is not installed, `ipybox sandbox` runs
 * instead.
 *
 * Ownership: the owner frees it, in on_exit too. That kills what is left.
 */
#pragma once

#include "base/loop.h"
#include "mcp/server-params.h"
#include "mcp/server-log.h"

typedef struct IpbServerProcess IpbServerProcess;

typedef struct {
    const IpbServerParams *params; /* expanded */
    /* If the parameters have none. Relative paths of a sandbox start here, too. NULL: ours */
    const char *cwd;
    const char *const *env;
    const char *state_dir;       /* our state, which a sandbox cannot see; NULL: the user's */
    const char *const *keep_out; /* see client.h */
    int stdin_fd, stdout_fd, stderr_fd; /* borrowed */
    IpbServerLog *log;                  /* gets the denials of a sandbox */
} IpbServerProcessOptions;

/* Called once, when the process was reaped. @error: it could not be started. */
typedef void (*IpbServerExitFunc)(IpbServerProcess *process, int wait_status, const GError *error,
                                  void *data);

/* Errors: NOT_FOUND (the command), INVALID, UNAVAILABLE (no sandbox is possible here), SYSTEM. */
IpbServerProcess *ipb_server_process_new(IpbLoop *loop, const IpbServerProcessOptions *options,
                                         IpbServerExitFunc on_exit, void *data, GError **error);
bool ipb_server_process_is_running(const IpbServerProcess *process);
/* Waits @grace_ms, sends SIGTERM, waits @grace_ms more and sends SIGKILL, to all of it. on_exit
 * reports the end. */
void ipb_server_process_stop(IpbServerProcess *process, unsigned grace_ms);
void ipb_server_process_free(IpbServerProcess *process);
