/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file-lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

typedef struct {
    char *directory;
    char *path;
} Place;

static void
set_up(Place *place)
{
    place->directory = ipb_file_make_temp_directory(NULL, "lock-", NULL);
    place->path = g_build_filename(place->directory, "lock", NULL);
}

static void
tear_down(Place *place)
{
    g_assert_true(ipb_file_remove_tree(place->directory, NULL));
    g_free(place->directory);
    g_free(place->path);
}

static void
test_free(void)
{
    Place place;
    struct stat info;
    set_up(&place);
    int lock = ipb_file_lock(place.path, 0, NULL);
    g_assert_cmpint(lock, >=, 0);
    g_assert_cmpint(stat(place.path, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 0777, ==, 0600);
    ipb_fd_close(&lock);
    lock = ipb_file_lock(place.path, 0, NULL);
    g_assert_cmpint(lock, >=, 0);
    ipb_fd_close(&lock);
    tear_down(&place);
}

static void *
run_unlock(void *data)
{
    ipb_fd_close(data);
    return NULL;
}

/* flock locks open files, not processes: a second open file acts like another process. */
static void
test_waits(void)
{
    Place place;
    set_up(&place);
    int first = ipb_file_lock(place.path, 0, NULL);
    GThread *thread = g_thread_new("unlock", run_unlock, &first);
    int second = ipb_file_lock(place.path, 60000, NULL);
    g_assert_cmpint(second, >=, 0);
    g_thread_join(thread);
    ipb_fd_close(&second);
    tear_down(&place);
}

static void
test_gives_up(void)
{
    Place place;
    g_autoptr(GError) error = NULL;
    set_up(&place);
    int first = ipb_file_lock(place.path, 0, NULL);
    g_assert_cmpint(ipb_file_lock(place.path, 10, &error), ==, -1);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    ipb_fd_close(&first);
    /* The thread of the call that timed out gets the lock later, and releases it. */
    int third = ipb_file_lock(place.path, 60000, NULL);
    g_assert_cmpint(third, >=, 0);
    ipb_fd_close(&third);
    tear_down(&place);
}

static void
test_no_directory(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_cmpint(ipb_file_lock("/dev/null/lock", 10, &error), ==, -1);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/file-lock/free", test_free);
    g_test_add_func("/base/file-lock/waits", test_waits);
    g_test_add_func("/base/file-lock/gives-up", test_gives_up);
    g_test_add_func("/base/file-lock/no-directory", test_no_directory);
    return g_test_run();
}
