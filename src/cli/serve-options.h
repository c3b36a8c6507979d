/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of verbs that serve, in addition to those in cli/options.h: where the verb listens for
 * HTTP, which names and web pages may send requests, and --approve with the policies of src/tools.
 * A plain struct, like those of cli/options.h. Set its port to the verb's default before the
 * command line is parsed.
 */
#pragma once

#include "cli/options.h"
#include "http/gate.h"
#include "tools/approval-rules.h"

typedef struct {
    char *host; /* NULL: localhost */
    int port;   /* 0: any free one */
    char **hosts;
    char **origins;
} IpbListenArguments;

/* clang-format off */
#define IPB_OPTION_HOST(listen, details)                                                           \
    {"host", 0, 0, G_OPTION_ARG_STRING, &(listen)->host,                                           \
     "name or address to listen on (default: localhost)" details, "HOST"}
#define IPB_OPTION_PORT(listen, number)                                                            \
    {"port", 0, 0, G_OPTION_ARG_INT, &(listen)->port,                                              \
     "port to listen on, or 0 for any free port (default: " number ")", "PORT"}
#define IPB_OPTION_ALLOW_HOST(listen)                                                              \
    {"allow-host", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(listen)->hosts,                              \
     "also accept this name in the Host header (repeatable)", "NAME"}
#define IPB_OPTION_ALLOW_ORIGIN(listen)                                                            \
    {"allow-origin", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(listen)->origins,                          \
     "accept requests of web pages of this origin (repeatable)", "ORIGIN"}
/* clang-format on */

bool ipb_listen_arguments_check(const IpbListenArguments *arguments, GError **error);
const char *ipb_listen_arguments_host(const IpbListenArguments *arguments);
/* Whether only processes on this machine can connect. */
bool ipb_listen_arguments_is_loopback(const IpbListenArguments *arguments);
/* Allows the names and origins that were given. */
void ipb_listen_arguments_open(const IpbListenArguments *arguments, IpbHttpGate *gate);
/* Prints one line of JSON to standard output: the server listens at @port, or if that is 0, on a
 * Unix socket; @path is that, or NULL. @token: what clients must send; NULL: nothing. */
void ipb_listen_arguments_report(const IpbListenArguments *arguments, unsigned port,
                                 const char *path, const char *token);
void ipb_listen_arguments_clear(IpbListenArguments *arguments);

/* Reads --approve: a policy, or a file of rules. With a file the policy is to ask, for calls that
 * no rule names. Both out parameters stay unchanged if --approve was not given. */
bool ipb_approval_arguments_read(const IpbApprovalArguments *arguments,
                                 IpbApprovalPolicy *ret_policy, const char **ret_rules,
                                 GError **error);
