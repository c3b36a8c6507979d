/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbProcess: one kernel process, from the fork to its end: its channels, its messages, and the cause of its
 * death in words. It has no cells in it; native-kernel.c has.
 *
 * Ownership: its owner frees it at any time but from within its callbacks, on_end excepted.
 */
#pragma once

#include "kernel/deadline.h"
#include "kernel/forkserver.h"
#include "kernel/messages.h"

typedef struct IpbProcess IpbProcess;

typedef struct {
    const char *const *env;
    const char *cwd;
    const char *const *path;
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    unsigned init_timeout_ms;
    const IpbKernelSandboxFuncs *sandbox; /* NULL: none */
} IpbProcessOptions;

typedef struct {
    void (*on_hello)(void *data);
    void (*on_text)(bool is_stderr, bool is_late, const char *text, size_t size, void *data);
    /* An event of any type but hello. False if it cannot be at this point: a breach. */
    bool (*on_message)(const IpbMessage *message, GError **error, void *data);
    /* Once, from the loop, when the process is dead and everything it left was told. @cause: "the kernel
     * was killed by SIGSEGV (segmentation fault)". The process may be freed in it. */
    void (*on_end)(const char *cause, void *data);
} IpbProcessFuncs;

/* Asks for a fork; all that follows comes from the loop. @options are copied. */
IpbProcess *ipb_process_new(IpbLoop *loop, IpbForkserver *forkserver,
                            const IpbProcessOptions *options, const IpbProcessFuncs *funcs,
                            void *data);
/* Sends a cell's code to a process that is ready; what is in its pipes counts as late output. */
bool ipb_process_execute(IpbProcess *process, uint64_t cell, const IpbKernelCode *code,
                         GError **error);
/* Sends a request to a process that is ready. */
bool ipb_process_request(IpbProcess *process, uint64_t id, const char *method, const char *params,
                         GError **error);
/* ipb_deadline_cpu_wait_us() of the process; 0 before its fork. */
uint64_t ipb_process_cpu_wait_us(const IpbProcess *process);
/* @is_repetition: for a cell that may not have noticed the first one; nothing to one that has. */
void ipb_process_interrupt(IpbProcess *process, bool is_repetition);
/* Asks it to end in order, kills it after @grace_ms; on_end comes when all it started is gone, too. */
void ipb_process_shut_down(IpbProcess *process, unsigned grace_ms, const char *cause);
/* SIGKILL; on_end follows with this @cause, without waiting for anything. */
void ipb_process_kill(IpbProcess *process, const char *cause);
/* See base/descendants.h; false before its fork and after its end. */
bool ipb_process_has_socket(const IpbProcess *process, uint64_t inode);
void ipb_process_set_paused(IpbProcess *process, bool paused);
/* Kills it if it lives. */
void ipb_process_free(IpbProcess *process);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbProcess, ipb_process_free)
