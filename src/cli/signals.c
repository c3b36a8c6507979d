/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals of the program; see the header.
 */
#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <glib-unix.h>

#include "base/error.h"
#include "base/fd.h"

struct IpbSignals {
    int fd;
    guint source;
    sigset_t blocked; /* before */
    int numbers[IPB_SIGNALS_MAX];
    struct sigaction actions[IPB_SIGNALS_MAX]; /* before */
    size_t n;
    void (*func)(int number, void *data);
    void *data;
};

static gboolean
on_readable(int fd, GIOCondition condition, gpointer data)
{
    IpbSignals *signals = data;
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) == sizeof info)
        signals->func((int) info.ssi_signo, signals->data); /* may free it */
    return G_SOURCE_CONTINUE;
}

IpbSignals *
ipb_signals_new(const int *numbers, size_t n_numbers, void (*func)(int number, void *data),
                void *data, GError **error)
{
    g_assert(n_numbers <= IPB_SIGNALS_MAX);
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < n_numbers; i++)
        sigaddset(&set, numbers[i]);
    ipb_autofd fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        ipb_error_set_errno(error, errno, "cannot watch signals");
        return NULL;
    }
    IpbSignals *signals = g_new0(IpbSignals, 1);
    signals->func = func;
    signals->data = data;
    pthread_sigmask(SIG_BLOCK, &set, &signals->blocked);
    for (size_t i = 0; i < n_numbers; i++) {
        signals->numbers[i] = numbers[i];
        /* An ignored signal is never pending. */
        sigaction(numbers[i], &(struct sigaction){.sa_handler = SIG_DFL}, &signals->actions[i]);
    }
    signals->n = n_numbers;
    signals->fd = ipb_fd_steal(&fd);
    signals->source = g_unix_fd_add(signals->fd, G_IO_IN, on_readable, signals);
    return signals;
}

void
ipb_signals_free(IpbSignals *signals)
{
    if (signals == NULL)
        return;
    g_source_remove(signals->source);
    ipb_fd_close(&signals->fd);
    for (size_t i = 0; i < signals->n; i++)
        sigaction(signals->numbers[i], &signals->actions[i], NULL);
    pthread_sigmask(SIG_SETMASK, &signals->blocked, NULL);
    g_free(signals);
}
