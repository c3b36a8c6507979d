/* SPDX-License-Identifier: Apache-2.0 */
#include "notebook/outputs.h"

#include <string.h>

#include "base/error.h"

typedef struct {
    IpbOutputs *outputs;
    size_t cell;
} Fixture;

static void
set_up(Fixture *fixture, const void *data)
{
    fixture->outputs = ipb_outputs_new();
    fixture->cell = ipb_outputs_add_cell(fixture->outputs);
}

static void
tear_down(Fixture *fixture, const void *data)
{
    ipb_outputs_free(fixture->outputs);
}

static bool
show(Fixture *fixture, size_t cell, const char *data, const char *id, GError **error)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(data, strlen(data), &IPB_JSON_LIMITS_SMALL, NULL);
    return ipb_outputs_add_bundle(fixture->outputs, cell, IPB_OUTPUT_DISPLAY,
                                  ipb_json_root(document), NULL, id, 0, error);
}

static bool
update(Fixture *fixture, const char *data, const char *id)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(data, strlen(data), &IPB_JSON_LIMITS_SMALL, NULL);
    return ipb_outputs_update(fixture->outputs, ipb_json_root(document), NULL, id, NULL);
}

/* The outputs of a cell, as "name:text|data|…". */
static void
assert_outputs(const Fixture *fixture, size_t cell, const char *expected)
{
    const GPtrArray *list = ipb_outputs_get(fixture->outputs, cell);
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < list->len; i++) {
        const IpbNotebookOutput *output = g_ptr_array_index(list, i);
        if (output->kind == IPB_OUTPUT_STREAM)
            g_string_append_printf(text, "%s:%s|", output->is_stderr ? "err" : "out",
                                   output->text->str);
        else
            g_string_append_printf(text, "%s|",
                                   output->bundle != NULL ? output->bundle->data : output->ename);
    }
    g_assert_cmpstr(text->str, ==, expected);
}

static void
test_streams(Fixture *fixture, const void *data)
{
    IpbOutputs *outputs = fixture->outputs;
    ipb_outputs_add_text(outputs, 0, false, "a");
    ipb_outputs_add_text(outputs, 0, false, "b");
    ipb_outputs_add_text(outputs, 0, true, "");
    ipb_outputs_add_text(outputs, 0, false, "c");
    ipb_outputs_add_text(outputs, 0, true, "d");
    ipb_outputs_add_text(outputs, 0, false, "e");
    ipb_outputs_add_error(outputs, 0, "E", "v", "t");
    ipb_outputs_add_text(outputs, 0, false, "f");
    assert_outputs(fixture, 0, "out:abc|err:d|out:e|E|out:f|");
}

/* A line before it, and one after it, if the cell writes again. */
static void
test_unknown(Fixture *fixture, const void *data)
{
    IpbOutputs *outputs = fixture->outputs;
    ipb_outputs_set_unknown(outputs, 0, false);
    ipb_outputs_add_text(outputs, 0, false, "a");
    for (int i = 0; i < 2; i++) {
        ipb_outputs_set_unknown(outputs, 0, true);
        ipb_outputs_add_text(outputs, 0, false, "b\n");
    }
    ipb_outputs_set_unknown(outputs, 0, false);
    ipb_outputs_add_text(outputs, 0, true, "c");
    ipb_outputs_set_unknown(outputs, 0, true);
    g_assert_true(show(fixture, 0, "{\"text/plain\":\"d\"}", NULL, NULL));
    assert_outputs(fixture, 0,
                   "out:a\n[ipybox] written by code of an unknown cell:\nb\nb\n"
                   "[ipybox] written by this cell:\n|err:c|"
                   "out:[ipybox] written by code of an unknown cell:\n|{\"text/plain\":\"d\"}|");
}

static void
test_clear(Fixture *fixture, const void *data)
{
    IpbOutputs *outputs = fixture->outputs;
    ipb_outputs_add_text(outputs, 0, false, "a");
    ipb_outputs_clear(outputs, 0, true);
    assert_outputs(fixture, 0, "out:a|");
    ipb_outputs_add_text(outputs, 0, false, "b");
    assert_outputs(fixture, 0, "out:b|");
    ipb_outputs_clear(outputs, 0, true);
    ipb_outputs_clear(outputs, 0, false);
    assert_outputs(fixture, 0, "");
    ipb_outputs_add_text(outputs, 0, false, "c");
    ipb_outputs_add_text(outputs, 0, false, "d");
    assert_outputs(fixture, 0, "out:cd|");
}

static void
test_updates(Fixture *fixture, const void *data)
{
    size_t other = ipb_outputs_add_cell(fixture->outputs);
    g_assert_true(show(fixture, 0, "{\"a\":\"1\"}", "x", NULL));
    g_assert_true(show(fixture, other, "{\"a\":\"2\"}", "x", NULL));
    g_assert_true(show(fixture, other, "{\"a\":\"3\"}", NULL, NULL));
    assert_outputs(fixture, 0, "{\"a\":\"2\"}|"); /* a display with its id updates it, too */
    g_assert_true(update(fixture, "{\"a\":\"4\"}", "x"));
    g_assert_true(update(fixture, "{\"a\":\"5\"}", "unknown"));
    g_assert_true(update(fixture, "{\"a\":\"6\"}", NULL));
    assert_outputs(fixture, 0, "{\"a\":\"4\"}|");
    assert_outputs(fixture, other, "{\"a\":\"4\"}|{\"a\":\"3\"}|");
    ipb_outputs_clear(fixture->outputs, 0, false); /* its display is gone, the other one is not */
    g_assert_true(update(fixture, "{\"a\":\"7\"}", "x"));
    assert_outputs(fixture, 0, "");
    assert_outputs(fixture, other, "{\"a\":\"7\"}|{\"a\":\"3\"}|");
    ipb_outputs_forget_displays(fixture->outputs);
    g_assert_true(update(fixture, "{\"a\":\"8\"}", "x"));
    assert_outputs(fixture, other, "{\"a\":\"7\"}|{\"a\":\"3\"}|");
}

static void
test_wrong_bundles(Fixture *fixture, const void *data)
{
    static const char *const WRONG[] = {"[]", "1", "{\"text/plain\":1}", "{\"a\\u0000b\":\"x\"}"};
    for (size_t i = 0; i < G_N_ELEMENTS(WRONG); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_false(show(fixture, 0, WRONG[i], NULL, &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
    }
    g_assert_true(show(fixture, 0, "{\"application/x+json\":1}", NULL, NULL));
    g_assert_true(show(fixture, 0, "{\"application/json\":[]}", NULL, NULL));
}

/* Many displays with one id count as many, because a document has all of them. */
static void
test_size(Fixture *fixture, const void *data)
{
    g_autofree char *text = g_strnfill(4 * 1024 * 1024, 'x');
    g_autofree char *large = g_strdup_printf("{\"a\":\"%s\"}", text);
    for (int i = 0; i < 150; i++)
        g_assert_true(show(fixture, 0, "{}", "x", NULL));
    g_assert_true(ipb_outputs_check_size(fixture->outputs, NULL));
    g_assert_false(update(fixture, large, "x"));
    g_assert_false(ipb_outputs_check_size(fixture->outputs, NULL));
    ipb_outputs_clear(fixture->outputs, 0, false);
    g_assert_true(ipb_outputs_check_size(fixture->outputs, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/outputs/streams", Fixture, NULL, set_up, test_streams, tear_down);
    g_test_add("/outputs/unknown", Fixture, NULL, set_up, test_unknown, tear_down);
    g_test_add("/outputs/clear", Fixture, NULL, set_up, test_clear, tear_down);
    g_test_add("/outputs/updates", Fixture, NULL, set_up, test_updates, tear_down);
    g_test_add("/outputs/wrong-bundles", Fixture, NULL, set_up, test_wrong_bundles, tear_down);
    g_test_add("/outputs/size", Fixture, NULL, set_up, test_size, tear_down);
    return g_test_run();
}
