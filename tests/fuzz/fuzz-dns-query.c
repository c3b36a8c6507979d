/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of DNS queries and the writer of replies: a reply is a reply to the query, fits,
 * and repeats its question.
 */
#include <string.h>

#include <glib.h>

#include "egress/dns-message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t ADDRESS[4] = {198, 18, 0, 1};
    IpbDnsQuery query;
    IpbDnsCode code;
    uint8_t reply[IPB_DNS_MAX_REPLY];
    if (!ipb_dns_query_parse(data, size, &query, &code))
        return 0;
    g_assert(strlen(query.name) <= 253);
    g_assert(query.is_host_name == (query.name[0] != '\0') || code != IPB_DNS_NO_ERROR);
    bool is_question = code == IPB_DNS_NO_ERROR;
    size_t n = ipb_dns_reply_write(&query, code, is_question ? ADDRESS : NULL, 60, reply);
    g_assert(n >= 12 && n <= sizeof reply);
    g_assert(memcmp(reply, data, 2) == 0 && (reply[2] & 0x80) != 0);
    if (is_question)
        g_assert(memcmp(reply + 12, data + 12, query.question_size) == 0);
    /* Our reply is not a query. */
    g_assert(!ipb_dns_query_parse(reply, n, &query, &code));
    return 0;
}
