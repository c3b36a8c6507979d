/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may call: names and tokens. The errors of files are tested in tests/integration.
 */
#include "serve/mcp-http/principals.h"

#include <string.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/file.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static bool
finds(const IpbPrincipals *principals, const char *token, size_t *ret_index)
{
    return ipb_principals_find(principals, (IpbSpan){token, strlen(token)}, ret_index);
}

static void
test_one(void)
{
    g_autoptr(GError) error = NULL, refused = NULL;
    g_autoptr(IpbPrincipals) principals = ipb_principals_new(TOKEN, &error);
    size_t index;
    g_assert_no_error(error);
    g_assert_cmpuint(ipb_principals_count(principals), ==, 1);
    g_assert_true(finds(principals, TOKEN, &index));
    g_assert_cmpuint(index, ==, 0);
    g_assert_false(finds(principals, OTHER, &index));
    g_assert_false(finds(principals, "", &index));
    g_assert_false(finds(principals, TOKEN "0", &index));
    g_assert_null(ipb_principals_new("short", &refused));
    g_assert_error(refused, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static void
test_file(void)
{
    static const char TEXT[] = "# names\n\n  alice\t" TOKEN "  \r\nb.o-b_ " OTHER;
    g_autoptr(GError) error = NULL;
    g_autofree char *directory = ipb_file_make_temp_directory(NULL, "ipb-test-", &error);
    g_autofree char *path = g_build_filename(directory, "tokens", NULL);
    ipb_file_write_atomic(path, TEXT, strlen(TEXT), 0600, &error);
    g_assert_no_error(error);
    g_autoptr(IpbPrincipals) principals = ipb_principals_load(path, &error);
    size_t index;
    g_assert_no_error(error);
    g_assert_cmpuint(ipb_principals_count(principals), ==, 2);
    g_assert_cmpstr(ipb_principals_name(principals, 0), ==, "alice");
    g_assert_true(finds(principals, OTHER, &index));
    g_assert_cmpstr(ipb_principals_name(principals, index), ==, "b.o-b_");
    ipb_file_remove_tree(directory, NULL);
}

/* A file with a NUL, and one that is too large. */
static void
test_hostile_file(void)
{
    g_autoptr(GError) error = NULL, nul = NULL, large = NULL;
    g_autofree char *directory = ipb_file_make_temp_directory(NULL, "ipb-test-", &error);
    g_autofree char *path = g_build_filename(directory, "tokens", NULL);
    g_autofree char *spaces = g_strnfill(2 * 1024 * 1024, ' ');
    ipb_file_write_atomic(path, "a\0" TOKEN, 34, 0600, &error);
    g_assert_null(ipb_principals_load(path, &nul));
    g_assert_error(nul, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    ipb_file_write_atomic(path, spaces, strlen(spaces), 0600, &error);
    g_assert_no_error(error);
    g_assert_null(ipb_principals_load(path, &large));
    g_assert_error(large, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    ipb_file_remove_tree(directory, NULL);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/serve/mcp-http/principals/one", test_one);
    g_test_add_func("/serve/mcp-http/principals/file", test_file);
    g_test_add_func("/serve/mcp-http/principals/hostile-file", test_hostile_file);
    return g_test_run();
}
