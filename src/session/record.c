/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a session; see the header. The lock (flock) keeps two sessions from mixing their
 * lines: everything after a header, up to the next one, is of one session.
 */
#include "session/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ipybox/version.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/fd.h"
#include "json/writer.h"

/* Bytes of a line. Code of 32 MiB and frames of 64 MiB fit, even if their characters have to be
 * escaped. Readers have the same limit. */
#define MAX_LINE (256u * 1024 * 1024)
#define MAX_RETRIES 16
/* How each header begins. */
#define HEADER_START "{\"type\":\"record\","

struct IpbRecord {
    char *path;
    int fd;              /* -1: the record has ended */
    bool is_line_broken; /* the file ends in a part of a line */
};

/* --- opening ---------------------------------------------------------------------------------- */

/* Opens the file in @directory (AT_FDCWD: an absolute path). *@ret_is_new: it did not exist; NULL:
 * it must exist. */
static int
open_in(int directory, const char *name, bool *ret_is_new)
{
    const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    if (ret_is_new == NULL)
        return openat(directory, name, flags);
    int fd = openat(directory, name, flags | O_CREAT | O_EXCL, 0600);
    *ret_is_new = fd >= 0;
    return fd < 0 && errno == EEXIST ? openat(directory, name, flags) : fd;
}

/* -1 with @error. @ret_is_new: NULL: the file must exist. */
static int
open_file(const char *base, const char *path, bool *ret_is_new, GError **error)
{
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    g_autofree char *parent = g_path_get_dirname(absolute);
    g_autofree char *name = g_path_get_basename(absolute);
    g_autoptr(IpbBeneath) directory = NULL;
    if (base != NULL && ipb_beneath_contains(base, parent)) {
        directory = ipb_beneath_open_in(base, parent, 0, error);
        if (directory == NULL) {
            g_prefix_error(error, "cannot open the record %s: ", path);
            return -1;
        }
    }
    int fd = directory != NULL ? open_in(ipb_beneath_fd(directory), name, ret_is_new)
                               : open_in(AT_FDCWD, absolute, ret_is_new);
    if (fd < 0 && errno == ELOOP)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "cannot open the record %s: it is a symbolic link", path);
    else if (fd < 0)
        ipb_error_set_errno(error, errno, "cannot open the record %s", path);
    return fd;
}

static bool
is_record(int fd)
{
    char start[sizeof HEADER_START - 1];
    ssize_t n;
    do
        n = pread(fd, start, sizeof start, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t) sizeof start && memcmp(start, HEADER_START, sizeof start) == 0;
}

/* Why an existing file is not appended to: it may be another user's, or not be a record. NULL: it
 * may be. */
static const char *
find_problem(int fd, const struct stat *status)
{
    if (!S_ISREG(status->st_mode))
        return "is not a regular file";
    if (status->st_uid != geteuid())
        return "belongs to another user";
    if ((status->st_mode & 07777) != 0600)
        return "can be read by others: its mode must be 0600";
    if (status->st_nlink > 1)
        return "has another name, too (a hard link)";
    if (status->st_size > 0 && !is_record(fd))
        return "has something else in it than a record of ipybox";
    return NULL;
}

static bool
check_file(IpbRecord *record, bool is_new, GError **error)
{
    struct stat status;
    char last = '\n';
    if ((is_new && fchmod(record->fd, 0600) < 0) || fstat(record->fd, &status) < 0)
        return ipb_error_set_errno(error, errno, "cannot open the record %s", record->path);
    const char *problem = find_problem(record->fd, &status);
    if (problem != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the record %s %s: name another file", record->path, problem);
        return false;
    }
    if (flock(record->fd, LOCK_EX | LOCK_NB) < 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "another session records to %s: name another file", record->path);
        return false;
    }
    if (status.st_size > 0 && pread(record->fd, &last, 1, status.st_size - 1) < 0)
        return ipb_error_set_errno(error, errno, "cannot read the record %s", record->path);
    record->is_line_broken = last != '\n';
    return true;
}

/* --- lines ------------------------------------------------------------------------------------ */

static IpbJsonWriter *
begin_line(const char *type)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *seconds = g_date_time_format(now, "%Y-%m-%dT%H:%M:%S");
    g_autofree char *time =
        g_strdup_printf("%s.%03dZ", seconds, g_date_time_get_microsecond(now) / 1000);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "type", type);
    ipb_json_member_string(writer, "time", time);
    return writer;
}

static IpbJsonWriter *
begin_line_of_cell(const char *type, uint64_t cell)
{
    IpbJsonWriter *writer = begin_line(type);
    if (cell != 0)
        ipb_json_member_int(writer, "cell", (int64_t) cell);
    return writer;
}

static bool
set_ended(IpbRecord *record, GError **error)
{
    ipb_fd_close(&record->fd);
    g_prefix_error(error, "the record %s has ended: ", record->path);
    return false;
}

/* Frees @writer. */
static bool
end_line(IpbRecord *record, IpbJsonWriter *writer, GError **error)
{
    size_t size;
    ipb_json_end_object(writer);
    g_autofree char *json = ipb_json_writer_finish(writer, &size);
    if (size > MAX_LINE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "a line is larger than %u MiB",
                    MAX_LINE >> 20);
        return set_ended(record, error);
    }
    g_autofree char *line = g_strconcat(record->is_line_broken ? "\n" : "", json, "\n", NULL);
    ssize_t n;
    size = strlen(line);
    for (int i = 0;
         (n = ipb_fd_write(record->fd, line, size)) < 0 && errno == EINTR && i < MAX_RETRIES;)
        i++;
    record->is_line_broken = false;
    if (n == (ssize_t) size)
        return true;
    int saved_errno = n < 0 ? errno : ipb_fd_explain_short_write(record->fd);
    ipb_error_set_errno(error, saved_errno, "cannot write to it");
    return set_ended(record, error);
}

static bool
has_ended(const IpbRecord *record)
{
    return record == NULL || record->fd < 0;
}

static IpbRecord *
new_for(int fd, const char *path, bool is_new, GError **error)
{
    if (fd < 0)
        return NULL;
    g_autoptr(IpbRecord) record = g_new0(IpbRecord, 1);
    record->path = g_strdup(path);
    record->fd = fd;
    return check_file(record, is_new, error) ? g_steal_pointer(&record) : NULL;
}

IpbRecord *
ipb_record_resume(const char *base, const char *path, GError **error)
{
    int fd = open_file(base, path, NULL, error);
    return new_for(fd, path, false, error);
}

IpbRecord *
ipb_record_open(const char *base, const char *path, GError **error)
{
    bool is_new = false;
    int fd = open_file(base, path, &is_new, error);
    g_autoptr(IpbRecord) record = new_for(fd, path, is_new, error);
    if (record == NULL)
        return NULL;
    g_autofree char *session = g_uuid_string_random();
    IpbJsonWriter *writer = begin_line("record");
    ipb_json_member_int(writer, "format", IPB_RECORD_FORMAT);
    ipb_json_member_string(writer, "ipybox", IPYBOX_VERSION);
    ipb_json_member_string(writer, "session", session);
    return end_line(record, writer, error) ? g_steal_pointer(&record) : NULL;
}

void
ipb_record_free(IpbRecord *record)
{
    if (record == NULL)
        return;
    ipb_fd_close(&record->fd);
    g_free(record->path);
    g_free(record);
}

bool
ipb_record_cell(IpbRecord *record, uint64_t cell, const char *code, bool is_silent, GError **error)
{
    if (has_ended(record))
        return true;
    IpbJsonWriter *writer = begin_line_of_cell("cell", cell);
    ipb_json_member_string(writer, "code", code);
    if (is_silent)
        ipb_json_member_bool(writer, "silent", true);
    return end_line(record, writer, error);
}

static void
write_bundle(IpbJsonWriter *writer, const IpbEvent *event)
{
    ipb_json_member_value(writer, "data", event->data);
    if (event->metadata != NULL && ipb_json_length(event->metadata) > 0)
        ipb_json_member_value(writer, "metadata", event->metadata);
    if (event->display_id != NULL)
        ipb_json_member_string(writer, "display_id", event->display_id);
    if (event->type == IPB_EVENT_RESULT)
        ipb_json_member_int(writer, "execution_count", event->execution_count);
}

static void
write_end(IpbJsonWriter *writer, const IpbEvent *event)
{
    ipb_json_member_string(writer, "status", ipb_cell_status_name(event->status));
    if (event->execution_count > 0)
        ipb_json_member_int(writer, "execution_count", event->execution_count);
    if (event->text != NULL)
        ipb_json_member_string(writer, "message", event->text);
    if (event->changes != NULL) {
        ipb_json_key(writer, "changes");
        ipb_json_write_raw(writer, event->changes, strlen(event->changes));
    }
    if (event->changes_cut != NULL)
        ipb_json_member_string(writer, "changes_cut", event->changes_cut);
}

/* False: a record does not keep such events. */
static bool
write_event(IpbJsonWriter *writer, const IpbEvent *event)
{
    switch (event->type) {
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
    case IPB_EVENT_NOTICE:
    case IPB_EVENT_START_FAILED:
    case IPB_EVENT_DIED:
        ipb_json_member_string(writer, "text", event->text);
        return true;
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_UPDATE:
    case IPB_EVENT_RESULT:
        write_bundle(writer, event);
        return true;
    case IPB_EVENT_CLEAR_OUTPUT:
        ipb_json_member_bool(writer, "wait", event->wait);
        return true;
    case IPB_EVENT_ERROR:
        ipb_json_member_string(writer, "ename", event->ename);
        ipb_json_member_string(writer, "evalue", event->evalue);
        ipb_json_member_string(writer, "traceback", event->text);
        return true;
    case IPB_EVENT_STARTED:
        ipb_json_member_int(writer, "execution_count", event->execution_count);
        return true;
    case IPB_EVENT_DONE:
        write_end(writer, event);
        return true;
    case IPB_EVENT_INPUT_REQUEST:
        ipb_json_member_string(writer, "prompt", event->text);
        ipb_json_member_bool(writer, "password", event->is_password);
        return true;
    case IPB_EVENT_READY:
        return true;
    case IPB_EVENT_LATE_OUTPUT: /* the late events have it */
    case IPB_EVENT_INPUT_WITHDRAWN:
    case IPB_EVENT_TOOL_PROGRESS:
    case IPB_EVENT_COMM:
        break;
    }
    return false;
}

bool
ipb_record_event(IpbRecord *record, uint64_t cell, const IpbEvent *event, GError **error)
{
    if (has_ended(record))
        return true;
    g_autoptr(IpbJsonWriter) writer = begin_line_of_cell(ipb_event_name(event->type), cell);
    if (event->is_late)
        ipb_json_member_bool(writer, "late", true);
    return !write_event(writer, event) || end_line(record, g_steal_pointer(&writer), error);
}

bool
ipb_record_decision(IpbRecord *record, uint64_t cell, const IpbDecision *decision, GError **error)
{
    if (has_ended(record))
        return true;
    IpbJsonWriter *writer = begin_line_of_cell("tool_call", cell);
    ipb_audit_log_write_decision(writer, decision);
    return end_line(record, writer, error);
}

bool
ipb_record_call_end(IpbRecord *record, uint64_t request, const GError *failure, GError **error)
{
    if (has_ended(record))
        return true;
    IpbJsonWriter *writer = begin_line("tool_result");
    ipb_json_member_int(writer, "request", (int64_t) request);
    ipb_json_member_string(writer, "status", failure == NULL ? "ok" : "error");
    if (failure != NULL)
        ipb_json_member_string(writer, "error", failure->message);
    return end_line(record, writer, error);
}

bool
ipb_record_tools(IpbRecord *record, const GPtrArray *names, GError **error)
{
    if (has_ended(record))
        return true;
    IpbJsonWriter *writer = begin_line("tools");
    ipb_json_key(writer, "packages");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < names->len; i++)
        ipb_json_write_string(writer, g_ptr_array_index(names, i));
    ipb_json_end_array(writer);
    return end_line(record, writer, error);
}

static void
write_layer(IpbJsonWriter *writer, const char *directory)
{
    g_autofree char *name = g_path_get_basename(directory);
    ipb_json_member_string(writer, "layer", name);
}

bool
ipb_record_layer(IpbRecord *record, const char *directory, GError **error)
{
    if (has_ended(record))
        return true;
    IpbJsonWriter *writer = begin_line("staged");
    write_layer(writer, directory);
    return end_line(record, writer, error);
}

bool
ipb_record_changes(IpbRecord *record, const char *directory, bool is_discard,
                   const IpbStagedResult *result, const GError *failure, GError **error)
{
    if (has_ended(record))
        return true;
    IpbJsonWriter *writer = begin_line(is_discard ? "discard" : "commit");
    write_layer(writer, directory);
    if (failure != NULL)
        ipb_json_member_string(writer, "error", failure->message);
    if (result != NULL) {
        ipb_json_key(writer, "result");
        ipb_staged_result_write(result, IPB_STAGED_MAX_SHOWN, writer);
    }
    return end_line(record, writer, error);
}
