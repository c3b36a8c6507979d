/* SPDX-License-Identifier: Apache-2.0 */
#include "base/html-text.h"

#include <string.h>

#include <glib.h>

static void
check(const char *html, const char *wanted)
{
    g_autofree char *text = ipb_html_text(html);
    g_assert_cmpstr(text, ==, wanted);
}

static void
test_text(void)
{
    check("", "");
    check("plain", "plain");
    check(" a\n\n  b <b>bold</b>er ", "a b bolder");
    check("<p>one</p>\n<p>two</p>", "one\ntwo");
    check("<h1>Title</h1><div>a<div>b</div></div>c", "Title\na\nb\nc");
    check("a<br>b<br/><BR>c", "a\nb\n\nc");
    check("<ul><li>x</li><li>y</li></ul>", "x\ny");
    check("x<pre>  a\n    b</pre>c  d", "x\n  a\n    b\nc d");
    check("ü<b>€</b>", "ü€");
}

static void
test_tables(void)
{
    check("<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n"
          "<tbody><tr><td>1</td><td></td><td><div>x</div> <p>y</p></td></tr></tbody></table>z",
          "a\tb\n1\t\tx y\nz");
}

static void
test_references(void)
{
    check("&lt;b&gt; &amp;amp; &quot;&apos;&#39;", "<b> &amp; \"''");
    check("&#8364;&#x20AC;&hellip;x&nbsp;&nbsp;y", "€€…x  y");
    check("&bogus; &#0; &#xd800; &#99999999; & &;", "&bogus; &#0; &#xd800; &#99999999; & &;");
    check("AT&T", "AT&T");
}

static void
test_what_is_no_text(void)
{
    check("<style>p { color: red }</style>a<script>if (a < b) x(\"</p>\")</script>b", "ab");
    check("<!DOCTYPE html><html><head><title>t</title></head><body>x<!-- <p>no</p> -->y</body>",
          "xy");
    check("<a title=\"1 > 0\" href='x>y'>link</a>", "link");
    check("<audio controls>Your browser does not support it.</audio>", "");
    check("<iframe src=\"x\"></iframe>", "");
    check("<SCRIPT>a</script >b", "b");
}

/* Text that is not HTML, and elements that never end. */
static void
test_mess(void)
{
    check("1 < 2 and 3 > 2", "1 < 2 and 3 > 2");
    check("a <", "a <");
    check("a <b", "a");
    check("a <b title=\"x>", "a");
    check("a <!-- b", "a");
    check("a <script> b", "a");
    check("</pre></table></tr>a  b", "a b");
    check("<td>a<td>b", "a\tb");
    g_autoptr(GString) much = g_string_new(NULL);
    for (int i = 0; i < 100000; i++)
        g_string_append(much, "<script<b");
    check(much->str, "");
}

static void
test_much(void)
{
    g_autoptr(GString) much = g_string_new("x");
    while (much->len < (9 << 20))
        g_string_append(much, "<b>é</b>");
    g_autofree char *text = ipb_html_text(much->str);
    g_assert_true(g_str_has_prefix(text, "xéé") && g_utf8_validate(text, -1, NULL));
    g_assert_true(
        g_str_has_suffix(text, "é\n[The HTML is longer than 8 MiB: what follows is left out]"));
    g_string_set_size(much, 8 << 20);
    g_autofree char *whole = ipb_html_text(much->str);
    g_assert_null(strchr(whole, '['));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/html-text/text", test_text);
    g_test_add_func("/base/html-text/tables", test_tables);
    g_test_add_func("/base/html-text/references", test_references);
    g_test_add_func("/base/html-text/what-is-no-text", test_what_is_no_text);
    g_test_add_func("/base/html-text/mess", test_mess);
    g_test_add_func("/base/html-text/much", test_much);
    return g_test_run();
}
