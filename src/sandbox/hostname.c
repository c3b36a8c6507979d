/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/hostname.h"

#include <string.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <glib.h>

#define MAX_LABEL 63
#define MAX_IPV6_TEXT 45
#define MAX_PORT 65535

static const char NOT_IPV4[] = "it ends in a number, but is no IPv4 address";

static bool
refuse(const char **ret_reason, const char *reason)
{
    if (ret_reason != NULL)
        *ret_reason = reason;
    return false;
}

void
ipb_hostname_from_address(const void *address, size_t size, IpbHost *ret_host)
{
    static const uint8_t MAPPED[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *bytes = address;
    if (size == 16 && memcmp(bytes, MAPPED, sizeof MAPPED) == 0) {
        bytes += 12;
        size = 4;
    }
    *ret_host = (IpbHost){.kind = size == 4 ? IPB_HOST_IPV4 : IPB_HOST_IPV6};
    memcpy(ret_host->address, bytes, size);
    inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, ret_host->text, sizeof ret_host->text);
}

bool
ipb_hostname_parse_port(const char *text, size_t size, unsigned *ret_port)
{
    if (size == 0 || size > 5 || text[0] == '0')
        return false;
    unsigned port = 0;
    for (size_t i = 0; i < size; i++) {
        if (!g_ascii_isdigit(text[i]))
            return false;
        port = port * 10 + (unsigned) (text[i] - '0');
    }
    if (port > MAX_PORT)
        return false;
    *ret_port = port;
    return true;
}

static bool
parse_ipv6(const char *text, size_t size, IpbHost *ret_host, const char **ret_reason)
{
    char copy[MAX_IPV6_TEXT + 1];
    uint8_t address[16];
    if (memchr(text, '%', size) != NULL)
        return refuse(ret_reason, "an IPv6 zone (\"%…\") is not allowed");
    if (size > MAX_IPV6_TEXT || memchr(text, '\0', size) != NULL)
        return refuse(ret_reason, "it is no IPv6 address");
    memcpy(copy, text, size);
    copy[size] = '\0';
    if (inet_pton(AF_INET6, copy, address) != 1)
        return refuse(ret_reason, "it is no IPv6 address");
    ipb_hostname_from_address(address, sizeof address, ret_host);
    return true;
}

/* One part of an IPv4 address as inet_aton() reads it: decimal, octal after "0", hexadecimal after
 * "0x". */
static bool
parse_ipv4_part(const char *text, size_t size, uint64_t *ret_value)
{
    unsigned base = 10;
    if (size >= 2 && text[0] == '0' && text[1] == 'x') {
        base = 16;
        text += 2;
        size -= 2;
    } else if (size >= 2 && text[0] == '0') {
        base = 8;
        text++;
        size--;
    } else if (size == 0) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        int digit = g_ascii_xdigit_value(text[i]);
        if (digit < 0 || digit >= (int) base)
            return false;
        value = value * base + (unsigned) digit;
        if (value > UINT32_MAX)
            return false;
    }
    *ret_value = value;
    return true;
}

/* Parses up to four parts; the last one fills the bytes that the others leave. */
static bool
parse_ipv4(const char *text, IpbHost *ret_host, const char **ret_reason)
{
    uint32_t address = 0;
    for (unsigned n_parts = 1; n_parts <= 4; n_parts++) {
        size_t size = strcspn(text, ".");
        bool is_last = text[size] == '\0';
        uint64_t value;
        if (!parse_ipv4_part(text, size, &value))
            break;
        uint64_t limit = is_last ? (uint64_t) 1 << (8 * (5 - n_parts)) : 256;
        if (value >= limit)
            break;
        if (is_last) {
            uint32_t network_order = htonl(address | (uint32_t) value);
            ipb_hostname_from_address(&network_order, 4, ret_host);
            return true;
        }
        address |= (uint32_t) value << (8 * (4 - n_parts));
        text += size + 1;
    }
    return refuse(ret_reason, NOT_IPV4);
}

/* Would a resolver that uses inet_aton() read this as a number? */
static bool
is_number(const char *label)
{
    if (label[0] == '0' && label[1] == 'x')
        return label[2 + strspn(label + 2, "0123456789abcdef")] == '\0';
    return label[0] != '\0' && label[strspn(label, "0123456789")] == '\0';
}

/* Copies to @out, of IPB_HOST_MAX + 1 bytes, in lower case and without the trailing dot. */
static bool
copy_name(const char *text, size_t size, char *out, const char **ret_reason)
{
    if (size > 0 && text[size - 1] == '.')
        size--;
    if (size == 0)
        return refuse(ret_reason, "it is empty");
    if (size > IPB_HOST_MAX)
        return refuse(ret_reason, "it is longer than 253 bytes");
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (!g_ascii_isalnum(c) && c != '-' && c != '_' && c != '.')
            return refuse(ret_reason, (unsigned char) c >= 0x80
                                          ? "it is not ASCII: write the \"xn--\" form"
                                          : "a character in it belongs to no host name");
        out[i] = g_ascii_tolower(c);
    }
    out[size] = '\0';
    return true;
}

static bool
check_labels(const char *name, const char **ret_reason)
{
    for (const char *label = name;;) {
        size_t size = strcspn(label, ".");
        if (size == 0)
            return refuse(ret_reason, "a label of it is empty");
        if (size > MAX_LABEL)
            return refuse(ret_reason, "a label of it is longer than 63 bytes");
        if (label[0] == '-' || label[size - 1] == '-')
            return refuse(ret_reason, "a label of it begins or ends with \"-\"");
        if (label[size] == '\0')
            return true;
        label += size + 1;
    }
}

bool
ipb_hostname_parse(const char *text, size_t size, IpbHost *ret_host, const char **ret_reason)
{
    if (size >= 2 && text[0] == '[' && text[size - 1] == ']')
        return parse_ipv6(text + 1, size - 2, ret_host, ret_reason);
    if (memchr(text, ':', size) != NULL)
        return parse_ipv6(text, size, ret_host, ret_reason);
    IpbHost host = {.kind = IPB_HOST_NAME};
    if (!copy_name(text, size, host.text, ret_reason) || !check_labels(host.text, ret_reason))
        return false;
    const char *last_dot = strrchr(host.text, '.');
    if (is_number(last_dot != NULL ? last_dot + 1 : host.text))
        return parse_ipv4(host.text, ret_host, ret_reason);
    *ret_host = host;
    return true;
}

bool
ipb_hostname_parse_authority(const char *text, size_t size, IpbHost *ret_host, unsigned *ret_port,
                             const char **ret_reason)
{
    const char *end = text + size;
    const char *colon = memchr(text, ':', size);
    if (size > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', size);
        if (close == NULL)
            return refuse(ret_reason, "\"[\" without \"]\"");
        if (close + 1 < end && close[1] != ':')
            return refuse(ret_reason, "only a port may follow \"]\"");
        colon = close + 1 < end ? close + 1 : NULL;
    } else if (colon != NULL && memchr(colon + 1, ':', (size_t) (end - colon) - 1) != NULL) {
        return refuse(ret_reason, "an IPv6 address stands in brackets: \"[::1]:443\"");
    }
    unsigned port = 0;
    if (colon != NULL && !ipb_hostname_parse_port(colon + 1, (size_t) (end - colon) - 1, &port))
        return refuse(ret_reason, "what follows \":\" is no port (1 to 65535)");
    size_t host_size = colon != NULL ? (size_t) (colon - text) : size;
    if (!ipb_hostname_parse(text, host_size, ret_host, ret_reason))
        return false;
    *ret_port = port;
    return true;
}
