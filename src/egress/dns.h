/* SPDX-License-Identifier: Apache-2.0
 *
 * The name server inside a sandbox. It answers from the rules and the table of synthetic addresses alone; nothing of a question
 * ever leaves this machine, so questions carry nothing out:
 *
 *     A record of a name that may be reached     its synthetic address
 *     A record of localhost and names below it   127.0.0.1, the sandbox's own
 *     anything else of these names               no data: no AAAA, HTTPS, SVCB, TXT, … that could lead around the checks
 *     any other name                             no such name: programs fail at once and clearly
 *
 * Ownership: the owner frees an IpbDns.
 */
#pragma once

#include "egress/connection.h"
#include "egress/dns-message.h"

typedef struct IpbDns IpbDns;

/* Over UDP: a socket bound to port 53 of any number of IPv4 addresses; the new object's, whatever becomes of the call. */
IpbDns *ipb_dns_new(const IpbEgressContext *context, int fd, GError **error);
void ipb_dns_free(IpbDns *dns);

/* Over TCP. */
extern const IpbProtocol IPB_DNS_TCP;
