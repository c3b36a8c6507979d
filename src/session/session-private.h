/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a session, shared by session.c, session-cells.c, session-install.c and session-jobs.c.
 */
#pragma once

#include "kernel/kernel.h"
#include "session/cell.h"
#include "session/install.h"
#include "session/sandboxing.h"
#include "session/session.h"
#include "tools/tool-channel.h"
#include "tools/tool-host.h"

/* A registration under way, until its server is gone. */
typedef struct IpbSessionJob IpbSessionJob;

struct IpbSession {
    IpbRuntime *runtime;
    IpbLoop *loop;
    char *workspace;
    char *working_dir; /* or NULL */
    bool approves_shell_cmds;
    char *images_dir;
    bool saves_no_images;
    char *overlay; /* of packages, or NULL */
    bool allows_builds;
    bool frees_servers;
    char **env;        /* the application's */
    char **server_env; /* what MCP servers, and ${NAME} in their parameters, get of it */
    unsigned connect_timeout_ms;
    void (*on_log)(const char *level, const char *text, void *data);
    IpbApprovalAskFunc on_approval;
    IpbApprovalWithdrawnFunc on_approval_withdrawn;
    void *data;

    IpbKernelProvider *kernel_provider;
    IpbEventFunc on_event;
    IpbKernel *kernel;
    IpbCell *current;
    GQueue waiting; /* IpbCell */
    uint64_t last_cell;
    unsigned n_holds;    /* of ipb_session_hold_cells: cells wait */
    GQueue kept_notices; /* char *: for the next cell */
    IpbTimer *start_timer;

    IpbApprovals *approvals;
    bool is_waiting_for_approval;
    bool has_logged_preload_failures;
    IpbToolHost *tool_host;
    IpbToolChannel *tool_channel;
    IpbToolRelay *tool_relay;  /* or NULL */
    IpbSandboxing *sandboxing; /* NULL: no sandbox */
    char **keep_out;           /* see sandbox-paths.h */

    GPtrArray *jobs; /* IpbSessionJob */
    uint64_t last_job;
    IpbInstall *install;
    IpbInstallOutputFunc on_install_output;
    IpbInstallFunc on_installed;
    void *install_data;
    uint64_t own_install_call; /* the tool call that asked for it; 0: none did */

    bool is_closing;
    unsigned n_closing; /* parts that are not closed yet */
    void (*closed)(void *data);
    void *closed_data;
};

void ipb_session_log(IpbSession *session, const char *level, const char *text);
/* Cells (session-cells.c). */
void ipb_session_on_kernel_event(const IpbEvent *event, void *data);
void ipb_session_on_approval_wait(bool is_waiting, void *data);
/* What code in the sandbox was denied: to the log, and with the cell that runs. */
void ipb_session_tell_violation(IpbSession *session, const char *text);
void ipb_session_drop_waiting_cells(IpbSession *session, const char *why);

/* Installing at a cell's request (session-install.c): the tool of our own. */
void ipb_session_on_own_call(uint64_t call, const char *tool_name, const char *arguments,
                             size_t size, void *data);
void ipb_session_on_own_cancel(uint64_t call, void *data);

/* Jobs (session-jobs.c). */
/* Cancels registrations and the installation; adds to n_closing what must end first. */
void ipb_session_close_jobs(IpbSession *session);
void ipb_session_part_closed(IpbSession *session);
void ipb_session_job_free(IpbSessionJob *job);
