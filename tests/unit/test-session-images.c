/* SPDX-License-Identifier: Apache-2.0 */
#include "session/images.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/file.h"

#define PNG_BASE64 "iVBORw0KGgoAAAANSUhEUg=="

typedef struct {
    char *parent;
    char *directory; /* "images" in the parent; does not exist yet */
} Fixture;

static void
set_up(Fixture *fixture, const void *unused)
{
    fixture->parent = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    fixture->directory = g_build_filename(fixture->parent, "images", NULL);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    g_assert_true(ipb_file_remove_tree(fixture->parent, NULL));
    g_free(fixture->parent);
    g_free(fixture->directory);
}

static char *
save(const char *bundle, const Fixture *fixture, GError **error)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(bundle, strlen(bundle), &IPB_JSON_LIMITS_SMALL, NULL);
    char *path = NULL;
    bool saved =
        ipb_images_save(ipb_json_root(doc), fixture->directory, fixture->parent, &path, error);
    g_assert_true(saved || path == NULL);
    return path;
}

static void
test_save(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *one = save("{\"image/png\":\"" PNG_BASE64 "\"}", fixture, &error);
    g_assert_no_error(error);
    g_autofree char *two = save("{\"image/png\":\"" PNG_BASE64 "\"}", fixture, &error);
    g_assert_cmpstr(one, !=, two);
    g_assert_true(g_regex_match_simple("/images/[0-9a-f]{8}\\.png$", one, 0, 0));
    g_autofree char *text = NULL;
    size_t size;
    g_assert_true(ipb_file_read(one, 1000, &text, &size, NULL));
    g_assert_cmpuint(size, ==, 16);
    g_assert_cmpint(memcmp(text, "\x89PNG\r\n\x1a\n", 8), ==, 0);
}

static void
test_no_image(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(save("{\"text/plain\":\"x\",\"image/svg+xml\":\"<svg/>\"}", fixture, &error));
    g_assert_no_error(error);
    g_assert_cmpint(access(fixture->directory, F_OK), ==, -1);
}

static void
test_errors(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(save("{\"image/png\":\"bm8gcGljdHVyZQ==\"}", fixture, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_cmpint(symlink(fixture->parent, fixture->directory), ==, 0);
    g_assert_null(save("{\"image/png\":\"" PNG_BASE64 "\"}", fixture, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
}

/* If the file exceeds the limit of file sizes, the error names it, and no partial file is left. */
static void
test_too_large(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    struct rlimit before;
    signal(SIGXFSZ, SIG_DFL);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &(struct rlimit){8, before.rlim_max}), ==, 0);
    g_assert_null(save("{\"image/png\":\"" PNG_BASE64 "\"}", fixture, &error));
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    g_assert_true(g_str_has_prefix(error->message, fixture->directory));
    g_assert_nonnull(strstr(error->message, "ulimit -f"));
    g_assert_cmpint(g_rmdir(fixture->directory), ==, 0); /* so it is empty */
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/session/images/save", Fixture, NULL, set_up, test_save, tear_down);
    g_test_add("/session/images/no-image", Fixture, NULL, set_up, test_no_image, tear_down);
    g_test_add("/session/images/errors", Fixture, NULL, set_up, test_errors, tear_down);
    g_test_add("/session/images/too-large", Fixture, NULL, set_up, test_too_large, tear_down);
    return g_test_run();
}
