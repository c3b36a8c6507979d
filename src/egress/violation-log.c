/* SPDX-License-Identifier: Apache-2.0
 *
 * The violation log; see the header. How fast lines come is bounded by violations.c.
 */
#include "egress/violation-log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "json/writer.h"

struct IpbViolationLog {
    char *path;
    int fd;
    bool is_line_broken; /* a piece of a line is at the end: the next one begins on a new line */
};

IpbViolationLog *
ipb_violation_log_open(const char *path, GError **error)
{
    ipb_autofd fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) {
        ipb_error_set_errno(error, errno, "cannot open the violation log %s", path);
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the violation log %s is no regular file", path);
        return NULL;
    }
    IpbViolationLog *log = g_new0(IpbViolationLog, 1);
    log->path = g_strdup(path);
    log->fd = ipb_fd_steal(&fd);
    return log;
}

void
ipb_violation_log_free(IpbViolationLog *log)
{
    if (log == NULL)
        return;
    ipb_fd_close(&log->fd);
    g_free(log->path);
    g_free(log);
}

static char *
make_line(const IpbViolationLog *log, const IpbViolation *violation)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *time = g_date_time_format(now, "%Y-%m-%dT%H:%M:%SZ");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "time", time);
    ipb_json_member_string(writer, "what", violation->what);
    ipb_json_member_string(writer, "target", violation->target);
    ipb_json_member_string(writer, "reason", violation->reason);
    ipb_json_end_object(writer);
    g_autofree char *json = ipb_json_writer_finish(writer, NULL);
    return g_strconcat(log->is_line_broken ? "\n" : "", json, "\n", NULL);
}

bool
ipb_violation_log_write(IpbViolationLog *log, const IpbViolation *violation, GError **error)
{
    g_autofree char *line = make_line(log, violation);
    size_t size = strlen(line);
    ssize_t n;
    do
        n = ipb_fd_write(log->fd, line, size);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t) size) {
        log->is_line_broken = false;
        return true;
    }
    int saved_errno = n < 0 ? errno : ipb_fd_explain_short_write(log->fd);
    log->is_line_broken = log->is_line_broken || n > 0;
    return ipb_error_set_errno(error, saved_errno, "cannot write to the violation log %s",
                               log->path);
}
