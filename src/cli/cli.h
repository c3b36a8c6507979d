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
    IPB_EXIT_NO_READER = 141, /* who read the output has left, as `head` does: nothing is said */
};

typedef struct {
    const char *name;
    const char *arguments; /* for the usage line */
    const char *summary;
    /* Gets its own words only: argv[0] is the verb. Returns the exit status. */
    int (*run)(int argc, char **argv);
    /* Options end at the first word that is none: what follows is a command with options of its own */
    bool takes_command;
} IpbVerb;

extern const IpbVerb ipb_verb_mcp;
extern const IpbVerb ipb_verb_run;
extern const IpbVerb ipb_verb_apigen;
extern const IpbVerb ipb_verb_servers;
extern const IpbVerb ipb_verb_login;
extern const IpbVerb ipb_verb_logout;
extern const IpbVerb ipb_verb_rpc;
extern const IpbVerb ipb_verb_rules;
extern const IpbVerb ipb_verb_doctor;
extern const IpbVerb ipb_verb_gateway;
extern const IpbVerb ipb_verb_sandbox;
extern const IpbVerb ipb_verb_selftest;
extern const IpbVerb ipb_verb_tool_server;

/* Parses @options; on --help prints and on an error complains. False: return *ret_status; strings of the options are NULL then.
 * What is left in @argv are the arguments that are no options. */
bool ipb_cli_parse(const IpbVerb *verb, const GOptionEntry *options, const char *description,
                   int *argc, char ***argv, int *ret_status);
/* "ipybox VERB: message" on stderr, and for a usage error where help is. */
int ipb_cli_fail(const IpbVerb *verb, int status, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* "ipybox VERB: message" on stderr. */
void ipb_cli_say(const IpbVerb *verb, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The status that fits an error of ours. */
int ipb_cli_status(const GError *error);
/* @text made safe for a terminal: control characters but newline and tab become visible. Caller frees. */
char *ipb_cli_printable(const char *text);
/* Is there, as far as can be told, who reads what is written to @fd? */
bool ipb_cli_has_reader(int fd);
/* Is colour wanted on @fd: a terminal, and no NO_COLOR? */
bool ipb_cli_use_color(int fd);

/* Log lines on stderr, from a level on ("DEBUG" … "CRITICAL"). */
bool ipb_cli_set_log_level(const char *name, GError **error);
void ipb_cli_log(const char *level, const char *text, void *data);
