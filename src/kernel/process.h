/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbProcess: one kernel process, from the fork to its end: its channels, its messages, and a
 * description of the cause of its death. It knows nothing of cells; kernel/native-kernel.c does.
 *
 * Ownership: the owner may free it at any time, except in a callback other than on_end.
 */
#pragma once

#include "kernel/pausable-timer.h"
#include "kernel/forkserver.h"
#include "kernel/messages.h"

typedef struct IpbProcess IpbProcess;

typedef struct {
    const char *const *env;
    const char *cwd;
    const char *const *path;
    GBytes *packages; /* see IpbKernelOptions; or NULL */
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    bool rehearses; /* see ipb_kernel_start() */
    unsigned init_timeout_ms;
    const IpbKernelSandboxFuncs *sandbox; /* NULL: none */
    /* NULL: a fresh process. Else a branch of this one, of the same forkserver, which runs no cell:
     * it has the state of it, and its environment, directory and path, but for variables that
     * differ in env */
    IpbProcess *forerunner;
    IpbBranchKind kind;
    const char *forerunner_token; /* see IpbBranchOptions; or NULL */
    const char *files;            /* likewise */
} IpbProcessOptions;

typedef struct {
    void (*on_hello)(void *data);
    /* @is_late: it belongs to a cell that has ended, which is @cell if the process says so; it may
     * say any number. */
    void (*on_text)(bool is_stderr, bool is_late, uint64_t cell, const char *text, size_t size,
                    void *data);
    /* A message for people about the process. */
    void (*on_notice)(const char *text, void *data);
    /* A message of any type but hello and those about pipes. Returns false with @error if it is not
     * allowed at this point: a breach. */
    bool (*on_message)(const IpbMessage *message, GError **error, void *data);
    /* Once, from the loop, when the process is dead and everything that it left was delivered.
     * @cause: "the kernel was killed by SIGSEGV (segmentation fault)". It may free the process. */
    void (*on_end)(const char *cause, void *data);
} IpbProcessFuncs;

/* Requests a fork. All that follows comes from the loop. @options are copied. */
IpbProcess *ipb_process_new(IpbLoop *loop, IpbForkserver *forkserver,
                            const IpbProcessOptions *options, const IpbProcessFuncs *funcs,
                            void *data);
/* Of a branch, once it has said hello: what it shares with its forerunner or lacks; texts for
 * people. */
const char *const *ipb_process_warnings(const IpbProcess *process);
/* The process does not exist because its forerunner refused to be branched. */
bool ipb_process_is_refused(const IpbProcess *process);
/* From now on its functions get @data. */
void ipb_process_set_data(IpbProcess *process, void *data);
/* How much memory it shares with no other process; false if there is no process, or the system does
 * not say it. */
bool ipb_process_measure(const IpbProcess *process, uint64_t *ret_bytes);
/* Sends a cell's code to a process that is ready. What is in its pipes now is late output. */
bool ipb_process_execute(IpbProcess *process, uint64_t cell, const IpbKernelCode *code,
                         GError **error);
/* Sends a request to a process that is ready. */
bool ipb_process_request(IpbProcess *process, uint64_t id, const char *method, const char *params,
                         GError **error);
/* Answers an input request; see ipb_message_build_input(). */
bool ipb_process_answer_input(IpbProcess *process, uint64_t id, const char *value, const char *why,
                              GError **error);
/* ipb_pausable_timer_cpu_wait_us() of the process; 0 before its fork. */
uint64_t ipb_process_cpu_wait_us(const IpbProcess *process);
/* @is_repetition: for a cell that may not have noticed the first interrupt. A cell that has reacted
 * to it ignores the repetition. */
void ipb_process_interrupt(IpbProcess *process, bool is_repetition);
/* Asks the process to end in order, and kills it after @grace_ms. on_end comes when everything that
 * it started is gone, too. */
void ipb_process_shut_down(IpbProcess *process, unsigned grace_ms, const char *cause);
/* Sends SIGKILL. on_end follows with this @cause. It waits for nothing but the sandbox of which
 * this was the last process. */
void ipb_process_kill(IpbProcess *process, const char *cause);
/* See base/descendants.h; false before its fork and after its end. */
bool ipb_process_has_socket(const IpbProcess *process, uint64_t inode);
/* --- commands, which belong to a process that is ready --- */

/* Takes the environment of the kernel, as it was given, and returns that of its commands. */
char **ipb_process_change_environment(const IpbProcess *process, char **env);
/* Forks a process that is to execute a command, into the walls of @process: forkserver.h. */
IpbFork *ipb_process_fork_command(IpbProcess *process, IpbForkFunc on_forked,
                                  IpbForkExitFunc on_exit, void *data);
/* Puts the fork @pid under the limits of the sandbox, before it executes anything. KERNEL_DIED: the
 * process is about to end. */
bool ipb_process_admit(const IpbProcess *process, pid_t pid, GError **error);
/* It is dead or killed, and on_end is due. */
bool ipb_process_is_ending(const IpbProcess *process);
/* ipb_sandbox_describe_limit() of its sandbox; NULL without one. Caller frees. */
char *ipb_process_describe_limit(const IpbProcess *process, int wait_status);

void ipb_process_set_paused(IpbProcess *process, bool paused);
/* Kills it if it lives. */
void ipb_process_free(IpbProcess *process);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbProcess, ipb_process_free)
