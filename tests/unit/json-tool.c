/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses and rewrites JSON texts, for json-differential.py.
 *
 * It reads texts from stdin until the end. Each text follows a line with its size in bytes. If a
 * text is valid, the answer is "ok SIZE INT\n" and the text as we write it. INT is the value if it
 * is an integer, else "-". If the text is invalid, the answer is "error SIZE -\n" and the message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"
#include "json/writer.h"

#define MAX_TEXT (16 << 20)

static void
rewrite(IpbJsonWriter *writer, const IpbJson *value)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    bool is_object = ipb_json_is(value, IPB_JSON_OBJECT);
    if (text != NULL) {
        ipb_json_write_string_n(writer, text, size);
    } else if (!is_object && !ipb_json_is(value, IPB_JSON_ARRAY)) {
        ipb_json_write_value(writer, value);
    } else {
        is_object ? ipb_json_begin_object(writer) : ipb_json_begin_array(writer);
        IPB_JSON_FOREACH (item, value) {
            if (is_object) {
                const char *name = ipb_json_name(item, &size);
                ipb_json_key_n(writer, name, size);
            }
            rewrite(writer, item);
        }
        is_object ? ipb_json_end_object(writer) : ipb_json_end_array(writer);
    }
}

static void
answer(const char *text, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, &error);
    if (doc == NULL) {
        printf("error %zu -\n%s", strlen(error->message), error->message);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    rewrite(writer, ipb_json_root(doc));
    size_t written_size;
    g_autofree char *written = ipb_json_writer_finish(writer, &written_size);
    int64_t integer;
    if (ipb_json_int64(ipb_json_root(doc), &integer))
        printf("ok %zu %" G_GINT64_FORMAT "\n", written_size, integer);
    else
        printf("ok %zu -\n", written_size);
    fwrite(written, 1, written_size, stdout);
}

int
main(void)
{
    size_t size;
    while (scanf("%zu", &size) == 1 && getchar() == '\n' && size <= MAX_TEXT) {
        g_autofree char *text = g_malloc(size + 1);
        if (fread(text, 1, size, stdin) != size)
            return 1;
        answer(text, size);
    }
    return feof(stdin) ? 0 : 1;
}
