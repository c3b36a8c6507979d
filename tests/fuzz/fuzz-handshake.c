/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshakes of WebSockets, both sides, and the targets of requests.
 */
#include <string.h>

#include "http/target.h"
#include "http/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const PROTOCOLS[] = {"v1.kernel.websocket.jupyter.org", "v2", NULL};

static void
check_request(const char *bytes, size_t size)
{
    char accept[IPB_HANDSHAKE_ACCEPT_SIZE];
    const char *protocol = NULL;
    size_t scanned = 0;
    IpbHttpHead head;
    if (ipb_http_head_parse(bytes, size, &scanned, &head) != IPB_HTTP_HEAD_WHOLE)
        return;
    if (ipb_handshake_check_request(&head, PROTOCOLS, &protocol, accept))
        g_assert(strlen(accept) == IPB_HANDSHAKE_ACCEPT_SIZE - 1);
    else
        g_assert(head.status >= 400 && head.reason != NULL);
    g_autofree char *value = ipb_http_target_query(head.target, "token");
    g_autofree char *path = ipb_http_target_decode(ipb_http_target_path(head.target), false);
    g_assert(value == NULL || g_utf8_validate(value, -1, NULL));
    g_assert(path == NULL || g_utf8_validate(path, -1, NULL));
}

static void
check_answer(const char *bytes, size_t size)
{
    const char *protocol = NULL;
    size_t scanned = 0;
    IpbHttpHead head;
    if (ipb_http_head_parse_answer(bytes, size, &scanned, &head) != IPB_HTTP_HEAD_WHOLE)
        return;
    g_assert(head.status <= 999);
    if (!ipb_handshake_check_answer(&head, "dGhlIHNhbXBsZSBub25jZQ==", PROTOCOLS, &protocol))
        g_assert(head.reason != NULL);
    else
        g_assert(head.status == 101);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a sanitizer sees a read past the end. */
    g_autofree char *bytes = g_memdup2(data, size);
    check_request(bytes, size);
    check_answer(bytes, size);
    return 0;
}
