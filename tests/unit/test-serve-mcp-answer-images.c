/* SPDX-License-Identifier: Apache-2.0
 *
 * Images in answers: what is shown, what is left out, and for which clients.
 */
#include "serve/mcp/answer-images.h"

#include <string.h>

static const char PNG[] = "\x89PNG\r\n\x1a\n";

/* A bundle with an image of this size; @magic: its first bytes. */
static IpbJsonDoc *
make_bundle(const char *mime_type, const char *magic, size_t size)
{
    g_autofree guchar *image = g_malloc0(size);
    memcpy(image, magic, strlen(magic));
    g_autofree char *base64 = g_base64_encode(image, size);
    g_autofree char *text =
        g_strdup_printf("{\"text/plain\":\"x\",\"%s\":\"%s\"}", mime_type, base64);
    g_autoptr(GError) error = NULL;
    IpbJsonDoc *doc = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_MESSAGE, &error);
    g_assert_no_error(error);
    return doc;
}

static void
add(IpbAnswerImages *images, const char *mime_type, const char *magic, size_t size,
    const char *path)
{
    g_autoptr(IpbJsonDoc) doc = make_bundle(mime_type, magic, size);
    ipb_answer_images_add(images, ipb_json_root(doc), path);
}

/* The content blocks. */
static IpbJsonDoc *
read_content(const IpbAnswerImages *images)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    ipb_answer_images_write(images, writer);
    ipb_json_end_array(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    return ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
}

static void
test_content(void)
{
    g_autoptr(IpbAnswerImages) images = ipb_answer_images_new();
    add(images, "image/png", PNG, 100, "/w/a.png");
    add(images, "image/jpeg", "\xff\xd8\xff", 10, NULL);
    add(images, "image/svg+xml", "<svg/>", 10, NULL);
    g_autoptr(IpbJsonDoc) doc = read_content(images);
    g_assert_cmpuint(ipb_json_length(ipb_json_root(doc)), ==, 2);
    const IpbJson *first = ipb_json_first(ipb_json_root(doc));
    g_assert_cmpstr(ipb_json_get_string(first, "type"), ==, "image");
    g_assert_cmpstr(ipb_json_get_string(first, "mimeType"), ==, "image/png");
    g_assert_cmpstr(ipb_json_get_string(ipb_json_next(first), "mimeType"), ==, "image/jpeg");
    gsize size;
    g_autofree guchar *data = g_base64_decode(ipb_json_get_string(first, "data"), &size);
    g_assert_cmpuint(size, ==, 100);
    g_assert_cmpint(memcmp(data, PNG, strlen(PNG)), ==, 0);
    g_assert_null(ipb_answer_images_note(images));
}

static void
test_limits(void)
{
    g_autoptr(IpbAnswerImages) images = ipb_answer_images_new();
    add(images, "image/png", PNG, 2 << 20, "/w/large.png");
    add(images, "image/png", "no image", 100, "/w/false.png");
    for (int i = 0; i < 6; i++)
        add(images, "image/png", PNG, 1 << 20, "/w/much.png");
    for (int i = 0; i < 1000; i++)
        add(images, "image/png", PNG, 20, "/w/many.png");
    g_autoptr(IpbJsonDoc) doc = read_content(images);
    g_assert_cmpuint(ipb_json_length(ipb_json_root(doc)), ==, 4);
    const char *note = ipb_answer_images_note(images);
    g_assert_true(g_str_has_prefix(note, "[ipybox] Images not shown here: /w/large.png (image/png "
                                         "larger than 1 MiB); /w/false.png ("));
    g_assert_true(g_str_has_suffix(note, "; and more"));
    g_assert_cmpuint(strlen(note), <, 3000);
    g_assert_null(strchr(note, '\n'));
}

static void
test_clients(void)
{
    static const struct {
        const char *name;
        IpbMcpImages images;
    } CASES[] = {
        {NULL, IPB_MCP_IMAGES_PATH},
        {"", IPB_MCP_IMAGES_PATH},
        {"mcp", IPB_MCP_IMAGES_PATH}, /* the Python SDK, which programs for ipybox 0.9 use */
        {"claude-code", IPB_MCP_IMAGES_BOTH},
        {"gemini-cli-mcp-client-ipybox", IPB_MCP_IMAGES_BOTH},
        {"not claude-code", IPB_MCP_IMAGES_PATH},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_assert_cmpint(ipb_answer_images_choose(IPB_MCP_IMAGES_AUTO, CASES[i].name), ==,
                        CASES[i].images);
        g_assert_cmpint(ipb_answer_images_choose(IPB_MCP_IMAGES_CONTENT, CASES[i].name), ==,
                        IPB_MCP_IMAGES_CONTENT);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/serve/mcp/answer-images/content", test_content);
    g_test_add_func("/serve/mcp/answer-images/limits", test_limits);
    g_test_add_func("/serve/mcp/answer-images/clients", test_clients);
    return g_test_run();
}
