/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of a kernel; see the header. A command WAITS, RUNS, or is KILLED and waits for the
 * report. Functions of commands may add commands, so the list is not walked while one is called.
 */
#include "kernel/commands.h"

#include <string.h>

/* Running and waiting. */
#define MAX_COMMANDS 64

typedef enum { WAITS, RUNS, KILLED } State;

typedef struct {
    IpbCommands *commands;
    uint64_t number;
    State state;
    char **argv, **env, *cwd; /* while it waits */
    IpbCommandOptions options;
    IpbSideCommand *running;
    bool is_cancelled; /* while it waits */
    IpbCommandFunc func;
    void *data;
} Command;

struct IpbCommands {
    IpbLoop *loop;
    GQueue queue; /* Command */
    uint64_t last_number;
    IpbTimer *cancel_timer;
};

static void
forget_options(Command *command)
{
    g_clear_pointer(&command->argv, g_strfreev);
    g_clear_pointer(&command->env, g_strfreev);
    g_clear_pointer(&command->cwd, g_free);
    g_clear_pointer(&command->options.input, g_bytes_unref);
}

static void
free_command(void *data)
{
    Command *command = data;
    ipb_side_command_free(command->running);
    forget_options(command);
    g_free(command);
}

IpbCommands *
ipb_commands_new(IpbLoop *loop)
{
    IpbCommands *commands = g_new0(IpbCommands, 1);
    commands->loop = ipb_loop_ref(loop);
    return commands;
}

void
ipb_commands_free(IpbCommands *commands)
{
    if (commands == NULL)
        return;
    g_queue_clear_full(&commands->queue, free_command);
    ipb_timer_free(commands->cancel_timer);
    ipb_loop_unref(commands->loop);
    g_free(commands);
}

/* Its function gets the end. */
static void
end(Command *command, const IpbCommandResult *result, const GError *error)
{
    g_queue_remove(&command->commands->queue, command);
    command->func(result, error, command->data);
    free_command(command);
}

static void
on_end(const IpbCommandResult *result, const GError *error, void *data)
{
    end(data, result, error);
}

uint64_t
ipb_commands_add(IpbCommands *commands, const IpbCommandOptions *options, IpbCommandFunc func,
                 void *data, GError **error)
{
    if (commands->queue.length >= MAX_COMMANDS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%d commands of the session already run: wait until some have ended",
                    MAX_COMMANDS);
        return 0;
    }
    Command *command = g_new0(Command, 1);
    command->commands = commands;
    command->number = ++commands->last_number;
    command->argv = g_strdupv((char **) options->argv);
    command->env = g_strdupv((char **) options->env);
    command->cwd = g_strdup(options->cwd);
    command->options = *options;
    command->options.input = options->input != NULL ? g_bytes_ref(options->input) : NULL;
    command->func = func;
    command->data = data;
    g_queue_push_tail(&commands->queue, command);
    return command->number;
}

static char **
merge(const char *const *env, char **more)
{
    char **merged = g_strdupv((char **) env);
    for (char **entry = more; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        merged = g_environ_setenv(merged, name, equals + 1, TRUE);
    }
    return merged;
}

static void
start(Command *command, IpbProcess *process, const char *const *env, const char *cwd)
{
    g_auto(GStrv) merged = merge(env, command->env);
    g_autofree char *directory = command->cwd == NULL || g_path_is_absolute(command->cwd)
                                     ? g_strdup(command->cwd != NULL ? command->cwd : cwd)
                                     : g_build_filename(cwd, command->cwd, NULL);
    IpbCommandOptions options = command->options;
    options.argv = (const char *const *) command->argv;
    options.cwd = directory;
    command->state = RUNS;
    command->running = ipb_side_command_new(
        command->commands->loop, process, (const char *const *) merged, &options, on_end, command);
    forget_options(command);
}

void
ipb_commands_start(IpbCommands *commands, IpbProcess *process, const char *const *env,
                   const char *cwd)
{
    for (GList *link = commands->queue.head; link != NULL; link = link->next) {
        Command *command = link->data;
        if (command->state == WAITS && !command->is_cancelled)
            start(command, process, env, cwd);
    }
}

static Command *
find_ended(const IpbCommands *commands, bool with_waiting, bool is_cancelled)
{
    for (GList *link = commands->queue.head; link != NULL; link = link->next) {
        Command *command = link->data;
        if (is_cancelled ? command->is_cancelled
                         : command->state == KILLED || (with_waiting && command->state == WAITS))
            return command;
    }
    return NULL;
}

static void
on_cancel_timer(void *data)
{
    IpbCommands *commands = data;
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                                  "the command was cancelled before it ran");
    g_clear_pointer(&commands->cancel_timer, ipb_timer_free);
    Command *command;
    while ((command = find_ended(commands, false, true)) != NULL)
        end(command, NULL, error);
}

void
ipb_commands_cancel(IpbCommands *commands, uint64_t number)
{
    for (GList *link = commands->queue.head; link != NULL; link = link->next) {
        Command *command = link->data;
        if (command->number != number)
            continue;
        if (command->running != NULL)
            ipb_side_command_cancel(command->running);
        else if (command->state == WAITS)
            command->is_cancelled = true;
        break;
    }
    if (commands->cancel_timer == NULL)
        commands->cancel_timer = ipb_timer_new(commands->loop, 0, on_cancel_timer, commands);
}

bool
ipb_commands_is_empty(const IpbCommands *commands)
{
    return commands->queue.length == 0;
}

void
ipb_commands_kill(IpbCommands *commands)
{
    for (GList *link = commands->queue.head; link != NULL; link = link->next) {
        Command *command = link->data;
        if (command->state != RUNS)
            continue;
        g_clear_pointer(&command->running, ipb_side_command_free);
        command->state = KILLED;
    }
}

void
ipb_commands_fail(IpbCommands *commands, bool with_waiting, IpyboxError code, const char *why)
{
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, (int) code, why);
    Command *command;
    /* A command that its function adds waits for the next process. */
    uint64_t last = commands->last_number;
    while ((command = find_ended(commands, with_waiting, false)) != NULL && command->number <= last)
        end(command, NULL, error);
}
