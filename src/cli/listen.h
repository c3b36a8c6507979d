/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of verbs that listen for HTTP: where, and which names and web pages may ask. A plain struct, like those of cli/options.h;
 * its port is the verb's default before the command line is parsed.
 */
#pragma once

#include "http/gate.h"

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
     "port to listen on; 0: any free one (default: " number ")", "PORT"}
#define IPB_OPTION_ALLOW_HOST(listen)                                                              \
    {"allow-host", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(listen)->hosts,                              \
     "another name that the Host header may have", "NAME"}
#define IPB_OPTION_ALLOW_ORIGIN(listen)                                                            \
    {"allow-origin", 0, 0, G_OPTION_ARG_STRING_ARRAY, &(listen)->origins,                          \
     "take requests of web pages of this origin, e.g. http://localhost:3000", "ORIGIN"}
/* clang-format on */

bool ipb_listen_arguments_check(const IpbListenArguments *arguments, GError **error);
const char *ipb_listen_arguments_host(const IpbListenArguments *arguments);
/* Is it on this machine alone that one can connect? */
bool ipb_listen_arguments_is_loopback(const IpbListenArguments *arguments);
/* The names and origins that were given. */
void ipb_listen_arguments_open(const IpbListenArguments *arguments, IpbHttpGate *gate);
/* One line of JSON on standard output: the server listens, at @port, and @token is to be sent to it, if it is not NULL. */
void ipb_listen_arguments_tell(const IpbListenArguments *arguments, unsigned port,
                               const char *token);
void ipb_listen_arguments_clear(IpbListenArguments *arguments);
