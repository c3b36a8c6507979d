/* SPDX-License-Identifier: Apache-2.0
 *
 * The audit log; see the header. A full disk, or a limit on file sizes, may leave a part of a line.
 * The next write then begins on a new line, so that only one line is lost.
 */
#include "tools/audit-log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/fd.h"

/* Longer arguments are recorded as their size and digest. */
#define MAX_ARGUMENTS (64 * 1024)
#define MAX_RETRIES 16

struct IpbAuditLog {
    char *path;
    int fd;
    char *session; /* identifies the session, because several may write to one file */
    bool is_line_broken;
};

static const char *const DECIDERS[] = {
    [IPB_DECIDED_BY_POLICY] = "policy",   [IPB_DECIDED_BY_RULE] = "rule",
    [IPB_DECIDED_BY_USER] = "user",       [IPB_DECIDED_BY_NOBODY] = "nobody",
    [IPB_DECIDED_BY_TIMEOUT] = "timeout", [IPB_DECIDED_BY_CANCEL] = "cancel",
    [IPB_DECIDED_BY_LIMIT] = "limit",
};

/* -1 with @error. */
static int
open_file(const char *base, const char *path, GError **error)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    g_autofree char *parent = g_path_get_dirname(absolute);
    g_autofree char *name = g_path_get_basename(absolute);
    g_autoptr(IpbBeneath) directory = NULL;
    if (base != NULL && ipb_beneath_contains(base, parent)) {
        directory = ipb_beneath_open_in(base, parent, 0, error);
        if (directory == NULL) {
            g_prefix_error(error, "cannot open the audit log %s: ", path);
            return -1;
        }
    }
    int fd = directory != NULL ? openat(ipb_beneath_fd(directory), name, flags, 0600)
                               : open(absolute, flags, 0600);
    if (fd < 0)
        ipb_error_set_errno(error, errno, "cannot open the audit log %s", path);
    return fd;
}

IpbAuditLog *
ipb_audit_log_open(const char *base, const char *path, GError **error)
{
    ipb_autofd fd = open_file(base, path, error);
    struct stat status;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) < 0) {
        ipb_error_set_errno(error, errno, "cannot open the audit log %s", path);
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the audit log %s is not a regular file", path);
        return NULL;
    }
    IpbAuditLog *log = g_new0(IpbAuditLog, 1);
    log->path = g_strdup(path);
    log->fd = ipb_fd_steal(&fd);
    log->session = g_uuid_string_random();
    return log;
}

void
ipb_audit_log_free(IpbAuditLog *log)
{
    if (log == NULL)
        return;
    ipb_fd_close(&log->fd);
    g_free(log->session);
    g_free(log->path);
    g_free(log);
}

static void
write_time(IpbJsonWriter *writer)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *seconds = g_date_time_format(now, "%Y-%m-%dT%H:%M:%S");
    g_autofree char *text =
        g_strdup_printf("%s.%03dZ", seconds, g_date_time_get_microsecond(now) / 1000);
    ipb_json_member_string(writer, "time", text);
}

static void
write_arguments(IpbJsonWriter *writer, const IpbDecision *decision)
{
    if (decision->arguments_size <= MAX_ARGUMENTS) {
        ipb_json_key(writer, "arguments");
        ipb_json_write_raw(writer, decision->arguments_json, decision->arguments_size);
        return;
    }
    g_autofree char *digest = g_compute_checksum_for_data(
        G_CHECKSUM_SHA256, (const unsigned char *) decision->arguments_json,
        decision->arguments_size);
    ipb_json_member_int(writer, "argumentsSize", (int64_t) decision->arguments_size);
    ipb_json_member_string(writer, "argumentsSha256", digest);
}

/* Only the origin is recorded, because the rest of a URL may be a secret. */
static void
write_origin(IpbJsonWriter *writer, const char *url)
{
    g_autoptr(GUri) uri = g_uri_parse(url, G_URI_FLAGS_NON_DNS, NULL);
    if (uri == NULL || g_uri_get_host(uri) == NULL)
        return;
    g_autofree char *origin = g_uri_join(G_URI_FLAGS_NON_DNS, g_uri_get_scheme(uri), NULL,
                                         g_uri_get_host(uri), g_uri_get_port(uri), "", NULL, NULL);
    ipb_json_member_string(writer, "url", origin);
}

/* Without environment and headers, which hold the secrets. ${NAME} stays as it was written. */
static void
write_command(IpbJsonWriter *writer, const char *server_params)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(server_params, strlen(server_params), &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *root = document != NULL ? ipb_json_root(document) : NULL;
    const char *command = ipb_json_get_string(root, "command");
    const char *url = ipb_json_get_string(root, "url");
    if (command != NULL) {
        ipb_json_key(writer, "command");
        ipb_json_begin_array(writer);
        ipb_json_write_string(writer, command);
        const IpbJson *args = ipb_json_get(root, "args");
        if (ipb_json_is(args, IPB_JSON_ARRAY))
            IPB_JSON_FOREACH (arg, args)
                ipb_json_write_value(writer, arg);
        ipb_json_end_array(writer);
    } else if (url != NULL) {
        write_origin(writer, url);
    }
}

void
ipb_audit_log_write_decision(IpbJsonWriter *writer, const IpbDecision *decision)
{
    ipb_json_member_int(writer, "request", (int64_t) decision->request);
    ipb_json_member_string(writer, "server", decision->server_name);
    if (decision->server_params != NULL) {
        ipb_json_member_bool(writer, "registered", false);
        write_command(writer, decision->server_params);
    }
    ipb_json_member_string(writer, "tool", decision->tool_name);
    write_arguments(writer, decision);
    ipb_json_member_string(writer, "decision", decision->is_allowed ? "allow" : "deny");
    ipb_json_member_string(writer, "by", DECIDERS[decision->by]);
    if (decision->rule > 0)
        ipb_json_member_int(writer, "rule", decision->rule);
    if (decision->reason != NULL)
        ipb_json_member_string(writer, "reason", decision->reason);
}

static char *
make_line(const IpbAuditLog *log, const IpbDecision *decision, size_t *ret_size)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_time(writer);
    ipb_json_member_string(writer, "session", log->session);
    ipb_audit_log_write_decision(writer, decision);
    ipb_json_end_object(writer);
    g_autofree char *json = ipb_json_writer_finish(writer, NULL);
    char *line = g_strconcat(log->is_line_broken ? "\n" : "", json, "\n", NULL);
    *ret_size = strlen(line);
    return line;
}

bool
ipb_audit_log_write(IpbAuditLog *log, const IpbDecision *decision, GError **error)
{
    size_t size;
    g_autofree char *line = make_line(log, decision, &size);
    ssize_t n;
    for (int i = 0;
         (n = ipb_fd_write(log->fd, line, size)) < 0 && errno == EINTR && i < MAX_RETRIES;)
        i++;
    if (n == (ssize_t) size) {
        log->is_line_broken = false;
        return true;
    }
    int saved_errno = n < 0 ? errno : ipb_fd_explain_short_write(log->fd);
    log->is_line_broken = log->is_line_broken || n > 0;
    return ipb_error_set_errno(error, saved_errno, "cannot write to the audit log %s", log->path);
}
