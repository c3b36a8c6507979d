/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbDomainPattern: one entry of allowedDomains or deniedDomains: "example.com", "*.example.com",
 * "localhost", "192.0.2.1" or "[::1]", each with ":port" if wanted, and in deniedDomains also "*".
 */
#pragma once

#include "sandbox/hostname.h"

typedef struct {
    char *text; /* as written */
    /* Canonical: lower case, no trailing dot. Of a wildcard it is what follows "*."; NULL: every
     * host */
    char *host;
    bool is_wildcard; /* "*.example.com": names below, not the name itself */
    bool is_address;  /* an IP literal */
    unsigned port;    /* 0: any */
    char *reason;     /* of a denial, or NULL */
} IpbDomainPattern;

/* @may_be_all: "*" and "*:port" are allowed. NULL: *ret_reason, a constant, says what is wrong. */
IpbDomainPattern *ipb_domain_pattern_parse(const char *text, size_t size, bool may_be_all,
                                           const char **ret_reason);
/* Ignores the port. */
bool ipb_domain_pattern_matches(const IpbDomainPattern *pattern, const IpbHost *host);
void ipb_domain_pattern_free(IpbDomainPattern *pattern);
