/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

static char *
make_directory(const char *parent, const char *name)
{
    char *path = g_build_filename(parent, name, NULL);
    g_autoptr(GError) error = NULL;
    ipb_file_make_directories(path, 0700, &error);
    g_assert_no_error(error);
    return path;
}

static void
put(const char *directory, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autoptr(GError) error = NULL;
    ipb_file_write_atomic(path, text, strlen(text), 0600, &error);
    g_assert_no_error(error);
}

static void
test_read_write(void)
{
    g_autofree char *temp = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    g_autofree char *path = g_build_filename(temp, "file", NULL);
    put(temp, "file", "one");
    put(temp, "file", "two");
    struct stat status;
    g_assert_cmpint(stat(path, &status), ==, 0);
    g_assert_cmpint(status.st_mode & 0777, ==, 0600);
    g_autofree char *text = NULL;
    size_t size;
    g_assert_true(ipb_file_read(path, 3, &text, &size, NULL));
    g_assert_cmpstr(text, ==, "two");
    g_autoptr(GError) error = NULL;
    g_autofree char *none = NULL;
    g_assert_false(ipb_file_read(path, 2, &none, &size, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_clear_error(&error);
    g_assert_true(ipb_file_remove_tree(temp, NULL));
    g_assert_false(ipb_file_read(path, 10, &none, &size, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_assert_true(ipb_file_remove_tree(temp, NULL)); /* a missing tree is fine */
}

static void *
write_to_fifo(void *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    g_assert_true(ipb_fd_write_all(fd, "through", 7, NULL));
    ipb_fd_close(&fd);
    return NULL;
}

static void
test_fifo(void)
{
    g_autofree char *temp = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    g_autofree char *path = g_build_filename(temp, "fifo", NULL);
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    g_autofree char *text = NULL;
    size_t size;
    g_autoptr(GError) error = NULL;
    g_assert_false(ipb_file_read(path, 100, &text, &size, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_false(ipb_file_read(temp, 100, &text, &size, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    GThread *writer = g_thread_new("writer", write_to_fifo, path);
    g_assert_true(ipb_file_read_to_end(path, 100, &text, &size, &error));
    g_assert_no_error(error);
    g_thread_join(writer);
    g_assert_cmpstr(text, ==, "through");
    g_assert_true(ipb_file_remove_tree(temp, NULL));
}

static void
test_remove_follows_no_link(void)
{
    g_autofree char *temp = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    g_autofree char *kept = make_directory(temp, "kept");
    g_autofree char *tree = make_directory(temp, "tree/deep/deeper");
    put(kept, "file", "kept");
    g_autofree char *link = g_build_filename(tree, "link", NULL);
    g_assert_cmpint(symlink(kept, link), ==, 0);
    g_autofree char *top = g_build_filename(temp, "tree", NULL);
    g_assert_true(ipb_file_remove_tree(top, NULL));
    g_assert_cmpint(access(top, F_OK), ==, -1);
    g_autofree char *file = g_build_filename(kept, "file", NULL);
    g_assert_cmpint(access(file, F_OK), ==, 0);
    g_assert_true(ipb_file_remove_tree(temp, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/file/read-write", test_read_write);
    g_test_add_func("/base/file/fifo", test_fifo);
    g_test_add_func("/base/file/remove-follows-no-link", test_remove_follows_no_link);
    return g_test_run();
}
