/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of a kernel; see the header. Functions of commands may add commands, so the list is
 * not walked while one is called.
 */
#include "kernel/commands.h"

/* Running and waiting. */
#define MAX_COMMANDS 64

typedef struct {
    IpbCommands *commands;
    uint64_t number;
    IpbSideCommand *side; /* NULL: it was killed with its process, and waits for the report */
    bool is_started;
    bool is_paused; /* by itself */
    IpbCommandFunc func;
    void *data;
} Command;

struct IpbCommands {
    IpbLoop *loop;
    GQueue queue; /* Command */
    uint64_t last_number;
    bool is_paused; /* all are */
};

static void
free_command(void *data)
{
    Command *command = data;
    ipb_side_command_free(command->side);
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

static void
apply_pause(Command *command)
{
    if (command->side != NULL)
        ipb_side_command_set_paused(command->side,
                                    command->is_paused || command->commands->is_paused);
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
    command->func = func;
    command->data = data;
    command->side = ipb_side_command_new(commands->loop, options, on_end, command, error);
    if (command->side == NULL) {
        free_command(command);
        return 0;
    }
    command->number = ++commands->last_number;
    g_queue_push_tail(&commands->queue, command);
    apply_pause(command);
    return command->number;
}

void
ipb_commands_start(IpbCommands *commands, IpbProcess *process, const char *const *env,
                   const char *cwd)
{
    for (GList *link = commands->queue.head; link != NULL; link = link->next) {
        Command *command = link->data;
        if (command->side == NULL || command->is_started)
            continue;
        command->is_started = true;
        ipb_side_command_start(command->side, process, env, cwd);
    }
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
        if (command->is_started)
            g_clear_pointer(&command->side, ipb_side_command_free);
    }
}

/* One that was killed, or one that waits if @with_waiting. */
static Command *
find_ended(const IpbCommands *commands, bool with_waiting)
{
    for (GList *link = commands->queue.head; link != NULL; link = link->next) {
        Command *command = link->data;
        if (command->side == NULL || (with_waiting && !command->is_started))
            return command;
    }
    return NULL;
}

void
ipb_commands_fail(IpbCommands *commands, bool with_waiting, IpyboxError code, const char *why)
{
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, (int) code, why);
    Command *command;
    /* A command that its function adds waits for the next process. */
    uint64_t last = commands->last_number;
    while ((command = find_ended(commands, with_waiting)) != NULL && command->number <= last)
        end(command, NULL, error);
}

/* --- one command ------------------------------------------------------------------------------ */

/* NULL with @error: it has ended. */
static Command *
find(const IpbCommands *commands, uint64_t number, GError **error)
{
    for (GList *link = commands != NULL ? commands->queue.head : NULL; link != NULL;
         link = link->next) {
        Command *command = link->data;
        if (command->number == number && command->side != NULL)
            return command;
    }
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "the command has ended");
    return NULL;
}

void
ipb_commands_cancel(IpbCommands *commands, uint64_t number)
{
    Command *command = find(commands, number, NULL);
    if (command != NULL)
        ipb_side_command_cancel(command->side);
}

bool
ipb_commands_signal(IpbCommands *commands, uint64_t number, int signal, GError **error)
{
    Command *command = find(commands, number, error);
    if (command != NULL)
        ipb_side_command_signal(command->side, signal);
    return command != NULL;
}

bool
ipb_commands_pause(IpbCommands *commands, uint64_t number, bool paused, GError **error)
{
    Command *command = find(commands, number, error);
    if (command == NULL)
        return false;
    command->is_paused = paused;
    apply_pause(command);
    return true;
}

void
ipb_commands_pause_all(IpbCommands *commands, bool paused)
{
    if (commands == NULL)
        return;
    commands->is_paused = paused;
    for (GList *link = commands->queue.head; link != NULL; link = link->next)
        apply_pause(link->data);
}

bool
ipb_commands_write(IpbCommands *commands, uint64_t number, const void *bytes, size_t size,
                   GError **error)
{
    Command *command = find(commands, number, error);
    return command != NULL && ipb_side_command_write(command->side, bytes, size, error);
}

size_t
ipb_commands_input_size(const IpbCommands *commands, uint64_t number)
{
    Command *command = find(commands, number, NULL);
    return command != NULL ? ipb_side_command_input_size(command->side) : 0;
}

bool
ipb_commands_close_input(IpbCommands *commands, uint64_t number, GError **error)
{
    Command *command = find(commands, number, error);
    if (command != NULL)
        ipb_side_command_close_input(command->side);
    return command != NULL;
}
