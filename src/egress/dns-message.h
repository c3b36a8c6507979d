/* SPDX-License-Identifier: Apache-2.0
 *
 * DNS messages: parses a query from a hostile peer, and writes a reply. A query has one question,
 * no compression (a question never needs it), and no records except EDNS's. RFC 1035 and RFC 6891.
 *
 * Pure: no input, no output, no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPB_DNS_MAX_QUERY 1232
#define IPB_DNS_MAX_REPLY 512
#define IPB_DNS_MAX_NAME 255 /* on the wire */

/* The record types and the class that we distinguish from others. */
#define IPB_DNS_TYPE_A 1
#define IPB_DNS_TYPE_AAAA 28
#define IPB_DNS_CLASS_IN 1

typedef enum {
    IPB_DNS_NO_ERROR = 0,
    IPB_DNS_FORMAT_ERROR = 1,
    IPB_DNS_SERVER_FAILURE = 2,
    IPB_DNS_NO_SUCH_NAME = 3,
    IPB_DNS_NOT_IMPLEMENTED = 4,
    IPB_DNS_REFUSED = 5,
} IpbDnsCode;

typedef struct {
    uint16_t id;
    bool is_recursion_desired;
    bool has_edns;
    char name[IPB_DNS_MAX_NAME + 1]; /* labels and dots, no dot at the end, case as sent */
    bool is_host_name;               /* letters, digits, "-" and "_" only; else @name is "" */
    uint16_t type;
    uint16_t class;
    uint8_t question[IPB_DNS_MAX_NAME + 4]; /* as sent: the reply repeats it */
    size_t question_size;                   /* 0: it is malformed */
} IpbDnsQuery;

/* *ret_code: NO_ERROR for a query, else the code to reply with. False: the message gets no
 * reply. */
bool ipb_dns_query_parse(const uint8_t *bytes, size_t size, IpbDnsQuery *ret_query,
                         IpbDnsCode *ret_code);
/* @address: four bytes for an A record, or NULL for no record. Returns the size of the reply. */
size_t ipb_dns_reply_write(const IpbDnsQuery *query, IpbDnsCode code, const uint8_t *address,
                           uint32_t ttl_s, uint8_t ret_reply[IPB_DNS_MAX_REPLY]);
