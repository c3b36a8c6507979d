/* SPDX-License-Identifier: Apache-2.0
 *
 * Server parameters: parsing, canonical text, expansion. The canonical text must be JSON that is
 * its own canonical text, and it must be read as the same parameters.
 */
#include <stdint.h>
#include <string.h>

#include "mcp/server-params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const ENV[] = {"A=1", "B=${A}\r\n", "KEY=value", "LONG=xxxxxxxxxxxxxxxxxxx",
                                  NULL};

static void
check_same(const IpbServerParams *a, const IpbServerParams *b)
{
    g_assert_cmpint(a->kind, ==, b->kind);
    g_assert_cmpstr(a->command, ==, b->command);
    g_assert_cmpstr(a->url, ==, b->url);
    g_assert_true((a->args == NULL) == (b->args == NULL));
    if (a->args != NULL)
        g_assert_cmpstrv(a->args, b->args);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse((const char *) data, size, &IPB_JSON_LIMITS_SMALL, NULL);
    if (document == NULL)
        return 0;
    g_autofree char *text = ipb_server_params_canonical(ipb_json_root(document));
    g_autoptr(IpbJsonDoc) again = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    g_assert_nonnull(again);
    g_autofree char *text_again = ipb_server_params_canonical(ipb_json_root(again));
    g_assert_cmpstr(text, ==, text_again);

    g_autoptr(IpbServerParams) params = ipb_server_params_parse(ipb_json_root(document), NULL);
    g_autoptr(IpbServerParams) same = ipb_server_params_parse(ipb_json_root(again), NULL);
    /* A sandbox configuration that has a key twice is refused, but the canonical text has the key
     * once. */
    g_assert_true((params == NULL) == (same == NULL) || ipb_json_has_duplicates(document));
    if (params == NULL || same == NULL)
        return 0;
    check_same(params, same);
    g_autoptr(IpbServerParams) expanded = ipb_server_params_expand(params, ENV, NULL);
    if (expanded == NULL)
        return 0;
    for (char **header = expanded->headers; header != NULL && *header != NULL; header++)
        g_assert_null(strpbrk(*header, "\r\n"));
    return 0;
}
