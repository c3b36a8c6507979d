/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbServerProcess: the process of a stdio server: a child of ours, or, when its parameters ask for it, a command in a sandbox. The
 * command `srt`, where it is not installed, is `ipybox sandbox`.
 *
 * Ownership: the owner frees it, from on_exit too, which kills what is left.
 */
#pragma once

#include "base/loop.h"
#include "mcp/server-params.h"
#include "mcp/server-log.h"

typedef struct IpbServerProcess IpbServerProcess;

typedef struct {
    const IpbServerParams *params; /* expanded */
    /* If the parameters have none, and where relative paths of a sandbox start; NULL: ours */
    const char *cwd;
    const char *const *env;
    const char *state_dir;              /* of ours, out of reach of a sandbox; NULL: the user's */
    const char *const *keep_out;        /* see client.h */
    int stdin_fd, stdout_fd, stderr_fd; /* borrowed */
    IpbServerLog *log;                  /* gets what a sandbox denied */
} IpbServerProcessOptions;

/* Once: it has ended, and was reaped. @error: it could not be started after all. */
typedef void (*IpbServerExitFunc)(IpbServerProcess *process, int wait_status, const GError *error,
                                  void *data);

/* Errors: NOT_FOUND (the command), INVALID, UNAVAILABLE (no sandbox is possible here), SYSTEM. */
IpbServerProcess *ipb_server_process_new(IpbLoop *loop, const IpbServerProcessOptions *options,
                                         IpbServerExitFunc on_exit, void *data, GError **error);
bool ipb_server_process_is_running(const IpbServerProcess *process);
/* The ladder: waits @grace_ms, SIGTERM, @grace_ms more, SIGKILL, to all of it. on_exit tells the end. */
void ipb_server_process_stop(IpbServerProcess *process, unsigned grace_ms);
void ipb_server_process_free(IpbServerProcess *process);
