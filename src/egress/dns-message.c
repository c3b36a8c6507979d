/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of DNS queries and the writer of replies; see the header.
 */
#include "egress/dns-message.h"

#include <string.h>

#include <glib.h>

#define HEADER_SIZE 12
#define MAX_LABEL 63
#define TYPE_OPT 41
#define OPT_SIZE 11 /* without options */
#define EDNS_PAYLOAD 1232

/* Bits of the second 16-bit word. */
#define FLAG_RESPONSE 0x8000
#define OPCODE_MASK 0x7800
#define FLAG_TRUNCATED 0x0200
#define FLAG_RECURSION_DESIRED 0x0100
#define FLAG_RECURSION_AVAILABLE 0x0080

static uint16_t
get16(const uint8_t *bytes)
{
    return (uint16_t) (bytes[0] << 8 | bytes[1]);
}

static uint8_t *
put16(uint8_t *out, unsigned value)
{
    *out++ = (uint8_t) (value >> 8);
    *out++ = (uint8_t) value;
    return out;
}

static uint8_t *
put32(uint8_t *out, uint32_t value)
{
    return put16(put16(out, value >> 16), value & 0xffff);
}

static bool
is_host_label(const uint8_t *label, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!g_ascii_isalnum((char) label[i]) && label[i] != '-' && label[i] != '_')
            return false;
    return true;
}

/* Stores the name at @bytes in the query, as text. Returns its size on the wire; 0: malformed. */
static size_t
parse_name(const uint8_t *bytes, size_t size, IpbDnsQuery *query)
{
    size_t at = 0, text = 0;
    query->is_host_name = true;
    while (at < size && bytes[at] != 0) {
        size_t label = bytes[at++];
        /* A length above 63 is a compression pointer, or undefined. */
        if (label > MAX_LABEL || label > size - at || at + label >= IPB_DNS_MAX_NAME)
            return 0;
        query->is_host_name = query->is_host_name && is_host_label(bytes + at, label);
        if (text > 0)
            query->name[text++] = '.';
        memcpy(query->name + text, bytes + at, label);
        text += label;
        at += label;
    }
    if (at >= size)
        return 0;
    query->is_host_name = query->is_host_name && text > 0;
    query->name[query->is_host_name ? text : 0] = '\0';
    return at + 1;
}

/* Is it EDNS's OPT, the only record that a query may have? Its options are ignored. */
static bool
is_edns(const uint8_t *bytes, size_t size)
{
    return size >= OPT_SIZE && bytes[0] == 0 && get16(bytes + 1) == TYPE_OPT && bytes[6] == 0 &&
           size == OPT_SIZE + (size_t) get16(bytes + 9);
}

static IpbDnsCode
parse_body(const uint8_t *bytes, size_t size, IpbDnsQuery *query)
{
    const uint8_t *at = bytes + HEADER_SIZE;
    size_t left = size - HEADER_SIZE;
    unsigned n_additional = get16(bytes + 10);
    if (get16(bytes + 4) != 1 || get16(bytes + 6) != 0 || get16(bytes + 8) != 0 || n_additional > 1)
        return IPB_DNS_FORMAT_ERROR;
    size_t name_size = parse_name(at, left, query);
    if (name_size == 0 || left - name_size < 4)
        return IPB_DNS_FORMAT_ERROR;
    query->type = get16(at + name_size);
    query->class = get16(at + name_size + 2);
    query->question_size = name_size + 4;
    memcpy(query->question, at, query->question_size);
    at += query->question_size;
    left -= query->question_size;
    query->has_edns = n_additional == 1;
    if (query->has_edns ? !is_edns(at, left) : left > 0)
        return IPB_DNS_FORMAT_ERROR;
    return IPB_DNS_NO_ERROR;
}

bool
ipb_dns_query_parse(const uint8_t *bytes, size_t size, IpbDnsQuery *ret_query, IpbDnsCode *ret_code)
{
    if (size < HEADER_SIZE || size > IPB_DNS_MAX_QUERY)
        return false;
    unsigned flags = get16(bytes + 2);
    if ((flags & FLAG_RESPONSE) != 0)
        return false; /* two servers could answer each other without end */
    *ret_query = (IpbDnsQuery){
        .id = get16(bytes),
        .is_recursion_desired = (flags & FLAG_RECURSION_DESIRED) != 0,
    };
    if ((flags & OPCODE_MASK) != 0)
        *ret_code = IPB_DNS_NOT_IMPLEMENTED;
    else if ((flags & FLAG_TRUNCATED) != 0)
        *ret_code = IPB_DNS_FORMAT_ERROR;
    else
        *ret_code = parse_body(bytes, size, ret_query);
    return true;
}

size_t
ipb_dns_reply_write(const IpbDnsQuery *query, IpbDnsCode code, const uint8_t *address,
                    uint32_t ttl_s, uint8_t ret_reply[IPB_DNS_MAX_REPLY])
{
    uint8_t *out = ret_reply;
    out = put16(out, query->id);
    out = put16(out, FLAG_RESPONSE | FLAG_RECURSION_AVAILABLE |
                         (query->is_recursion_desired ? FLAG_RECURSION_DESIRED : 0) |
                         (unsigned) code);
    out = put16(out, query->question_size > 0 ? 1 : 0);
    out = put16(out, address != NULL ? 1 : 0);
    out = put16(out, 0);
    out = put16(out, query->has_edns ? 1 : 0);
    memcpy(out, query->question, query->question_size);
    out += query->question_size;
    if (address != NULL) {
        out = put16(out, 0xc000 | HEADER_SIZE); /* the question's name */
        out = put16(out, IPB_DNS_TYPE_A);
        out = put16(out, IPB_DNS_CLASS_IN);
        out = put32(out, ttl_s);
        out = put16(out, 4);
        memcpy(out, address, 4);
        out += 4;
    }
    if (query->has_edns) {
        *out++ = 0;
        out = put16(out, TYPE_OPT);
        out = put16(out, EDNS_PAYLOAD);
        out = put32(out, 0);
        out = put16(out, 0);
    }
    return (size_t) (out - ret_reply);
}
