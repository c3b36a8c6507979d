/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a verb that serves; see the header.
 */
#include "cli/program.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"

#define END_TIMEOUT_MS 15000

void
ipb_program_quit(void *data)
{
    IpbProgram *program = data;
    if (program->main_loop != NULL) /* NULL: cleared, while the verb frees its objects */
        g_main_loop_quit(program->main_loop);
}

/* --- what ends it ----------------------------------------------------------------------------- */

static gboolean
on_end_timeout(gpointer data)
{
    IpbProgram *program = data;
    program->end_timer = 0;
    g_main_loop_quit(program->main_loop);
    return G_SOURCE_REMOVE;
}

static void
end(IpbProgram *program)
{
    if (program->is_ending)
        return;
    program->is_ending = true;
    program->end_timer = g_timeout_add(END_TIMEOUT_MS, on_end_timeout, program);
    program->close(program->data);
}

static void
on_signal(int number, void *data)
{
    IpbProgram *program = data;
    if (number == SIGHUP && program->reload != NULL &&
        !(program->has_terminal && !isatty(STDIN_FILENO))) {
        if (!program->is_ending)
            program->reload(program->data);
        return;
    }
    if (program->is_ending)
        g_main_loop_quit(program->main_loop);
    end(program);
}

static void
end_by_watch(IpbProgram *program)
{
    g_clear_pointer(&program->input_watch, ipb_watch_free);
    g_clear_pointer(&program->parent_watch, ipb_watch_free);
    end(program);
}

/* Discards the input and waits for its end. */
static void
on_input(uint32_t events, void *data)
{
    IpbProgram *program = data;
    char bytes[4096];
    ssize_t n = read(program->input, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end_by_watch(program);
}

static void
on_parent_end(uint32_t events, void *data)
{
    end_by_watch(data);
}

static bool
watch_input(IpbProgram *program, IpbLoop *loop, GError **error)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) < 0 ||
        (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)))
        return true;
    program->input = ipb_fd_duplicate(STDIN_FILENO, 3);
    if (program->input < 0)
        return true;
    program->input_watch = ipb_watch_new(loop, program->input, EPOLLIN, on_input, program, error);
    return program->input_watch != NULL;
}

void
ipb_program_end(const GError *why, void *data)
{
    IpbProgram *program = data;
    if (program->main_loop == NULL) /* cleared, as above */
        return;
    if (why != NULL) {
        ipb_cli_log("ERROR", why->message, NULL);
        program->status = IPB_EXIT_FAILED;
    }
    end(program);
}

/* --- life ------------------------------------------------------------------------------------- */

bool
ipb_program_init(IpbProgram *program, bool ends_at_interrupt, void (*close)(void *data), void *data,
                 GError **error)
{
    static const int NUMBERS[] = {SIGTERM, SIGHUP, SIGINT};
    *program = (IpbProgram){
        .main_loop = g_main_loop_new(NULL, FALSE),
        .input = -1,
        .parent = -1,
        .close = close,
        .data = data,
    };
    program->signals =
        ipb_signals_new(NUMBERS, ends_at_interrupt ? 3 : 2, on_signal, program, error);
    return program->signals != NULL;
}

void
ipb_program_reload_with_hangup(IpbProgram *program, void (*reload)(void *data))
{
    program->has_terminal = isatty(STDIN_FILENO);
    program->reload = reload;
}

bool
ipb_program_end_with_input(IpbProgram *program, IpbLoop *loop, GError **error)
{
    if (!watch_input(program, loop, error))
        return false;
    /* Without an input that can end, the parent may be a shell whose programs outlive it. */
    return program->input < 0 || ipb_program_end_with_parent(program, loop, error);
}

bool
ipb_program_end_with_parent(IpbProgram *program, IpbLoop *loop, GError **error)
{
    /* A parent in another pid namespace has no number here (0) and cannot be watched. Init never
     * ends. */
    pid_t parent = getppid();
    if (parent <= 1)
        return true;
    program->parent = ipb_pidfd_open(parent);
    if (program->parent < 0 || getppid() != parent) {
        /* It has ended already; then only the end of input ends this program. */
        ipb_fd_close(&program->parent);
        return true;
    }
    program->parent_watch =
        ipb_watch_new(loop, program->parent, EPOLLIN, on_parent_end, program, error);
    return program->parent_watch != NULL;
}

void
ipb_program_run(IpbProgram *program)
{
    g_main_loop_run(program->main_loop);
}

void
ipb_program_clear(IpbProgram *program)
{
    g_clear_pointer(&program->signals, ipb_signals_free);
    g_clear_handle_id(&program->end_timer, g_source_remove);
    g_clear_pointer(&program->input_watch, ipb_watch_free);
    g_clear_pointer(&program->parent_watch, ipb_watch_free);
    ipb_fd_close(&program->input);
    ipb_fd_close(&program->parent);
    g_clear_pointer(&program->main_loop, g_main_loop_unref);
}
