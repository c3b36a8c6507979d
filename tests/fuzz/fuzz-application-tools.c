/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools that a program offers: for any text, there are tools or an error that says what is wrong.
 * The packages are JSON, with the files that a kernel needs.
 */
#include <stdint.h>

#include "base/error.h"
#include "tools/application-tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_packages(const IpbApplicationTools *tools)
{
    gsize size;
    const char *text = g_bytes_get_data(ipb_application_tools_packages(tools), &size);
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    g_assert_nonnull(document);
    IPB_JSON_FOREACH (package, ipb_json_root(document)) {
        g_assert(ipb_json_is(ipb_json_get(package, "__init__.py"), IPB_JSON_STRING));
        g_assert(ipb_json_is(ipb_json_get(package, ".tools.jsonl"), IPB_JSON_STRING));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbApplicationTools) tools =
        ipb_application_tools_new((const char *) data, size, &error);
    g_assert((tools == NULL) == (error != NULL));
    if (tools != NULL)
        check_packages(tools);
    else
        g_assert(g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID) ||
                 g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT));
    return 0;
}
