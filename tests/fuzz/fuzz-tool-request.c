/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of POST /run. If it is accepted, it has its strings, and its arguments are an object on
 * their own, with the same text and without duplicate names.
 */
#include <stdint.h>
#include <string.h>

#include "tools/tool-request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_auto(IpbToolRequest) request = {0};
    g_autoptr(GError) error = NULL;
    if (!ipb_tool_request_parse((const char *) data, size, &request, &error)) {
        g_assert(error != NULL && request.document == NULL);
        return 0;
    }
    g_assert(request.server_name != NULL && request.tool_name != NULL);
    g_assert(request.arguments.size >= 2 && request.arguments.size < size);
    g_assert(memmem(data, size, request.arguments.start, request.arguments.size) != NULL);
    g_autoptr(IpbJsonDoc) arguments = ipb_json_parse(
        request.arguments.start, request.arguments.size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    g_assert(arguments != NULL && ipb_json_is(ipb_json_root(arguments), IPB_JSON_OBJECT));
    g_assert(!ipb_json_has_duplicates(arguments));
    return 0;
}
