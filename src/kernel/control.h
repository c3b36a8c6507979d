/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbControlMessage: the packets of the forkserver's control socket, one JSON object each
 * (docs/internals/kernel-wire.md).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"

#define IPB_CONTROL_MAX_PACKET (64u * 1024)

typedef enum {
    IPB_CONTROL_READY,
    IPB_CONTROL_FAILED,
    IPB_CONTROL_PRELOADED,
    IPB_CONTROL_FORKED,
    IPB_CONTROL_FORK_FAILED,
    IPB_CONTROL_EXITED,
} IpbControlOp;

/* A packet from the forkserver. Texts are borrowed from the document. */
typedef struct {
    IpbControlOp op;
    int64_t id;              /* forked, fork_failed, exited */
    int64_t pid;             /* forked */
    int wait_status;         /* exited */
    bool is_oom_kill;        /* exited */
    const char *error;       /* failed, fork_failed */
    char **missing;          /* failed: module names */
    char **preload_failures; /* preloaded: "name: error" each */
    IpbJsonDoc *document;
} IpbControlMessage;

bool ipb_control_parse(const char *packet, size_t size, IpbControlMessage *ret_message,
                       GError **error);
void ipb_control_clear(IpbControlMessage *message);

/* Packets for the forkserver; the caller frees them. @entrance: the library by which kernels enter
 * sandboxes, or NULL. @branching: the one by which they fork branches, or NULL. */
char *ipb_control_build_configure(const char *const *preload, const char *stub_directory,
                                  const char *entrance, const char *branching);
/* @is_command: the fork executes the command that it gets over its wire (side-command.c). */
char *ipb_control_build_fork(int64_t id, bool is_sandboxed, bool is_command);
char *ipb_control_build_kill(int64_t id);
/* A kernel has forked a branch of itself, with this pid and the pipes with these inode numbers. */
char *ipb_control_build_adopt(int64_t id, int64_t pid, uint64_t out, uint64_t err);
/* The kernel has new pipes, with these inode numbers. */
char *ipb_control_build_pipes(int64_t id, uint64_t out, uint64_t err);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbControlMessage, ipb_control_clear)
