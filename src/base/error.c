/* SPDX-License-Identifier: Apache-2.0
 *
 * The error domain; see the header.
 */
#include "base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>

GQuark
ipybox_error_quark(void)
{
    return g_quark_from_static_string("ipybox-error");
}

/* What the user can do about an error of the system; "" if that is not known. */
static char *
make_hint(int saved_errno)
{
    struct rlimit limit;
    if (saved_errno == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        return g_strdup_printf(" (this process may have %" PRIuMAX ": close sessions, or raise the "
                               "limit with ulimit -n)",
                               (uintmax_t) limit.rlim_cur);
    /* Linux counts the descriptors that an ordinary user has in flight, in all sockets. */
    if (saved_errno == ETOOMANYREFS && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        return g_strdup_printf(" (programs of this user are sending more than %" PRIuMAX
                               " file descriptors: try again, or raise the limit with ulimit -n)",
                               (uintmax_t) limit.rlim_cur);
    if (saved_errno == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
        return g_strdup_printf(" (files of this process may have %" PRIuMAX
                               " bytes: raise the limit with ulimit -f)",
                               (uintmax_t) limit.rlim_cur);
    /* Only starting a process or thread is reported with this error. Reads and writes that would
     * wait are not errors. */
    if (saved_errno == EAGAIN)
        return g_strdup(
            " (no more processes and threads are allowed: end some, or raise the limit of "
            "the user (ulimit -u) or of the container)");
    return g_strdup("");
}

bool
ipb_error_set_errno(GError **error, int saved_errno, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_autofree char *hint = make_hint(saved_errno);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "%s: %s%s", text, g_strerror(saved_errno),
                hint);
    return false;
}
