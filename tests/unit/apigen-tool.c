/* SPDX-License-Identifier: Apache-2.0
 *
 * Generates a package from a list of tools, for tests. It prints one module name per line, or the
 * signatures or stubs.
 *
 * usage: apigen-tool [--async] [--signatures | --stubs] SERVER ROOT < tools.json
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apigen/apigen.h"
#include "apigen/generated-package.h"

static GByteArray *
read_all(FILE *file)
{
    GByteArray *bytes = g_byte_array_new();
    guint8 chunk[65536];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        g_byte_array_append(bytes, chunk, (guint) n);
    return bytes;
}

static bool
generate(const GByteArray *text, const IpbApigenOptions *options, const char *root, GError **error)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse((const char *) text->data, text->len, &IPB_JSON_LIMITS_MESSAGE, error);
    if (doc == NULL)
        return false;
    g_auto(GStrv) modules = NULL;
    g_autoptr(GPtrArray) files = ipb_apigen_generate(ipb_json_root(doc), options, &modules, error);
    g_autofree char *note = NULL;
    g_autofree char *here = g_get_current_dir();
    g_autofree char *path = g_canonicalize_filename(root, here);
    g_autoptr(IpbBeneath) directory =
        files != NULL ? ipb_beneath_open_in(here, path, 0755, error) : NULL;
    if (directory == NULL || !ipb_generated_package_write(files, directory, options->server_name,
                                                          NULL, NULL, &note, error))
        return false;
    if (note != NULL)
        fprintf(stderr, "%s\n", note);
    for (char **module = modules; *module != NULL; module++)
        puts(*module);
    return true;
}

int
main(int argc, char **argv)
{
    IpbApigenOptions options = {.registration_id = "0123456789abcdef0123456789abcdef"};
    int at = 1;
    for (; argc > at && g_str_has_prefix(argv[at], "--"); at++) {
        if (g_str_equal(argv[at], "--async"))
            options.async_api = true;
        else
            options.listing =
                g_str_equal(argv[at], "--stubs") ? IPB_APIGEN_STUBS : IPB_APIGEN_SIGNATURES;
    }
    if (argc - at != 2) {
        fprintf(stderr,
                "usage: apigen-tool [--async] [--signatures | --stubs] SERVER ROOT < tools.json\n");
        return 2;
    }
    options.server_name = argv[at];
    g_autoptr(GByteArray) text = read_all(stdin);
    g_autoptr(GError) error = NULL;
    if (!generate(text, &options, argv[at + 1], &error)) {
        fprintf(stderr, "%s\n", error->message);
        return 1;
    }
    return 0;
}
