/* SPDX-License-Identifier: Apache-2.0
 *
 * The distance of names; see the header.
 */
#include "base/spelling.h"

#include <string.h>

#include <glib.h>

#define MAX_NAME 64

unsigned
ipb_spelling_distance(const char *a, const char *b)
{
    unsigned row[MAX_NAME + 1];
    size_t size_b = MIN(strlen(b), MAX_NAME);
    for (size_t j = 0; j <= size_b; j++)
        row[j] = (unsigned) j;
    for (size_t i = 0; a[i] != '\0' && i < MAX_NAME; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned) i + 1;
        for (size_t j = 0; j < size_b; j++) {
            unsigned change = diagonal + (g_ascii_tolower(a[i]) != g_ascii_tolower(b[j]));
            diagonal = row[j + 1];
            row[j + 1] = MIN(change, MIN(row[j], diagonal) + 1);
        }
    }
    return row[size_b];
}
