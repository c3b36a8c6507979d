/* SPDX-License-Identifier: Apache-2.0 */
#include "json/rpc-outline.h"

#include <string.h>

#include <glib.h>

typedef struct {
    const char *text;
    const char *id; /* NULL: none */
    bool has_method, has_answer;
} Case;

static const Case CASES[] = {
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":{\"id\":8}}", "7", true, false},
    {"{\"method\":\"x\",\"params\":{\"a\":[{\"id\":8}],\"method\":1},\"id\":7}", "7", true, false},
    {"{ \"params\" : {} , \"id\" : \"a,b}\\\"c\" , \"method\" : \"x\" }", "\"a,b}\\\"c\"", true,
     false},
    {"{\"params\":\"\\\\\",\"id\":7,\"method\":\"x\"}", "7", true, false},
    {"{\"params\":\"{\\\"id\\\":8}\",\"id\":-1.5e3,\"method\":\"x\"}", "-1.5e3", true, false},
    {"{\"id\":7,\"result\":{\"method\":1}}", "7", false, true},
    {"{\"error\":{},\"id\":7}", "7", false, true},
    {"{\"method\":\"x\",\"params\":{\"result\":1,\"id\":2}}", NULL, true, false},
    {"{\"id\":null,\"method\":\"x\"}", NULL, true, false},
    {"{\"id\":[7],\"method\":\"x\"}", NULL, true, false},
    {"{\"id\":{\"id\":7},\"method\":\"x\"}", NULL, true, false},
    {"{\"id\":7 8,\"method\":\"x\"}", "78", true, false}, /* no JSON: any will do */
    {"{\"id\":7x,\"method\":\"x\"}", NULL, true, false},
    {"[{\"id\":7,\"method\":\"x\"}]", NULL, false, false},
    {"{\"identity\":7,\"idd\":7,\"i\":7,\"methods\":7}", NULL, false, false},
    {"]]}}\"\\", NULL, false, false},
    {"", NULL, false, false},
};

static void
test_outlines(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        const Case *one = &CASES[i];
        size_t size = strlen(one->text);
        for (size_t cut = 0; cut <= size; cut++) { /* in two pieces */
            IpbRpcOutline outline = {0};
            ipb_rpc_outline_add(&outline, one->text, cut);
            ipb_rpc_outline_add(&outline, one->text + cut, size - cut);
            g_autofree char *id = ipb_rpc_outline_id(&outline);
            g_assert_cmpstr(id, ==, one->id);
            g_assert_cmpint(outline.has_method, ==, one->has_method);
            g_assert_cmpint(outline.has_answer, ==, one->has_answer);
        }
    }
}

static void
test_long_id(void)
{
    for (size_t size = IPB_RPC_OUTLINE_MAX_ID - 4; size < IPB_RPC_OUTLINE_MAX_ID + 4; size++) {
        g_autofree char *name = g_strnfill(size - 2, 'x');
        g_autofree char *text = g_strdup_printf("{\"id\":\"%s\",\"method\":\"x\"}", name);
        IpbRpcOutline outline = {0};
        ipb_rpc_outline_add(&outline, text, strlen(text));
        g_autofree char *id = ipb_rpc_outline_id(&outline);
        g_assert_cmpint(id != NULL, ==, size <= IPB_RPC_OUTLINE_MAX_ID);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rpc-outline/outlines", test_outlines);
    g_test_add_func("/rpc-outline/long-id", test_long_id);
    return g_test_run();
}
