/* SPDX-License-Identifier: Apache-2.0
 *
 * New configurations for a sandbox that runs; see the header.
 */
#include "cli/sandbox-control.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "json/lines.h"

/* As of a configuration's file. */
#define MAX_LINE (1024 * 1024)
#define READ_SIZE (64 * 1024)

struct IpbSandboxControl {
    IpbSandboxControlOptions options;
    int fd; /* borrowed */
    IpbWatch *watch;
    IpbLineReader reader;
};

static void
take_line(const IpbSandboxControl *control, const char *line, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbSandboxPolicy) policy =
        ipb_sandbox_policy_parse(line, size, "--control-fd", &error);
    if (policy != NULL)
        control->options.on_policy(policy, control->options.data);
    else
        control->options.on_bad_line(error, control->options.data);
}

static void
take_lines(IpbSandboxControl *control)
{
    const char *line;
    size_t size;
    while (ipb_line_reader_next(&control->reader, &line, &size))
        if (size > 0)
            take_line(control, line, size);
}

static void
end(IpbSandboxControl *control)
{
    g_clear_pointer(&control->watch, ipb_watch_free);
}

static void
on_input(uint32_t events, void *data)
{
    IpbSandboxControl *control = data;
    g_autoptr(GError) error = NULL;
    char bytes[READ_SIZE];
    ssize_t n = read(control->fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        ipb_error_set_errno(&error, errno, "--control-fd cannot be read any more");
    if (n <= 0 || !ipb_line_reader_push(&control->reader, bytes, (size_t) n, &error)) {
        end(control);
        if (error != NULL)
            control->options.on_broken(error, control->options.data);
        return;
    }
    take_lines(control);
}

IpbSandboxControl *
ipb_sandbox_control_new(IpbLoop *loop, int fd, const IpbSandboxControlOptions *options,
                        GError **error)
{
    IpbSandboxControl *control = g_new0(IpbSandboxControl, 1);
    control->options = *options;
    control->fd = fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    ipb_line_reader_init(&control->reader, MAX_LINE);
    if (ipb_fd_set_nonblocking(fd, true, error))
        control->watch = ipb_watch_new(loop, fd, EPOLLIN, on_input, control, error);
    if (control->watch == NULL)
        g_clear_pointer(&control, ipb_sandbox_control_free);
    return control;
}

void
ipb_sandbox_control_free(IpbSandboxControl *control)
{
    if (control == NULL)
        return;
    ipb_watch_free(control->watch);
    ipb_line_reader_clear(&control->reader);
    g_free(control);
}
