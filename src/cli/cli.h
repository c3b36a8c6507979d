/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of the command line share. Only the command line prints and exits.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Exit statuses, the same for every verb. */
enum {
    IPB_EXIT_OK = 0,
    IPB_EXIT_FAILED = 1,      /* the work failed: a cell's error, a server's refusal */
    IPB_EXIT_USAGE = 2,       /* the command line is wrong */
    IPB_EXIT_UNAVAILABLE = 3, /* something is missing on this machine */
    IPB_EXIT_TIMEOUT = 124,
    IPB_EXIT_INTERRUPTED = 130,
    IPB_EXIT_NO_READER = 141, /* the reader of the output is gone, as with `head`: no message */
};

typedef struct {
    const char *name;
    const char *arguments; /* for the usage line */
    const char *summary;   /* one sentence, in small letters, without a full stop */
    /* @argv begins with the verb. Returns the exit status. */
    int (*run)(int argc, char **argv);
    /* options end at the first other word, which begins a command */
    bool takes_command;
} IpbVerb;

extern const IpbVerb ipb_verb_actions;
extern const IpbVerb ipb_verb_mcp;
extern const IpbVerb ipb_verb_run;
extern const IpbVerb ipb_verb_apigen;
extern const IpbVerb ipb_verb_servers;
extern const IpbVerb ipb_verb_changes;
extern const IpbVerb ipb_verb_login;
extern const IpbVerb ipb_verb_logout;
extern const IpbVerb ipb_verb_record;
extern const IpbVerb ipb_verb_rpc;
extern const IpbVerb ipb_verb_rules;
extern const IpbVerb ipb_verb_doctor;
extern const IpbVerb ipb_verb_gateway;
extern const IpbVerb ipb_verb_kernel;
extern const IpbVerb ipb_verb_kernelspec;
extern const IpbVerb ipb_verb_sandbox;
extern const IpbVerb ipb_verb_selftest;
extern const IpbVerb ipb_verb_serve;
extern const IpbVerb ipb_verb_tool_server;

/* Parses @options. Prints the help for --help, and an error for a wrong command line; then it
 * returns false, the verb returns *ret_status, and all strings of the options are NULL. The
 * arguments that are left in @argv are not options. @description: shown after the options, or
 * NULL. */
bool ipb_cli_parse(const IpbVerb *verb, const GOptionEntry *options, const char *description,
                   int *argc, char ***argv, int *ret_status);
/* Prints "ipybox VERB: message" to stderr. For a usage error it also says how to get help. Returns
 * @status. */
int ipb_cli_fail(const IpbVerb *verb, int status, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* The usage error for @command, the first argument of a verb that has @commands (NULL at the end):
 * it is none of them, or has the wrong number of arguments. Returns the status. */
int ipb_cli_fail_command(const IpbVerb *verb, const char *command, const char *const *commands);
/* Prints "ipybox VERB: message" to stderr. */
void ipb_cli_say(const IpbVerb *verb, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The exit status for an error of ours. */
int ipb_cli_status(const GError *error);
/* @text made safe for a terminal: control characters except newline and tab become visible. Caller
 * frees. */
char *ipb_cli_printable(const char *text);
/* Whether @fd has a reader, as far as the system knows. */
bool ipb_cli_has_reader(int fd);
/* Whether to write colours to @fd: it is a terminal, and NO_COLOR is not set. */
bool ipb_cli_use_color(int fd);

/* Logs to stderr, from a level on ("DEBUG" … "CRITICAL"). */
bool ipb_cli_set_log_level(const char *name, GError **error);
void ipb_cli_log(const char *level, const char *text, void *data);
