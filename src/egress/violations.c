/* SPDX-License-Identifier: Apache-2.0
 *
 * Reporting of denials, and their log; see the header. Time is divided into periods of a second.
 * Each period has a set of what was reported in it.
 */
#include "egress/violations.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "json/writer.h"

#define PERIOD_MS 1000
/* Different denials that are reported in one period. Further ones are counted. */
#define MAX_PER_PERIOD 32
#define MAX_TEXT 512

typedef struct {
    const char *what;
    char *target;
    char *reason;
} Entry;

struct IpbViolations {
    IpbLoop *loop;
    void (*on_violation)(const IpbViolation *violation, void *data);
    void *data;
    GQueue waiting;   /* Entry */
    GHashTable *seen; /* "what target reason" of this period */
    unsigned n_left_out;
    int64_t period_end;
    IpbTimer *delivery;
    IpbTimer *summary; /* reports n_left_out at the end of the period */
};

char *
ipb_violation_to_text(const IpbViolation *violation)
{
    if (violation->text != NULL)
        return g_strconcat("operation not permitted: ", violation->text, NULL);
    return g_strdup_printf("operation not permitted: %s %s: %s", violation->what, violation->target,
                           violation->reason);
}

static void
free_entry(Entry *entry)
{
    g_free(entry->target);
    g_free(entry->reason);
    g_free(entry);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Entry, free_entry)

IpbViolations *
ipb_violations_new(IpbLoop *loop, void (*on_violation)(const IpbViolation *violation, void *data),
                   void *data)
{
    IpbViolations *violations = g_new0(IpbViolations, 1);
    violations->loop = ipb_loop_ref(loop);
    violations->on_violation = on_violation;
    violations->data = data;
    g_queue_init(&violations->waiting);
    violations->seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return violations;
}

void
ipb_violations_free(IpbViolations *violations)
{
    if (violations == NULL)
        return;
    ipb_timer_free(violations->delivery);
    ipb_timer_free(violations->summary);
    g_queue_clear_full(&violations->waiting, (GDestroyNotify) free_entry);
    g_hash_table_unref(violations->seen);
    ipb_loop_unref(violations->loop);
    g_free(violations);
}

static void
deliver_next(IpbViolations *violations)
{
    g_autoptr(Entry) entry = g_queue_pop_head(&violations->waiting);
    const IpbViolation violation = {
        .what = entry->what,
        .target = entry->target,
        .reason = entry->reason,
    };
    violations->on_violation(&violation, violations->data);
}

/* One at a time, because on_violation may free the object. */
static void
on_delivery(void *data)
{
    IpbViolations *violations = data;
    g_clear_pointer(&violations->delivery, ipb_timer_free);
    if (violations->waiting.length > 1)
        violations->delivery = ipb_timer_new(violations->loop, 0, on_delivery, violations);
    deliver_next(violations);
}

static void
queue(IpbViolations *violations, const char *what, const char *target, const char *reason)
{
    Entry *entry = g_new0(Entry, 1);
    entry->what = what;
    entry->target = g_strdup(target);
    entry->reason = g_strdup(reason);
    g_queue_push_tail(&violations->waiting, entry);
    if (violations->delivery == NULL)
        violations->delivery = ipb_timer_new(violations->loop, 0, on_delivery, violations);
}

static void
on_summary(void *data)
{
    IpbViolations *violations = data;
    g_clear_pointer(&violations->summary, ipb_timer_free);
    g_autofree char *reason = g_strdup_printf(
        "%u more denials came too fast to be reported one by one", violations->n_left_out);
    violations->n_left_out = 0;
    queue(violations, "network-outbound", "(several)", reason);
}

void
ipb_violations_flush(IpbViolations *violations)
{
    if (violations->summary != NULL)
        on_summary(violations);
    g_clear_pointer(&violations->delivery, ipb_timer_free);
    while (violations->waiting.length > 0)
        deliver_next(violations);
}

/* One line of printable text, of bounded length. */
static char *
make_printable(const char *text)
{
    char *printable = g_utf8_make_valid(text, (gssize) MIN(strlen(text), MAX_TEXT));
    for (char *c = printable; *c != '\0'; c++)
        if ((unsigned char) *c < ' ' || *c == 0x7f)
            *c = '?';
    return printable;
}

static void
start_period(IpbViolations *violations, int64_t now)
{
    if (now < violations->period_end)
        return;
    g_hash_table_remove_all(violations->seen);
    violations->period_end = now + PERIOD_MS * INT64_C(1000);
}

void
ipb_violations_report(IpbViolations *violations, const char *what, const char *target,
                      const char *reason)
{
    if (violations->on_violation == NULL)
        return;
    start_period(violations, g_get_monotonic_time());
    g_autofree char *clean_target = make_printable(target);
    g_autofree char *clean_reason = make_printable(reason);
    char *key = g_strdup_printf("%s %s %s", what, clean_target, clean_reason);
    bool is_full = g_hash_table_size(violations->seen) >= MAX_PER_PERIOD;
    if (g_hash_table_contains(violations->seen, key)) {
        g_free(key);
    } else if (is_full) {
        g_free(key);
        violations->n_left_out++;
        if (violations->summary == NULL)
            violations->summary =
                ipb_timer_new(violations->loop, PERIOD_MS, on_summary, violations);
    } else {
        g_hash_table_add(violations->seen, key);
        queue(violations, what, clean_target, clean_reason);
    }
}

/* The log */

struct IpbViolationLog {
    char *path;
    int fd;
    /* The file ends in an incomplete line: the next write begins with a line break. */
    bool is_line_broken;
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
                    "the violation log %s is not a regular file", path);
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
    if (violation->process != NULL)
        ipb_json_member_string(writer, "process", violation->process);
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
