/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by forkserver.c (the process and its control socket) and forks.c (what was asked of it).
 */
#pragma once

#include "base/buffer.h"
#include "base/child.h"
#include "kernel/control.h"
#include "kernel/forkserver.h"

typedef enum {
    IPB_FORKSERVER_STOPPED,
    IPB_FORKSERVER_STARTING,
    IPB_FORKSERVER_READY,
    IPB_FORKSERVER_STOPPING,
} IpbForkserverState;

struct IpbForkserver {
    int references;
    IpbLoop *loop;
    char *python, *script, *stub_directory, *entrance;
    char **preload;
    char **env; /* of the process; kept, since another thread may change ours later */
    unsigned start_timeout_ms;
    IpbForkserverState state;
    /* The process: from STARTING to STOPPING. */
    IpbChild *child;
    int control_fd;
    IpbWatch *control_watch;
    int output_fd; /* read end of its stdout and stderr */
    IpbWatch *output_watch;
    IpbBuffer output; /* the last of it */
    IpbTimer *start_timer;
    GError *failure; /* why it will end, if that is known before */
    char **preload_failures;
    /* Forks, see forks.c. */
    GHashTable *forks; /* int64_t id → IpbFork: all that have not ended */
    GQueue waiting;    /* IDs (int64_t *) of forks to ask for */
    GQueue kills;      /* IDs of forks to kill */
    IpbTimer *failing_timer;
    int64_t last_id;
    /* Those who wait for stop. */
    GQueue stop_waiters;
    IpbTimer *stopped_timer;
};

/* The cause of a kernel's death when the forkserver was asked to end. */
#define IPB_CAUSE_STOPPED "stopped with the forkserver"

/* Asks for what waits, as far as the control socket takes it. */
void ipb_forks_flush(IpbForkserver *forkserver);
/* Packets that tell of a fork. *@pidfd is taken. */
void ipb_forks_on_packet(IpbForkserver *forkserver, const IpbControlMessage *message, int *pidfd);
/* Forks that do not run yet fail with @error, told from the loop. */
void ipb_forks_fail(IpbForkserver *forkserver, const GError *error);
/* The forkserver's process is gone, and with it all that run. */
void ipb_forks_lose(IpbForkserver *forkserver, const char *cause);
/* Frees what has no owner any more; nothing else is left when this is called. */
void ipb_forks_clear(IpbForkserver *forkserver);
