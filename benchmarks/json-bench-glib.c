/* SPDX-License-Identifier: Apache-2.0
 *
 * json-bench with json-glib: FILE is parsed and written once; prints both times in seconds.
 */
#include <stdio.h>

#include <json-glib/json-glib.h>

int
main(int argc, char **argv)
{
    g_autofree char *text = NULL;
    gsize size;
    if (argc != 2 || !g_file_get_contents(argv[1], &text, &size, NULL))
        return 2;
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    g_autoptr(JsonGenerator) generator = json_generator_new();
    gint64 start = g_get_monotonic_time();
    if (!json_parser_load_from_data(parser, text, (gssize) size, NULL))
        return 1;
    gint64 parsed = g_get_monotonic_time();
    json_generator_set_root(generator, json_parser_get_root(parser));
    g_autofree char *written = json_generator_to_data(generator, NULL);
    gint64 end = g_get_monotonic_time();
    printf("%f %f\n", (double) (parsed - start) / 1e6, (double) (end - parsed) / 1e6);
    return 0;
}
