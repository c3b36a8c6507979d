/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/bundle-text.h"

#include <string.h>

static void
check(const char *bundle, const char *wanted)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(bundle, strlen(bundle), &IPB_JSON_LIMITS_SMALL, NULL);
    g_assert_nonnull(doc);
    g_autofree char *text = ipb_bundle_text(ipb_json_root(doc));
    g_assert_cmpstr(text, ==, wanted);
}

/* text/plain is preferred, unless it is the default repr of a class. */
static void
test_plain(void)
{
    check("{}", NULL);
    check("{\"text/plain\":\"2\",\"text/html\":\"<b>3</b>\"}", "2");
    check("{\"text/plain\":\"\",\"text/markdown\":\"m\"}", "");
    check("{\"text/plain\":\"<Figure size 640x480 with 1 Axes>\",\"text/html\":\"h\"}",
          "<Figure size 640x480 with 1 Axes>");
    check("{\"text/plain\":\"<a.B at 0x7f1> and more\",\"text/html\":\"h\"}",
          "<a.B at 0x7f1> and more");
    check("{\"text/plain\":\"<a.B at noon>\",\"text/html\":\"h\"}", "<a.B at noon>");
    check("{\"text/plain\":\"<b>\",\"text/html\":\"h\"}", "<b>");
}

static void
test_default_repr(void)
{
    check("{\"text/plain\":\"<IPython.core.display.Markdown object>\",\"text/markdown\":\"# T\"}",
          "# T");
    check("{\"text/plain\":\"<IPython.core.display.Math object>\",\"text/latex\":\"$x$\"}", "$x$");
    check("{\"text/plain\":\"<a.f.<locals>.B at 0x7fAf>\",\"text/html\":\"<p>h</p>\"}", "h");
    check("{\"text/plain\":\"<a.B object at 0x7f>\",\"text/html\":\"h\",\"text/latex\":\"l\"}",
          "l");
    /* There is no other text. */
    check("{\"text/plain\":\"<a.B at 0x7f>\"}", "<a.B at 0x7f>");
    check("{\"text/plain\":\"<a.B at 0x7f>\",\"text/html\":\"<iframe></iframe>\"}",
          "<a.B at 0x7f>");
    check("{\"text/plain\":\"<a.B at 0x7f>\",\"text/markdown\":\"\",\"image/png\":\"aaaa\"}",
          "<a.B at 0x7f>");
}

static void
test_without_plain(void)
{
    check("{\"text/html\":\"<b>only</b>\"}", "only");
    check("{\"text/markdown\":\"*m*\",\"text/html\":\"h\"}", "*m*");
    check("{\"image/png\":\"aaaa\"}", NULL);
    check("{\"text/html\":1}", NULL);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel/bundle-text/plain", test_plain);
    g_test_add_func("/kernel/bundle-text/default-repr", test_default_repr);
    g_test_add_func("/kernel/bundle-text/without-plain", test_without_plain);
    return g_test_run();
}
