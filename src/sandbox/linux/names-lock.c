/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of this process exclude each other by a mutex. Processes do by a lock on our state
 * directory, which code inside cannot open.
 */
#include "sandbox/linux/names-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <glib.h>

#include "base/file.h"

#define TIMEOUT_MS 1000
#define RETRY_MS 2

static GMutex mutex;
static int directory = -1; /* guarded by the mutex; stays open */

void
ipb_names_lock_prepare(void)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    g_mutex_lock(&mutex);
    if (directory < 0) {
        g_autofree char *state = g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
        ipb_file_make_directories(state, 0700, NULL);
        directory = open(state, flags);
    }
    /* There is no such directory, and none can be made. */
    if (directory < 0)
        directory = open("/", flags);
    g_mutex_unlock(&mutex);
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
    bool ok = directory >= 0;
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
