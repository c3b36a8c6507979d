/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the verbs share; see the header.
 */
#include "cli/cli.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/display-text.h"
#include "base/error.h"
#include "base/spelling.h"

/* A setting of the program, not of the library. */
static int log_threshold = 2;

/* After --help the verb does not run, so nothing else frees the values of its other options. */
static void
free_values(const GOptionEntry *options)
{
    for (const GOptionEntry *option = options; option->long_name != NULL; option++) {
        if (option->arg == G_OPTION_ARG_STRING || option->arg == G_OPTION_ARG_FILENAME)
            g_clear_pointer((char **) option->arg_data, g_free);
        else if (option->arg == G_OPTION_ARG_STRING_ARRAY)
            g_clear_pointer((char ***) option->arg_data, g_strfreev);
    }
}

/* Removes "--". GLib leaves it there if the next word looks like an option. */
static void
remove_end_of_options(const IpbVerb *verb, int *argc, char **argv)
{
    int end = verb->takes_command ? MIN(*argc, 2) : *argc; /* words after a command belong to it */
    for (int i = 1; i < end; i++) {
        if (!g_str_equal(argv[i], "--"))
            continue;
        /* includes the NULL */
        memmove(argv + i, argv + i + 1, sizeof *argv * (size_t) (*argc - i));
        (*argc)--;
        return;
    }
}

/* ", did you mean --NAME?" for an unknown option that is similar to one of @options, else "". The
 * error of GLib has the word as it was written. */
static char *
suggest_option(const GOptionEntry *options, const char *message)
{
    const char *word = strstr(message, "--");
    if (word == NULL)
        return g_strdup("");
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    for (const GOptionEntry *option = options; option->long_name != NULL; option++)
        g_ptr_array_add(names, (char *) option->long_name);
    g_ptr_array_add(names, "help");
    g_ptr_array_add(names, NULL);
    g_autofree char *name = g_strndup(word + 2, strcspn(word + 2, "="));
    const char *nearest = ipb_spelling_nearest(name, (const char *const *) names->pdata);
    return nearest != NULL ? g_strdup_printf(", did you mean --%s?", nearest) : g_strdup("");
}

bool
ipb_cli_parse(const IpbVerb *verb, const GOptionEntry *options, const char *description, int *argc,
              char ***argv, int *ret_status)
{
    g_autoptr(GOptionContext) context = g_option_context_new(verb->arguments);
    g_autofree char *program =
        *verb->name != '\0' ? g_strdup_printf("ipybox %s", verb->name) : g_strdup("ipybox");
    g_set_prgname(program);
    g_autofree char *sentence =
        g_strdup_printf("%c%s.", g_ascii_toupper(verb->summary[0]), verb->summary + 1);
    g_option_context_set_summary(context, sentence);
    g_option_context_set_description(context, description);
    g_option_context_set_help_enabled(context, FALSE);
    g_option_context_set_strict_posix(context, verb->takes_command);
    g_option_context_add_main_entries(context, options, NULL);
    int help = 0;
    const GOptionEntry help_entry[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "show this help and exit", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_option_context_add_main_entries(context, help_entry, NULL);
    g_autoptr(GError) error = NULL;
    if (!g_option_context_parse(context, argc, argv, &error)) {
        bool is_unknown = g_error_matches(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION);
        g_autofree char *hint = is_unknown ? suggest_option(options, error->message) : g_strdup("");
        *ret_status = ipb_cli_fail(verb, IPB_EXIT_USAGE, "%s%s", error->message, hint);
        return false;
    }
    if (help) {
        g_autofree char *text = g_option_context_get_help(context, TRUE, NULL);
        fputs(text, stdout);
        free_values(options);
        *ret_status = IPB_EXIT_OK;
        return false;
    }
    remove_end_of_options(verb, argc, *argv);
    return true;
}

G_GNUC_PRINTF(2, 0)
static void
say(const IpbVerb *verb, const char *format, va_list args)
{
    g_autofree char *text = g_strdup_vprintf(format, args);
    g_autofree char *printable = ipb_cli_printable(text);
    fprintf(stderr, "ipybox%s%s: %s\n", *verb->name != '\0' ? " " : "", verb->name, printable);
}

void
ipb_cli_say(const IpbVerb *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(verb, format, args);
    va_end(args);
}

int
ipb_cli_fail(const IpbVerb *verb, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(verb, format, args);
    va_end(args);
    if (status == IPB_EXIT_USAGE)
        fprintf(stderr, "Try 'ipybox%s%s --help'.\n", *verb->name != '\0' ? " " : "", verb->name);
    return status;
}

int
ipb_cli_fail_command(const IpbVerb *verb, const char *command, const char *const *commands)
{
    if (g_strv_contains(commands, command))
        return ipb_cli_fail(verb, IPB_EXIT_USAGE, "%s: wrong number of arguments", command);
    const char *nearest = ipb_spelling_nearest(command, commands);
    if (nearest != NULL)
        return ipb_cli_fail(verb, IPB_EXIT_USAGE, "no such command: %s, did you mean %s?", command,
                            nearest);
    g_autofree char *all = g_strjoinv(", ", (char **) commands);
    return ipb_cli_fail(verb, IPB_EXIT_USAGE, "no such command: %s; the commands are: %s", command,
                        all);
}

int
ipb_cli_status(const GError *error)
{
    if (error->domain != IPYBOX_ERROR)
        return IPB_EXIT_FAILED;
    switch ((IpyboxError) error->code) {
    case IPYBOX_ERROR_INVALID:
        return IPB_EXIT_USAGE;
    case IPYBOX_ERROR_UNAVAILABLE:
        return IPB_EXIT_UNAVAILABLE;
    case IPYBOX_ERROR_TIMEOUT:
        return IPB_EXIT_TIMEOUT;
    case IPYBOX_ERROR_CANCELLED:
        return IPB_EXIT_INTERRUPTED;
    case IPYBOX_ERROR_NOT_FOUND:
    case IPYBOX_ERROR_REFUSED:
    case IPYBOX_ERROR_KERNEL_DIED:
    case IPYBOX_ERROR_SERVER:
    case IPYBOX_ERROR_PROTOCOL:
    case IPYBOX_ERROR_LIMIT:
    case IPYBOX_ERROR_BUSY:
    case IPYBOX_ERROR_SYSTEM:
    case IPYBOX_ERROR_CODE:
        break;
    }
    return IPB_EXIT_FAILED;
}

char *
ipb_cli_printable(const char *text)
{
    return ipb_display_text_printable(text);
}

bool
ipb_cli_has_reader(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLOUT};
    return poll(&item, 1, 0) < 0 || (item.revents & (POLLERR | POLLHUP)) == 0;
}

bool
ipb_cli_use_color(int fd)
{
    const char *no_color = g_getenv("NO_COLOR");
    const char *term = g_getenv("TERM");
    return isatty(fd) && (no_color == NULL || *no_color == '\0') && term != NULL &&
           !g_str_equal(term, "dumb");
}

/* The index is the severity. The library's "warning" is "WARNING" here. */
static const char *const LEVELS[] = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"};

static int
find_level(const char *name)
{
    for (int i = 0; i < (int) G_N_ELEMENTS(LEVELS); i++)
        if (g_ascii_strcasecmp(name, LEVELS[i]) == 0)
            return i;
    return -1;
}

bool
ipb_cli_set_log_level(const char *name, GError **error)
{
    int level = find_level(name);
    if (level < 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "--log-level must be DEBUG, INFO, WARNING, ERROR or CRITICAL, not %s", name);
        return false;
    }
    log_threshold = level;
    return true;
}

void
ipb_cli_log(const char *level, const char *text, void *data)
{
    int severity = find_level(level);
    if (severity < 0) /* a server's own level, such as "notice" */
        severity = 1;
    if (severity < log_threshold)
        return;
    g_autofree char *printable = ipb_cli_printable(text);
    fprintf(stderr, "ipybox: %s: %s\n", LEVELS[severity], printable);
}
