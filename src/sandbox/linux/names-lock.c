/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of this process exclude each other by a mutex. Processes do by a lock on the user's home
 * directory, which exists already.
 */
#include "sandbox/linux/names-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <glib.h>

#define TIMEOUT_MS 1000
#define RETRY_MS 2

static GMutex mutex;
static int directory = -1; /* guarded by the mutex; stays open */

static bool
open_directory(void)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    if (directory < 0)
        directory = open(g_get_home_dir(), flags);
    /* There is no such directory, or the thread of a sandbox of root may not enter it. */
    if (directory < 0)
        directory = open("/", flags);
    return directory >= 0;
}

bool
ipb_names_lock(void)
{
    gint64 deadline = g_get_monotonic_time() + TIMEOUT_MS * 1000;
    while (!g_mutex_trylock(&mutex)) {
        if (g_get_monotonic_time() > deadline) {
            errno = EAGAIN;
            return false;
        }
        g_usleep(RETRY_MS * 1000);
    }
    bool ok = open_directory();
    while (ok && flock(directory, LOCK_EX | LOCK_NB) < 0) {
        ok = errno == EINTR || (errno == EWOULDBLOCK && g_get_monotonic_time() < deadline);
        if (ok)
            g_usleep(RETRY_MS * 1000);
    }
    if (!ok)
        g_mutex_unlock(&mutex);
    return ok;
}

void
ipb_names_unlock(void)
{
    flock(directory, LOCK_UN);
    g_mutex_unlock(&mutex);
}
