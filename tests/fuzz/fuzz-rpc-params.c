/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of a client of `ipybox rpc`: for any object, each function that reads a member
 * returns what it promises, or the error says what is wrong.
 */
#include <stdint.h>
#include <string.h>

#include "serve/rpc/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_in_every_way(const IpbJson *root, const char *name)
{
    static const char *const WORDS[] = {"ask", "allow", NULL};
    for (int way = 0; way < 8; way++) {
        g_auto(IpbRpcParams) params;
        ipb_rpc_params_init(&params, root);
        g_auto(GStrv) strings = NULL;
        int64_t number = 0;
        switch (way) {
        case 0:
            ipb_rpc_params_need_string(&params, name);
            break;
        case 1:
            number = ipb_rpc_params_int(&params, name, 3, 3, 9);
            g_assert(number >= 3 && number <= 9);
            break;
        case 2:
            number = ipb_rpc_params_ms(&params, name, 1);
            g_assert(number > 0 && number <= INT32_MAX);
            break;
        case 3:
            strings = ipb_rpc_params_strings(&params, name);
            break;
        case 4:
            strings = ipb_rpc_params_environment(&params, name);
            break;
        case 5:
            strings = ipb_rpc_params_pairs(&params, name);
            g_assert(strings == NULL || g_strv_length(strings) % 2 == 0);
            break;
        case 6:
            number = ipb_rpc_params_word(&params, name, WORDS, -1);
            g_assert(number >= -1 && number < 2);
            break;
        default:
            ipb_rpc_params_path(&params, name);
            ipb_rpc_params_need_object(&params, name);
            ipb_rpc_params_bool(&params, name, false);
            break;
        }
        g_autoptr(GError) error = NULL;
        g_assert(ipb_rpc_params_finish(&params, &error) == (error == NULL));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse((const char *) data, size, &IPB_JSON_LIMITS_SMALL, NULL);
    if (doc == NULL)
        return 0;
    const IpbJson *root = ipb_json_root(doc);
    read_in_every_way(root, "timeout");
    unsigned n = 0;
    IPB_JSON_FOREACH (member, root) {
        const char *name = ipb_json_name(member, NULL);
        if (name != NULL && n++ < 20)
            read_in_every_way(root, name);
    }
    return 0;
}
