/* SPDX-License-Identifier: Apache-2.0
 *
 * The name server inside a sandbox. It answers from the rules and the table of synthetic addresses
 * only. No query leaves this machine, so a query cannot carry data out:
 *
 *     A record of an allowed name                its synthetic address
 *     A record of localhost and names below it   127.0.0.1, the sandbox's own
 *     other records of these names               no data: AAAA, HTTPS, SVCB, TXT, … could bypass
 *                                                the checks
 *     other names                                no such name: programs fail at once, clearly
 *
 * Ownership: the owner frees an IpbDns.
 */
#pragma once

#include "egress/connection.h"
#include "egress/dns-message.h"

typedef struct IpbDns IpbDns;

/* DNS over UDP. @fd: a socket that is bound to port 53 of any number of IPv4 addresses; the call
 * takes it over, even if it fails. */
IpbDns *ipb_dns_new(const IpbEgressContext *context, int fd, GError **error);
void ipb_dns_free(IpbDns *dns);

/* DNS over TCP. */
extern const IpbProtocol IPB_DNS_TCP;
