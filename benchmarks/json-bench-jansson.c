/* SPDX-License-Identifier: Apache-2.0
 *
 * json-bench with jansson: FILE is parsed and written once; prints both times in seconds.
 */
#include <stdio.h>
#include <stdlib.h>

#include <glib.h>
#include <jansson.h>

int
main(int argc, char **argv)
{
    char *text;
    gsize size;
    if (argc != 2 || !g_file_get_contents(argv[1], &text, &size, NULL))
        return 2;
    gint64 start = g_get_monotonic_time();
    json_t *root = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    gint64 parsed = g_get_monotonic_time();
    char *written = json_dumps(root, JSON_COMPACT);
    gint64 end = g_get_monotonic_time();
    if (written == NULL)
        return 1;
    printf("%f %f\n", (double) (parsed - start) / 1e6, (double) (end - parsed) / 1e6);
    free(written);
    json_decref(root);
    g_free(text);
    return 0;
}
