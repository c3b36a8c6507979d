/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions in Python sources that agents have written: a signature is one line that begins with
 * the function, and a summary is one line with text.
 */
#include <stdint.h>
#include <string.h>

#include <glib.h>

#include "apigen/python-function.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *source = g_strndup((const char *) data, size);
    IpbPythonFunction function;
    if (!g_utf8_validate(source, -1, NULL))
        return 0;
    if (ipb_python_function_find(source, "run", &function)) {
        g_assert(g_str_has_prefix(function.signature, "def") ||
                 g_str_has_prefix(function.signature, "async"));
        g_assert(strpbrk(function.signature, "\r\n") == NULL);
        g_assert(g_utf8_validate(function.signature, -1, NULL));
        if (function.summary != NULL) {
            g_assert(*function.summary != '\0' && strpbrk(function.summary, "\r\n") == NULL);
            g_assert(g_utf8_validate(function.summary, -1, NULL));
        }
    } else {
        g_assert(function.signature == NULL && function.summary == NULL);
    }
    ipb_python_function_clear(&function);
    return 0;
}
