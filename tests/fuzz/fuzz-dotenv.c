/* SPDX-License-Identifier: Apache-2.0
 *
 * The .env reader: for any input, the names are distinct and have values, and each warning names
 * a line of the file.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/dotenv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) env = ipb_dotenv_parse((const char *) data, size, warnings);
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (char **pair = env; *pair != NULL; pair++) {
        const char *equals = strchr(*pair, '=');
        g_assert(equals != NULL && equals > *pair);
        g_assert(g_hash_table_add(names, g_strndup(*pair, (gsize) (equals - *pair))));
    }
    unsigned n_lines = 1;
    for (size_t i = 0; i < size; i++)
        n_lines += data[i] == '\n' || data[i] == '\r';
    for (guint i = 0; i < warnings->len; i++) {
        unsigned line;
        g_assert(sscanf(g_ptr_array_index(warnings, i), "line %u:", &line) == 1);
        g_assert(line >= 1 && line <= n_lines);
    }
    return 0;
}
