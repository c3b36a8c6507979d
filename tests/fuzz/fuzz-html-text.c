/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of HTML: any input gives a text that is no longer than the input.
 */
#include <stdint.h>
#include <string.h>

#include <glib.h>

#include "base/html-text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *html = g_strndup((const char *) data, size);
    g_autofree char *text = ipb_html_text(html);
    g_assert(strlen(text) <= strlen(html));
    return 0;
}
