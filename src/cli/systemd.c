/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocols of a service manager; see the header.
 */
#include "cli/systemd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

/* The number of the first socket. */
#define FIRST_FD 3

/* --- sockets that listen already -------------------------------------------------------------- */

static bool
read_number(const char *name, guint64 max, guint64 *ret_number, GError **error)
{
    const char *text = g_getenv(name);
    *ret_number = 0;
    if (text == NULL || g_ascii_string_to_unsigned(text, 10, 0, max, ret_number, NULL))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "the variable %s must be a number, at most %" PRIu64, name, (uint64_t) max);
    return false;
}

static bool
take(int ret_fds[IPB_ACTIVATION_MAX], size_t *ret_n, GError **error)
{
    guint64 pid, n;
    if (!read_number("LISTEN_PID", G_MAXINT, &pid, error))
        return false;
    if (pid != (guint64) getpid())
        return true; /* they are for another program */
    if (!read_number("LISTEN_FDS", IPB_ACTIVATION_MAX, &n, error))
        return false;
    for (int i = 0; i < (int) n; i++) {
        int fd = FIRST_FD + i;
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "LISTEN_FDS is %d, but there is no file descriptor %d", (int) n, fd);
            return false;
        }
        if (!ipb_fd_set_nonblocking(fd, true, error))
            return false;
        ret_fds[i] = fd;
    }
    *ret_n = (size_t) n;
    return true;
}

bool
ipb_activation_take(int ret_fds[IPB_ACTIVATION_MAX], size_t *ret_n, GError **error)
{
    static const char *const VARIABLES[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"};
    *ret_n = 0;
    bool ok = take(ret_fds, ret_n, error);
    for (size_t i = 0; i < G_N_ELEMENTS(VARIABLES); i++)
        g_unsetenv(VARIABLES[i]);
    return ok;
}

/* --- reports ---------------------------------------------------------------------------------- */

struct IpbNotifier {
    int fd;
    struct sockaddr_un address;
    socklen_t size;
};

static IpbNotifier *
open_notifier(const char *name, GError **error)
{
    size_t size = strlen(name);
    IpbNotifier *notifier = g_new0(IpbNotifier, 1);
    notifier->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notifier->fd < 0 || (name[0] != '/' && name[0] != '@') || size < 2 ||
        size >= sizeof notifier->address.sun_path) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the variable NOTIFY_SOCKET must be the path of a socket, not \"%s\"", name);
        ipb_notifier_free(notifier);
        return NULL;
    }
    notifier->address.sun_family = AF_UNIX;
    memcpy(notifier->address.sun_path, name, size);
    if (name[0] == '@')
        notifier->address.sun_path[0] = '\0'; /* in the abstract namespace */
    notifier->size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + size);
    return notifier;
}

bool
ipb_notifier_new(IpbNotifier **ret_notifier, GError **error)
{
    const char *name = g_getenv("NOTIFY_SOCKET");
    *ret_notifier = NULL;
    if (name == NULL || *name == '\0')
        return true;
    *ret_notifier = open_notifier(name, error);
    g_unsetenv("NOTIFY_SOCKET");
    return *ret_notifier != NULL;
}

void
ipb_notifier_send(const IpbNotifier *notifier, const char *state)
{
    if (notifier != NULL)
        sendto(notifier->fd, state, strlen(state), MSG_NOSIGNAL,
               (const struct sockaddr *) &notifier->address, notifier->size);
}

void
ipb_notifier_send_reloading(const IpbNotifier *notifier)
{
    g_autofree char *state =
        g_strdup_printf("RELOADING=1\nMONOTONIC_USEC=%" PRId64, g_get_monotonic_time());
    ipb_notifier_send(notifier, state);
}

void
ipb_notifier_free(IpbNotifier *notifier)
{
    if (notifier == NULL)
        return;
    ipb_fd_close(&notifier->fd);
    g_free(notifier);
}
