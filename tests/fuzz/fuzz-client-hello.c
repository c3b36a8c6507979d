/* SPDX-License-Identifier: Apache-2.0
 *
 * The ClientHello parser: its result does not depend on what follows, a shorter input is at most
 * incomplete, and a name is visible ASCII.
 */
#include <string.h>

#include <glib.h>

#include "egress/client-hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static IpbClientHelloState
parse_exactly(const uint8_t *data, size_t size, IpbClientHello *ret_hello)
{
    g_autofree uint8_t *copy = g_memdup2(data, size);
    return ipb_client_hello_parse(copy, size, ret_hello);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    IpbClientHello hello, shorter;
    IpbClientHelloState state = parse_exactly(data, size, &hello);
    if (state == IPB_CLIENT_HELLO_BAD)
        g_assert(hello.reason != NULL);
    if (state != IPB_CLIENT_HELLO_BAD && size > 0)
        g_assert(parse_exactly(data, size - 1, &shorter) != IPB_CLIENT_HELLO_BAD);
    if (state == IPB_CLIENT_HELLO_PARTIAL)
        g_assert(size < IPB_CLIENT_HELLO_MAX_INPUT);
    if (state != IPB_CLIENT_HELLO_WHOLE)
        return 0;
    g_assert(hello.has_server_name == (hello.server_name[0] != '\0'));
    for (const char *c = hello.server_name; *c != '\0'; c++)
        g_assert(*c > ' ' && *c < 0x7f);
    return 0;
}
