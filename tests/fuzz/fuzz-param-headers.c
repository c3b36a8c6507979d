/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers of a tool's arguments. The input is a JSON array of a schema and arguments. Each
 * header must be a token, a colon and a value in which no other header can begin.
 */
#include <stdint.h>
#include <string.h>

#include "mcp/param-headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse((const char *) data, size, &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *schema = document != NULL ? ipb_json_first(ipb_json_root(document)) : NULL;
    if (schema == NULL)
        return 0;
    g_autoptr(IpbParamHeaders) headers = ipb_param_headers_parse(schema, NULL);
    if (headers == NULL)
        return 0;
    g_auto(GStrv) list = ipb_param_headers_make(headers, ipb_json_next(schema), NULL);
    for (char **line = list; line != NULL && *line != NULL; line++) {
        g_assert_true(g_str_has_prefix(*line, "Mcp-Param-"));
        const char *value = strstr(*line, ": ");
        g_assert_nonnull(value);
        g_assert_cmpuint(strcspn(*line, " \t:"), ==, (size_t) (value - *line));
        for (const char *c = *line; *c != '\0'; c++)
            g_assert_true(*c == '\t' || (*c >= ' ' && *c < 0x7f));
    }
    return 0;
}
