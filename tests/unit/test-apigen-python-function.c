/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions are found in Python sources as Python would find them, and shown on one line.
 */
#include "apigen/python-function.h"

#include <glib.h>

static void
check(const char *source, const char *signature, const char *summary)
{
    IpbPythonFunction function;
    g_assert_cmpint(ipb_python_function_find(source, "run", &function), ==, signature != NULL);
    g_assert_cmpstr(function.signature, ==, signature);
    g_assert_cmpstr(function.summary, ==, summary);
    ipb_python_function_clear(&function);
}

static void
test_signatures(void)
{
    check("def run(): ...", "def run()", NULL);
    check("import x\n\nasync  def run(a: int=1)->str :\n    \"\"\"Does it.\"\"\"\n",
          "async def run(a: int=1)->str", "Does it.");
    check("def run(\n    a: str,\n    # what it is\n    b: int = 3,  # how many )\n) -> list[A]:\n"
          "    pass\n",
          "def run(a: str, b: int = 3) -> list[A]", NULL);
    check("def run(a=(1,), b={'x': [1, 2]}, c=lambda: 0): pass",
          "def run(a=(1,), b={'x': [1, 2]}, c=lambda: 0)", NULL);
    check("def run(a=\"#):\", b='''x\ny''', c='\\'):'): 0",
          "def run(a=\"#):\", b='''x y''', c='\\'):')", NULL);
    check("def run(a, \\\n    b): 'Text'", "def run(a, b)", "Text");
}

static void
test_summaries(void)
{
    check("def run():\n    # why\n    r'''\n    First.  \n\n    Second.\n    '''\n", "def run()",
          "First.");
    check("def run():\n    ''\n", "def run()", NULL);
    check("def run():\n    \"\"\"   \"\"\"\n", "def run()", NULL);
    check("def run():\n    x = 'no'\n", "def run()", NULL);
    check("def run():\n    'open\n", "def run()", NULL);
}

static void
test_others_are_ignored(void)
{
    check("", NULL, NULL);
    check("def runner(): pass\ndefrun(): pass\n", NULL, NULL);
    check("if x:\n    def run(): pass\n", NULL, NULL);
    check("'''\ndef run(): pass\n'''\n", NULL, NULL);
    check("(\ndef run(): pass\n)\n", NULL, NULL);
    check("# \\\n x\\\ndef run(): pass\n", NULL, NULL);
    check("def run(a", NULL, NULL);
    check("def run(a))(: pass", NULL, NULL);
    check("def run(a): 1\ndef run(b): 2\n", "def run(b)", NULL);
}

static void
test_long_ones_are_cut(void)
{
    g_autofree char *name = g_strnfill(3000, 'a');
    g_autofree char *source = g_strdup_printf("async def run(%s):\n  '%s'\n", name, name);
    g_autofree char *cut = g_strnfill(200, 'a');
    g_autofree char *summary = g_strconcat(cut, "…", NULL);
    check(source, "async def run(…)", summary);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/python-function/signatures", test_signatures);
    g_test_add_func("/python-function/summaries", test_summaries);
    g_test_add_func("/python-function/others", test_others_are_ignored);
    g_test_add_func("/python-function/long", test_long_ones_are_cut);
    return g_test_run();
}
