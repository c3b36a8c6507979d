/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of this process exclude each other by a mutex. Processes do by a lock on our state
 * directory, which code inside cannot open.
 */
#include "sandbox/linux/names-lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <glib.h>

#include "base/fd.h"
#include "base/file.h"

#define TIMEOUT_MS 1000
#define RETRY_US 200

static GMutex mutex;
static unsigned n_users;
static int directory = -1; /* -1: there is no user */
/* Of this process. The lock on the directory belongs to all its threads together. */
static unsigned n_shared;
static bool is_alone;

void
ipb_names_lock_open(void)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    g_mutex_lock(&mutex);
    if (n_users++ == 0) {
        g_autofree char *state = g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
        ipb_file_make_directories(state, 0700, NULL);
        directory = open(state, flags);
        /* There is no such directory, and none can be made. */
        if (directory < 0)
            directory = open("/", flags);
    }
    g_mutex_unlock(&mutex);
}

void
ipb_names_lock_close(void)
{
    g_mutex_lock(&mutex);
    if (--n_users == 0)
        ipb_fd_close(&directory);
    g_mutex_unlock(&mutex);
}

static bool
try_lock(IpbNamesLock kind)
{
    bool is_shared = kind == IPB_NAMES_SHARED;
    if (is_alone || (!is_shared && n_shared > 0))
        return false;
    /* The first of several that share it locks for all. */
    if (n_shared == 0 && flock(directory, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0)
        return false;
    if (is_shared)
        n_shared++;
    else
        is_alone = true;
    return true;
}

bool
ipb_names_lock(IpbNamesLock kind)
{
    gint64 deadline = 0;
    for (;;) {
        g_mutex_lock(&mutex);
        bool ok = try_lock(kind);
        g_mutex_unlock(&mutex);
        if (ok)
            return true;
        gint64 now = g_get_monotonic_time();
        if (deadline == 0)
            deadline = now + TIMEOUT_MS * 1000;
        if (now > deadline)
            return false;
        g_usleep(RETRY_US);
    }
}

void
ipb_names_unlock(IpbNamesLock kind)
{
    g_mutex_lock(&mutex);
    if (kind == IPB_NAMES_SHARED)
        n_shared--;
    else
        is_alone = false;
    if (n_shared == 0)
        flock(directory, LOCK_UN);
    g_mutex_unlock(&mutex);
}
