/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of verbs that serve; see the header.
 */
#include "cli/serve-options.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "base/error.h"
#include "json/writer.h"

#define DEFAULT_HOST "localhost"
#define MAX_PORT 65535

bool
ipb_listen_arguments_check(const IpbListenArguments *arguments, GError **error)
{
    if (arguments->port >= 0 && arguments->port <= MAX_PORT)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "--port must be a number from 0 (any free port) to %d", MAX_PORT);
    return false;
}

const char *
ipb_listen_arguments_host(const IpbListenArguments *arguments)
{
    return arguments->host != NULL ? arguments->host : DEFAULT_HOST;
}

/* A name that begins with "127." may be anywhere. */
static bool
is_loopback_ipv4(const char *host)
{
    struct in_addr address;
    return g_str_has_prefix(host, "127.") && inet_pton(AF_INET, host, &address) == 1;
}

bool
ipb_listen_arguments_is_loopback(const IpbListenArguments *arguments)
{
    const char *host = ipb_listen_arguments_host(arguments);
    return g_str_equal(host, "localhost") || g_str_equal(host, "::1") ||
           g_str_equal(host, "[::1]") || is_loopback_ipv4(host);
}

void
ipb_listen_arguments_open(const IpbListenArguments *arguments, IpbHttpGate *gate)
{
    for (char **host = arguments->hosts; host != NULL && *host != NULL; host++)
        ipb_http_gate_allow_host(gate, *host);
    for (char **origin = arguments->origins; origin != NULL && *origin != NULL; origin++)
        ipb_http_gate_allow_origin(gate, *origin);
}

void
ipb_listen_arguments_report(const IpbListenArguments *arguments, unsigned port, const char *path,
                            const char *token)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    if (port != 0) {
        ipb_json_member_string(writer, "host", ipb_listen_arguments_host(arguments));
        ipb_json_member_int(writer, "port", port);
    }
    if (path != NULL)
        ipb_json_member_string(writer, "unix_socket", path);
    if (token != NULL)
        ipb_json_member_string(writer, "token", token);
    ipb_json_end_object(writer);
    g_autofree char *line = ipb_json_writer_finish(writer, NULL);
    puts(line);
    fflush(stdout);
}

void
ipb_listen_arguments_clear(IpbListenArguments *arguments)
{
    g_free(arguments->host);
    g_strfreev(arguments->hosts);
    g_strfreev(arguments->origins);
}

bool
ipb_approval_arguments_read(const IpbApprovalArguments *arguments, IpbApprovalPolicy *ret_policy,
                            const char **ret_rules, GError **error)
{
    if (arguments->approve == NULL || ipb_approval_policy_parse(arguments->approve, ret_policy))
        return true;
    if (!ipb_approval_arguments_check_file(arguments, error))
        return false;
    *ret_policy = IPB_APPROVAL_ASK;
    *ret_rules = arguments->approve;
    return true;
}
