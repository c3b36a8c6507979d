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
    char *place;
    char *directory; /* "images" in the place, not there yet */
} Fixture;

static void
set_up(Fixture *fixture, const void *unused)
{
    fixture->place = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    fixture->directory = g_build_filename(fixture->place, "images", NULL);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    g_assert_true(ipb_file_remove_tree(fixture->place, NULL));
    g_free(fixture->place);
    g_free(fixture->directory);
}

static char *
save(const char *bundle, const Fixture *fixture, GError **error)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(bundle, strlen(bundle), &IPB_JSON_LIMITS_SMALL, NULL);
    char *path = NULL;
    bool saved =
        ipb_images_save(ipb_json_root(doc), fixture->directory, fixture->place, &path, error);
    g_assert_true(saved || path == NULL);
    return path;
}

static void
test_saves(Fixture *fixture, const void *unused)
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
test_refuses(Fixture *fixture, const void *unused)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(save("{\"image/png\":\"bm8gcGljdHVyZQ==\"}", fixture, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_cmpint(symlink(fixture->place, fixture->directory), ==, 0);
    g_assert_null(save("{\"image/png\":\"" PNG_BASE64 "\"}", fixture, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
}

/* The limit of file sizes: an error that names the file, which is not left half written. */
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
    g_assert_cmpint(g_rmdir(fixture->directory), ==, 0); /* it is empty */
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/session/images/saves", Fixture, NULL, set_up, test_saves, tear_down);
    g_test_add("/session/images/no-image", Fixture, NULL, set_up, test_no_image, tear_down);
    g_test_add("/session/images/refuses", Fixture, NULL, set_up, test_refuses, tear_down);
    g_test_add("/session/images/too-large", Fixture, NULL, set_up, test_too_large, tear_down);
    return g_test_run();
}
