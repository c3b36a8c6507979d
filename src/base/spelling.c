/* SPDX-License-Identifier: Apache-2.0
 *
 * The distance of names; see the header.
 */
#include "base/spelling.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <glib.h>

#define MAX_NAME 64
#define MIN_PART 3

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

/* At most half of the letters differ, or one is a part of the other. */
static bool
is_similar(const char *a, const char *b, size_t distance)
{
    bool is_part = strlen(a) >= MIN_PART && strlen(b) >= MIN_PART &&
                   (strstr(a, b) != NULL || strstr(b, a) != NULL);
    return is_part || distance <= MAX(strlen(a), strlen(b)) / 2;
}

const char *
ipb_spelling_nearest(const char *name, const char *const *names)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    for (; *names != NULL; names++) {
        size_t distance = ipb_spelling_distance(name, *names);
        if (distance >= best || !is_similar(name, *names, distance))
            continue;
        best = distance;
        nearest = *names;
    }
    return nearest;
}
