/* SPDX-License-Identifier: Apache-2.0
 *
 * The sandbox reports the command's exit when nothing is left inside, so the egress has no clients
 * then. Denials that still wait are reported first, then the exit.
 */
#include "command/sandboxed-command.h"

#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "egress/violations.h"
#include "sandbox/denials.h"
#include "sandbox/sandbox.h"

/* After SIGKILL: a process in a system call that does not return ends no sooner than that. */
#define KILL_TIMEOUT_MS 2000

struct IpbSandboxedCommand {
    IpbLoop *loop;
    IpbSandboxedCommandOptions options; /* callbacks and upstream; other pointers are not kept */
    IpbSandboxPlan *plan;
    char *line; /* the command's words, for ignoreViolations */
    IpbSandbox *sandbox;
    IpbEgress *egress;   /* NULL: no network, or not yet */
    IpbDenials *denials; /* of files and sockets */
    IpbTimer *grace_timer;
    unsigned grace_ms;
    bool is_ready, is_stopping, is_killed, has_ended;
};

/* --- denials ---------------------------------------------------------------------------------- */

static bool
is_in_any(const char *text, char **parts)
{
    for (char **part = parts; *part != NULL; part++)
        if (strstr(text, *part) != NULL)
            return true;
    return false;
}

/* ignoreViolations: ignores denials whose target contains one of the paths, for commands that
 * contain the pattern ("*": all commands). */
static bool
is_ignored(const IpbSandboxedCommand *command, const char *target)
{
    GHashTableIter iter;
    void *pattern, *paths;
    g_hash_table_iter_init(&iter, command->plan->policy->ignore_violations);
    while (g_hash_table_iter_next(&iter, &pattern, &paths)) {
        bool is_meant = g_str_equal(pattern, "*") || strstr(command->line, pattern) != NULL;
        if (is_meant && is_in_any(target, paths))
            return true;
    }
    return false;
}

static void
on_violation(const IpbViolation *violation, void *data)
{
    IpbSandboxedCommand *command = data;
    if (command->options.on_violation != NULL && !is_ignored(command, violation->target))
        command->options.on_violation(violation, command->options.data);
}

static void
on_denials(const IpbDenialReport *report, void *data)
{
    const IpbSandboxedCommand *command = data;
    const IpbViolation violation = {
        .what = report->what,
        .target = report->targets,
        .reason = report->reason,
        .process = report->process,
        .text = report->text,
    };
    if (command->options.on_violation != NULL)
        command->options.on_violation(&violation, command->options.data);
}

/* Paths that are ignored must not be in the report of a group, which names only some of them. */
static void
on_denied(IpbSandbox *sandbox, const IpbSandboxDenial *denial, void *data)
{
    IpbSandboxedCommand *command = data;
    if (!is_ignored(command, denial->path))
        ipb_denials_add(command->denials, denial);
}

static void
on_unnamed(IpbSandbox *sandbox, const char *why, void *data)
{
    const IpbSandboxedCommand *command = data;
    if (command->options.on_warning != NULL)
        command->options.on_warning(why, command->options.data);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* May free the command. */
static void
end(IpbSandboxedCommand *command, int wait_status, const GError *error)
{
    if (command->has_ended)
        return;
    command->has_ended = true;
    g_clear_pointer(&command->grace_timer, ipb_timer_free);
    if (command->egress != NULL)
        ipb_egress_flush(command->egress);
    ipb_denials_flush(command->denials);
    g_clear_pointer(&command->egress, ipb_egress_free);
    command->options.on_end(command, wait_status, error, command->options.data);
}

static void
on_sandbox_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    IpbSandboxedCommand *command = data;
    if (command->is_killed)
        end(command, SIGKILL, NULL);
    else
        end(command, wait_status, error);
}

static void on_grace_ended(void *data);

static void
wait_for_end(IpbSandboxedCommand *command, unsigned timeout_ms)
{
    command->grace_timer = ipb_timer_new(command->loop, timeout_ms, on_grace_ended, command);
}

static void
on_grace_ended(void *data)
{
    IpbSandboxedCommand *command = data;
    g_clear_pointer(&command->grace_timer, ipb_timer_free);
    if (command->is_ready && !command->is_stopping) {
        command->is_stopping = true;
        ipb_sandboxed_command_signal(command, SIGTERM);
        wait_for_end(command, command->grace_ms);
    } else if (!command->is_killed && ipb_sandbox_kill(command->sandbox)) {
        command->is_killed = true;
        wait_for_end(command, KILL_TIMEOUT_MS);
    } else {
        ipb_sandbox_report_denials(command->sandbox);
        g_clear_pointer(&command->sandbox, ipb_sandbox_free);
        end(command, SIGKILL, NULL);
    }
}

void
ipb_sandboxed_command_stop(IpbSandboxedCommand *command, unsigned grace_ms)
{
    if (command->has_ended || command->grace_timer != NULL)
        return;
    command->grace_ms = grace_ms;
    wait_for_end(command, grace_ms);
}

void
ipb_sandboxed_command_signal(IpbSandboxedCommand *command, int signal_number)
{
    if (command->is_ready && !command->has_ended)
        ipb_sandbox_signal(command->sandbox, signal_number);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static bool
open_egress(IpbSandboxedCommand *command, const int *listeners, GError **error)
{
    const IpbEgressOptions options = {
        .plan = command->plan,
        .listeners = listeners,
        .upstream = command->options.upstream,
        .on_violation = on_violation,
        .data = command,
    };
    command->egress = ipb_egress_new(command->loop, &options, error);
    return command->egress != NULL;
}

static void
on_sandbox_ready(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data)
{
    IpbSandboxedCommand *command = data;
    g_autoptr(GError) error = NULL;
    if (n_listeners > 0 && !open_egress(command, listeners, &error)) {
        g_clear_pointer(&command->sandbox, ipb_sandbox_free);
        end(command, 0, error);
        return;
    }
    command->is_ready = true;
    if (command->options.on_ready != NULL)
        command->options.on_ready(command, command->options.data);
}

static bool
start(IpbSandboxedCommand *command, const IpbSandboxedCommandOptions *options, GError **error)
{
    const IpbSandboxOptions sandbox = {
        .plan = options->plan,
        .argv = options->argv,
        .env = options->env,
        .cwd = options->cwd,
        .stdin_fd = options->stdin_fd,
        .stdout_fd = options->stdout_fd,
        .stderr_fd = options->stderr_fd,
        .is_group_kept = options->is_group_kept,
        .is_weaker_allowed = options->is_weaker_allowed,
        .on_ready = on_sandbox_ready,
        .on_end = on_sandbox_end,
        .on_denied = on_denied,
        .on_unnamed = on_unnamed,
        .data = command,
    };
    command->sandbox = ipb_sandbox_new(command->loop, &sandbox, error);
    return command->sandbox != NULL;
}

IpbSandboxedCommand *
ipb_sandboxed_command_new(IpbLoop *loop, const IpbSandboxedCommandOptions *options, GError **error)
{
    IpbSandboxedCommand *command = g_new0(IpbSandboxedCommand, 1);
    command->loop = ipb_loop_ref(loop);
    command->options = (IpbSandboxedCommandOptions){.on_ready = options->on_ready,
                                                    .on_end = options->on_end,
                                                    .on_violation = options->on_violation,
                                                    .on_warning = options->on_warning,
                                                    .upstream = options->upstream,
                                                    .data = options->data};
    command->plan = ipb_sandbox_plan_ref((IpbSandboxPlan *) options->plan);
    command->line = g_strjoinv(" ", (char **) options->argv);
    command->denials = ipb_denials_new(loop, options->plan->workspace, on_denials, command);
    if (!start(command, options, error))
        g_clear_pointer(&command, ipb_sandboxed_command_free);
    return command;
}

bool
ipb_sandboxed_command_set_policy(IpbSandboxedCommand *command, IpbSandboxPolicy *policy,
                                 GError **error)
{
    if (command->egress != NULL)
        return ipb_egress_set_policy(command->egress, policy, error);
    if (policy->allowed_domains->len == 0)
        return true;
    g_set_error_literal(
        error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
        "the command runs without a network: no domain was allowed when it started");
    return false;
}

bool
ipb_sandboxed_command_is_weaker(const IpbSandboxedCommand *command)
{
    return command->sandbox != NULL && ipb_sandbox_is_weaker(command->sandbox);
}

char *
ipb_sandboxed_command_describe_limit(const IpbSandboxedCommand *command, int wait_status)
{
    return command->sandbox != NULL ? ipb_sandbox_describe_limit(command->sandbox, wait_status)
                                    : NULL;
}

void
ipb_sandboxed_command_free(IpbSandboxedCommand *command)
{
    if (command == NULL)
        return;
    ipb_timer_free(command->grace_timer);
    ipb_sandbox_free(command->sandbox);
    ipb_egress_free(command->egress);
    ipb_denials_free(command->denials);
    ipb_sandbox_plan_unref(command->plan);
    g_free(command->line);
    ipb_loop_unref(command->loop);
    g_free(command);
}
