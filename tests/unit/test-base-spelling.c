/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>

#include "base/spelling.h"

static const char *const NAMES[] = {"run",    "doctor", "server_name", "max_output_chars",
                                    "logout", NULL};

static void
test_distance(void)
{
    g_assert_cmpuint(ipb_spelling_distance("doctor", "DOCTOR"), ==, 0);
    g_assert_cmpuint(ipb_spelling_distance("dcotor", "doctor"), ==, 2);
    g_assert_cmpuint(ipb_spelling_distance("", "run"), ==, 3);
    g_assert_cmpuint(ipb_spelling_distance("run", ""), ==, 3);
}

static void
test_nearest(void)
{
    g_assert_cmpstr(ipb_spelling_nearest("dcotor", NAMES), ==, "doctor");
    g_assert_cmpstr(ipb_spelling_nearest("rnu", NAMES), ==, NULL);
    g_assert_cmpstr(ipb_spelling_nearest("ru", NAMES), ==, "run");
    g_assert_cmpstr(ipb_spelling_nearest("max_chars", NAMES), ==, "max_output_chars");
    /* A part of a name, although most of the letters are missing. */
    g_assert_cmpstr(ipb_spelling_nearest("name", NAMES), ==, "server_name");
}

static void
test_nothing_is_similar(void)
{
    static const char *const NONE[] = {NULL};
    g_assert_null(ipb_spelling_nearest("foo", NAMES));
    g_assert_null(ipb_spelling_nearest("", NAMES));
    g_assert_null(ipb_spelling_nearest("run", NONE));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/spelling/distance", test_distance);
    g_test_add_func("/base/spelling/nearest", test_nearest);
    g_test_add_func("/base/spelling/nothing-similar", test_nothing_is_similar);
    return g_test_run();
}
