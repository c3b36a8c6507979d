/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbKernel: runs cells, one after the other, and reports by events what they print, display and
 * return. This is the interface that each kind of kernel implements, and the calls that dispatch to
 * it. An IpbKernelProvider (kernel/kernel-provider.h) makes kernels.
 *
 * A kernel object outlives its process: after a death or a reset the next cell runs in a fresh one.
 * Each process that becomes ready is reported by READY.
 *
 * Ownership: the owner frees the kernel. Events are borrowed for the callback. The callback may
 * call anything but ipb_kernel_free().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "kernel/event.h"
#include "sandbox/sandbox.h"

typedef struct IpbKernel IpbKernel;
/* One sandbox and the processes in it; kernel/walls.h. */
typedef struct IpbWalls IpbWalls;

/* What holds for all cells of a kernel; see session/session.h. */
typedef struct {
    bool approves_shell_cmds;
    bool requires_shell_escape;
    /* after each cell */
    bool returns_to_cwd;
    /* The client is a front end of Jupyter: it shows colour, HTML and payloads, and late output
     * with its cell. Other clients show text, and get all late output by LATE_OUTPUT, too. */
    bool has_rich_client;
} IpbKernelRules;

/* What the owner of a kernel does about its sandboxes. Each process of the kernel has a sandbox of
 * its own, which is made before the process. Only a branch lives in the sandbox of its forerunner,
 * and see `walls`. A sandbox ends with the last process in it. */
typedef struct {
    /* Processes of kernels with the same variable never live in two sandboxes at the same time. It
     * has their sandbox while there is one, and NULL before the first: then a process that starts
     * enters that one, instead of a new one. It must live as long as the kernels. NULL: each
     * process has a sandbox of its own. */
    IpbWalls **walls;
    /* Before a plan is made, if it is not NULL. Returns NULL if a sandbox can be made now. Else
     * @ready is called, once, from the loop, when one can be made. The receiver frees what is
     * returned by free_wait, then or before: then @ready is not called. */
    void *(*wait)(void (*ready)(void *ready_data), void *ready_data, void *data);
    void (*free_wait)(void *wait);
    /* Returns the plan for a process that is about to start. If it returns NULL with @error, the
     * process does not start. The caller owns the plan. */
    IpbSandboxPlan *(*make_plan)(void *data, GError **error);
    /* The sandbox is ready: its listeners, in the order of plan->listeners. The receiver owns
     * them. Returns what serves them, the reach, which may live longer than @data: */
    void *(*take_listeners)(const int *listeners, size_t n_listeners, void *data);
    /* If it is not NULL, called then: the workspace as code inside sees it. The receiver owns the
     * fd. */
    void (*take_workspace)(int workspace, const IpbLayerUser *user, void *reach);
    /* The sandbox has ended. */
    void (*free_reach)(void *reach);
    /* A branch lives in the sandbox. @data: of the functions for its own later sandboxes. Does
     * nothing if that is here already. */
    void (*join)(void *reach, void *data);
    /* The sandbox refused a call. Texts in @denial are untrusted. It is called before the events of
     * the cell that follow the call. */
    void (*on_denied)(const IpbSandboxDenial *denial, void *reach);
    /* As in IpbSandboxOptions. Called for each sandbox. */
    void (*on_unnamed)(const char *why, void *reach);
    void *data;
} IpbKernelSandboxFuncs;

/* Everything is copied. */
typedef struct {
    /* "NAME=value": the kernel's whole environment; NULL-terminated */
    const char *const *env;
    /* absolute */
    const char *cwd;
    /* prepended to sys.path, NULL-terminated; NULL: none */
    const char *const *path;
    /* Modules of `mcptools` that have no files: the text of a JSON object {package: {file:
     * source}}. A reference is taken. NULL: none */
    GBytes *packages;
    /* with has_seed: for the generators of random, numpy and torch */
    int64_t seed;
    bool has_seed;
    IpbKernelRules rules;
    /* 0: 5000 */
    unsigned interrupt_grace_ms;
    /* from the start of a process until it is ready; 0: 10000 */
    unsigned init_timeout_ms;
    /* NULL: no sandbox. Its data must live as long as the kernel */
    const IpbKernelSandboxFuncs *sandbox;
} IpbKernelOptions;

/* What to run, and how: as in Jupyter's execute_request. */
typedef struct {
    /* of the cell: above those of all cells before; 0: the next one */
    uint64_t number;
    /* with @comm: "" */
    const char *code;
    /* Instead of code: a message of the client's comm, which the kernel's handlers get, as
     * ipb_comm_write() made it; or NULL. Only for kernels with a rich client */
    GBytes *comm;
    /* no displayed value, no history, no post_run_cell */
    bool is_silent;
    /* it is added to the history, and counts */
    bool stores_history;
    /* INPUT_REQUEST events are answered; else input() fails */
    bool allows_input;
    /* text of a JSON object {name: expression}, evaluated after the code; or NULL */
    const char *user_expressions;
    /* text of a JSON object: the header of the client's request, for code that asks for it; or
     * NULL */
    const char *parent;
} IpbKernelCode;

/* The end of a request; exactly one of @result and @error is set. @result is borrowed. Errors:
 * CANCELLED: the kernel ended, was reset or stopped. SERVER: the kernel's own reason. */
typedef void (*IpbKernelReplyFunc)(const IpbJson *result, const GError *error, void *data);

typedef enum {
    /* It continues, beside its forerunner. In a sandbox it gets a Landlock domain of its own. */
    IPB_BRANCH_LIVE,
    /* It is parked: it runs no cells, and branches of it can be made at any time. They have the
     * state that the kernel has now. */
    IPB_BRANCH_PARKED,
    /* Of a parked kernel only: it continues, and is to take the place of another kernel, by
     * ipb_kernel_replace(). It has the walls of the parked one, and runs exit handlers that were
     * registered before. */
    IPB_BRANCH_RESTORED,
} IpbBranchKind;

/* How a branch is made. */
typedef struct {
    IpbBranchKind kind;
    /* with has_seed: its random generators are seeded; else it continues with the same numbers */
    int64_t seed;
    bool has_seed;
    /* For calls of tools by the forerunner, which needed none before; NULL: nothing changes */
    const char *token;
    /* PARKED: the directory whose files are restored with the copy. Files in it that are open for
     * writing, or mapped as shared, are a reason to refuse. NULL: none are restored */
    const char *files;
} IpbBranchOptions;

/* The end of a fork, from the loop. On success the branch is ready, and @warnings says what it
 * shares with its forerunner or lacks: texts for people, NULL-terminated, borrowed. Errors:
 * REFUSED: the kernel cannot be branched now, and the text says why; KERNEL_DIED; CANCELLED: the
 * branch was stopped or reset. */
typedef void (*IpbBranchedFunc)(const char *const *warnings, const GError *error, void *data);

/* Of commands: bytes of input that wait, and of each of stdout and stderr that are kept. */
#define IPB_COMMAND_MAX_INPUT ((size_t) 32 * 1024 * 1024)
#define IPB_COMMAND_MAX_OUTPUT ((size_t) 32 * 1024 * 1024)

/* A piece of a command's output, from the loop, before the command's end. It may call anything but
 * ipb_kernel_free(). */
typedef void (*IpbCommandOutputFunc)(bool is_stderr, const void *bytes, size_t size, void *data);
/* No input waits any more: the command's pipe has taken all, or, if not @is_open, the rest is lost,
 * because the command has closed its standard input. From the loop. */
typedef void (*IpbCommandInputFunc)(bool is_open, void *data);

/* A command that runs beside the kernel: within the same walls, as the same user, and with its
 * environment, as if the kernel had started it. The kernel takes no part in it. */
typedef struct {
    /* NULL-terminated; the first one is a path, or a name in PATH */
    const char *const *argv;
    /* "NAME=value" beyond the kernel's environment, NULL-terminated; NULL: none */
    const char *const *env;
    /* absolute, or relative to where the kernel starts; NULL: there */
    const char *cwd;
    /* NULL: none */
    GBytes *input;
    /* More input may follow, by ipb_commands_write(), until ipb_commands_close_input(). */
    bool keeps_input_open;
    /* with keeps_input_open; or NULL */
    IpbCommandInputFunc on_input;
    /* Gets the output as it is printed; none is kept then. NULL: it is kept, up to max_output. */
    IpbCommandOutputFunc on_output;
    /* for on_input and on_output */
    void *data;
    /* from the execution of the command; 0: none */
    unsigned timeout_ms;
    /* kept of each of stdout and stderr */
    size_t max_output;
} IpbCommandOptions;

/* Borrowed. */
typedef struct {
    int wait_status; /* as of waitpid */
    /* it was killed, with what it has started */
    bool is_timeout;
    /* a limit of the sandbox that is the reason for its end; or NULL */
    const char *limit;
    /* what was kept */
    const void *out, *err;
    size_t out_size, err_size;
    /* there was more */
    bool is_out_cut, is_err_cut;
} IpbCommandResult;

/* The end of a command; exactly one of @result and @error is set. Errors: NOT_FOUND: there is no
 * such program or directory; REFUSED: it may not be executed; LIMIT; CANCELLED; KERNEL_DIED: the
 * kernel ended, and the command with it. */
typedef void (*IpbCommandFunc)(const IpbCommandResult *result, const GError *error, void *data);

typedef struct {
    void (*start)(IpbKernel *kernel, bool rehearses);
    bool (*execute)(IpbKernel *kernel, const IpbKernelCode *code, uint64_t cell, GError **error);
    bool (*request)(IpbKernel *kernel, const char *method, const char *params,
                    IpbKernelReplyFunc func, void *data, GError **error);
    bool (*answer_input)(IpbKernel *kernel, uint64_t input, const char *value, const char *why,
                         GError **error);
    void (*interrupt)(IpbKernel *kernel);
    void (*reset)(IpbKernel *kernel);
    void (*stop)(IpbKernel *kernel, void (*done)(void *data), void *data);
    void (*set_paused)(IpbKernel *kernel, bool paused);
    void (*report_late_output)(IpbKernel *kernel);
    bool (*has_socket)(const IpbKernel *kernel, uint64_t inode);
    bool (*fork)(IpbKernel *kernel, IpbKernel *branch, const IpbBranchOptions *options,
                 IpbBranchedFunc func, void *data, GError **error);
    void (*replace)(IpbKernel *kernel, IpbKernel *branch);
    bool (*measure)(const IpbKernel *kernel, uint64_t *ret_bytes);
    /* NULL: kernels of this kind run none */
    uint64_t (*run_command)(IpbKernel *kernel, const IpbCommandOptions *options,
                            IpbCommandFunc func, void *data, GError **error);
    struct IpbCommands *(*commands)(IpbKernel *kernel);
    void (*free)(IpbKernel *kernel);
} IpbKernelOps;

/* Each kind of kernel embeds this as its first member. */
struct IpbKernel {
    const IpbKernelOps *ops;
    IpbEventFunc on_event;
    void *data;
    uint64_t last_cell;
};

/* Gets a process ready in the background, as execute does, too. READY or START_FAILED follows, from
 * the loop, even if the kernel is ready already. A new process that @rehearses takes a few
 * milliseconds longer, and its first cell is as fast as its second one. */
void ipb_kernel_start(IpbKernel *kernel, bool rehearses);
/* Runs a cell. Events follow from the loop; DONE is the last one and always comes. Returns the
 * cell's number, or 0 with @error: BUSY (a cell is running), LIMIT (code over 32 MiB), INVALID (no
 * UTF-8; user_expressions is not a JSON object of strings, or parent not a JSON object). */
uint64_t ipb_kernel_execute(IpbKernel *kernel, const IpbKernelCode *code, GError **error);
/* Sends the kernel a request: complete, inspect, is_complete, history, kernel_info, comm_info,
 * variables. docs/internals/kernel-wire.md describes @params (text of a JSON object) and the result
 * of each @method. A kernel without a process gets one first. A kernel that runs a cell answers
 * when the cell has ended or awaits something. @func is called once, from the loop, unless the
 * kernel is freed. Returns false with @error: INVALID (params), LIMIT (too large, too many at
 * once), BUSY (the kernel is being stopped). */
bool ipb_kernel_request(IpbKernel *kernel, const char *method, const char *params,
                        IpbKernelReplyFunc func, void *data, GError **error);
/* Answers an INPUT_REQUEST. @value: what was typed, without the end of the line. NULL: there is no
 * answer, and code gets an EOFError that says @why. Returns false with @error: NOT_FOUND (the
 * answer is not needed any more), LIMIT (over 1 MiB), INVALID (no UTF-8). */
bool ipb_kernel_answer_input(IpbKernel *kernel, uint64_t input, const char *value, const char *why,
                             GError **error);
/* Interrupts the running cell, if any. A cell that waits for its kernel's start ends at once
 * (ERROR, then DONE with IPB_CELL_INTERRUPTED). If the cell still runs after the grace period
 * (options), its kernel is killed: DONE has IPB_CELL_LOST, and the cause says that the state is
 * gone. */
void ipb_kernel_interrupt(IpbKernel *kernel);
/* Ends the process. A running cell ends with IPB_CELL_LOST ("reset"). If no cell runs, atexit
 * handlers run and files are written, for two seconds at most. Then a fresh process starts in the
 * background. */
void ipb_kernel_reset(IpbKernel *kernel);
/* Ends the process in order: atexit handlers get the grace period, then it is killed. Calls @done
 * when everything is gone. A running cell ends with IPB_CELL_LOST. */
void ipb_kernel_stop(IpbKernel *kernel, void (*done)(void *data), void *data);
/* Back-pressure: while paused no output is read, so a kernel that continues to print waits. */
void ipb_kernel_set_paused(IpbKernel *kernel, bool paused);
/* Reports now, with the cell number 0, the LATE_OUTPUT and NOTICE events with which the next cell
 * would begin. Call it while no cell runs or waits. */
void ipb_kernel_report_late_output(IpbKernel *kernel);
/* Whether its process, or one that descends from it, holds the socket with this inode; see
 * base/descendants.h. */
bool ipb_kernel_has_socket(const IpbKernel *kernel, uint64_t inode);
/* Makes @branch, which has no process yet, a branch of @kernel: its first process is a fork of the
 * live one, with its state, between two cells. Both are of the same provider, which has
 * IPB_KERNEL_CAN_BE_FORKED, and @branch has the options of @kernel but for its environment. Later
 * processes of it are fresh ones. @func is called once, unless @branch is freed before. Cells may
 * be given to the branch at once. Returns false with @error: BUSY: a cell runs; INVALID: @kernel
 * has no process. For a parked branch it gets one first. */
bool ipb_kernel_fork(IpbKernel *kernel, IpbKernel *branch, const IpbBranchOptions *options,
                     IpbBranchedFunc func, void *data, GError **error);
/* @kernel continues in the process of @branch, which is IPB_BRANCH_RESTORED, is ready and has run
 * no cell; free it then. The process of @kernel, if there is one, is killed with what it started.
 * Its late output is lost. Between cells, and not from an IpbBranchedFunc. */
void ipb_kernel_replace(IpbKernel *kernel, IpbKernel *branch);
/* How much memory its process shares with no other. False if there is no process, or the system
 * does not say it. */
bool ipb_kernel_measure(const IpbKernel *kernel, uint64_t *ret_bytes);
/* Runs a command, also while a cell runs. A kernel without a process gets one first. @func is
 * called once, from the loop, unless the kernel is freed. The command ends with the process of the
 * kernel. What it leaves behind when it ends by itself continues until then. Returns a number, or 0
 * with @error: INVALID (options), LIMIT (too large, too many at once), BUSY (the kernel is being
 * stopped). */
uint64_t ipb_kernel_run_command(IpbKernel *kernel, const IpbCommandOptions *options,
                                IpbCommandFunc func, void *data, GError **error);
/* Its commands, to cancel or pause one, or to give it input: kernel/commands.h. NULL: kernels of
 * this kind run none. */
struct IpbCommands *ipb_kernel_commands(IpbKernel *kernel);
/* Kills and reaps what is left. */
void ipb_kernel_free(IpbKernel *kernel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbKernel, ipb_kernel_free)
