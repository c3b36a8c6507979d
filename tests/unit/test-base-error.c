/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of the system say what to do, where the user can do something about them.
 */
#include "base/error.h"

#include <errno.h>

static void
test_advice(void)
{
    const struct {
        int number;
        const char *advice;
    } cases[] = {
        {EMFILE, "raise the limit with ulimit -n"},
        {ETOOMANYREFS, "try again, or raise the limit with ulimit -n"},
        {EAGAIN, "raise the limit of the user (ulimit -u)"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_false(ipb_error_set_errno(&error, cases[i].number, "cannot start %s", "a kernel"));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
        g_assert_true(g_str_has_prefix(error->message, "cannot start a kernel: "));
        g_assert_nonnull(strstr(error->message, cases[i].advice));
    }
}

static void
test_no_advice(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(ipb_error_set_errno(&error, ENOENT, "cannot open x"));
    g_assert_cmpstr(error->message, ==, "cannot open x: No such file or directory");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/error/advice", test_advice);
    g_test_add_func("/error/no-advice", test_no_advice);
    return g_test_run();
}
