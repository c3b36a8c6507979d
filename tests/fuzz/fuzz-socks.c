/* SPDX-License-Identifier: Apache-2.0
 *
 * SOCKS 5: a message is complete at one size and partial at each smaller one, and the host that
 * it names is canonical.
 */
#include <string.h>

#include "egress/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t
check_greeting(const uint8_t *data, size_t size)
{
    size_t n = 0;
    if (ipb_socks_greeting_parse(data, size, &n) != IPB_SOCKS_WHOLE)
        return 0;
    g_assert(n <= size && n <= IPB_SOCKS_MAX_GREETING);
    for (size_t i = 0; i < n; i++) {
        size_t other;
        g_assert(ipb_socks_greeting_parse(data, i, &other) == IPB_SOCKS_PARTIAL);
    }
    return n;
}

static void
check_request(const uint8_t *data, size_t size)
{
    IpbSocksRequest request, other;
    IpbHost again;
    IpbSocksState state = ipb_socks_request_parse(data, size, &request);
    if (state == IPB_SOCKS_BAD)
        g_assert(request.code != IPB_SOCKS_SUCCEEDED);
    if (state != IPB_SOCKS_WHOLE)
        return;
    const IpbHost *host = &request.destination.host;
    g_assert(request.size <= size && request.size <= IPB_SOCKS_MAX_REQUEST);
    g_assert(request.destination.port > 0 && request.destination.port <= 65535);
    g_assert(ipb_hostname_parse(host->text, strlen(host->text), &again, NULL));
    g_assert(again.kind == host->kind && strcmp(again.text, host->text) == 0);
    for (size_t i = 0; i < request.size; i++)
        g_assert(ipb_socks_request_parse(data, i, &other) == IPB_SOCKS_PARTIAL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t greeting = check_greeting(data, size);
    check_request(data + greeting, size - greeting);
    return 0;
}
