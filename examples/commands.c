/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs other programs beside a kernel: one whose output is kept, and one whose output is shown as
 * it is printed. Both see the files that a cell has written.
 *
 *     cc -o commands commands.c $(pkg-config --cflags --libs ipybox)
 *     ./commands
 */
#include <stdio.h>
#include <string.h>

#include <ipybox/ipybox.h>

static const char CELL[] = "with open('words.txt', 'w') as file:\n"
                           "    file.write('pear\\napple\\nfig\\n')\n";

static gboolean
sort_words(IpyboxSession *session, GError **error)
{
    const char *const argv[] = {"sort", "words.txt", "-", NULL};
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.input = "lemon\n";
    options.input_size = strlen("lemon\n");
    options.timeout_ms = 60 * 1000;
    g_autoptr(IpyboxCommandResult) result =
        ipybox_session_run_command(session, argv, &options, NULL, error);
    if (result == NULL)
        return FALSE;
    fputs(ipybox_command_result_get_output(result, IPYBOX_COMMAND_STDOUT, NULL), stdout);
    return TRUE;
}

static void
on_output(IpyboxSession *session, IpyboxCommandStream stream, const char *bytes, gsize size,
          gpointer user_data)
{
    (void) session;
    (void) user_data;
    fwrite(bytes, 1, size, stream == IPYBOX_COMMAND_STDERR ? stderr : stdout);
}

static gboolean
show_steps(IpyboxSession *session, GError **error)
{
    const char *const argv[] = {"/bin/sh", "-c", "for i in 1 2 3; do echo step $i; done; exit 4",
                                NULL};
    IpyboxCommandOptions options = IPYBOX_COMMAND_OPTIONS_INIT;
    options.on_output = on_output;
    g_autoptr(IpyboxCommandResult) result =
        ipybox_session_run_command(session, argv, &options, NULL, error);
    if (result == NULL)
        return FALSE;
    printf("exit status %d\n", ipybox_command_result_get_exit_status(result));
    return TRUE;
}

static gboolean
run(IpyboxRuntime *runtime, GError **error)
{
    g_autoptr(IpyboxSession) session = ipybox_session_new(runtime, NULL, error);
    if (session == NULL)
        return FALSE;
    g_autoptr(IpyboxResult) cell = ipybox_session_execute(session, CELL, NULL, NULL, error);
    return cell != NULL && ipybox_result_check(cell, error) && sort_words(session, error) &&
           show_steps(session, error) && ipybox_session_close(session, error);
}

int
main(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxRuntime) runtime = ipybox_runtime_new(NULL, &error);
    if (runtime == NULL || !run(runtime, &error) || !ipybox_runtime_close(runtime, &error)) {
        fprintf(stderr, "commands: %s\n", error->message);
        return 1;
    }
    return 0;
}
