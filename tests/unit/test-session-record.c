/* SPDX-License-Identifier: Apache-2.0 */
#include "session/record.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"

typedef struct {
    char *directory;
    char *path;
} Place;

static void
set_up(Place *place, const void *data)
{
    place->directory = g_dir_make_tmp("ipb-record-XXXXXX", NULL);
    place->path = g_build_filename(place->directory, "record.jsonl", NULL);
}

static void
tear_down(Place *place, const void *data)
{
    g_remove(place->path);
    g_rmdir(place->directory);
    g_free(place->path);
    g_free(place->directory);
}

/* The lines of the file; NULL for one that is no JSON. */
static GPtrArray *
read_lines(const Place *place)
{
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(place->path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    GPtrArray *documents = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_json_doc_free);
    for (char **line = lines; line[1] != NULL; line++)
        g_ptr_array_add(documents,
                        ipb_json_parse(*line, strlen(*line), &IPB_JSON_LIMITS_SMALL, NULL));
    return documents;
}

static const IpbJson *
get_line(GPtrArray *lines, guint i)
{
    g_assert_cmpuint(i, <, lines->len);
    g_assert_nonnull(g_ptr_array_index(lines, i));
    return ipb_json_root(g_ptr_array_index(lines, i));
}

static void
assert_type(GPtrArray *lines, guint i, const char *type)
{
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, i), "type"), ==, type);
}

static void
test_lines(Place *place, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbRecord) record = ipb_record_open(NULL, place->path, &error);
    g_assert_no_error(error);
    const char *text = "{\"text/plain\": \"\\ud800\", \"n\": 1e400}";
    g_autoptr(IpbJsonDoc) bundle =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, &error);
    g_assert_no_error(error);
    const IpbEvent EVENTS[] = {
        {.type = IPB_EVENT_STARTED, .execution_count = 4},
        {.type = IPB_EVENT_STDOUT, .text = "a\nb\xe2\x80\xa8"},
        {.type = IPB_EVENT_TOOL_PROGRESS, .text = "is not kept"},
        {.type = IPB_EVENT_DISPLAY, .data = ipb_json_root(bundle), .display_id = "d"},
        {.type = IPB_EVENT_CLEAR_OUTPUT, .wait = true},
        {.type = IPB_EVENT_ERROR, .ename = "E", .evalue = "v", .text = "Traceback"},
        {.type = IPB_EVENT_DONE, .status = IPB_CELL_TIMEOUT, .text = "too long"},
    };
    g_assert_true(ipb_record_cell(record, 3, "1\n2", false, &error));
    for (size_t i = 0; i < G_N_ELEMENTS(EVENTS); i++)
        g_assert_true(ipb_record_event(record, 3, &EVENTS[i], &error));
    IpbDecision decision = {
        .request = 9,
        .server_name = "files",
        .tool_name = "read",
        .arguments_json = "{}",
        .arguments_size = 2,
        .is_allowed = true,
        .by = IPB_DECIDED_BY_USER,
    };
    g_assert_true(ipb_record_decision(record, 3, &decision, &error));
    g_assert_true(ipb_record_call_end(record, 9, NULL, &error));
    g_autoptr(GError) failure = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "no file");
    g_assert_true(ipb_record_call_end(record, 9, failure, &error));

    g_autoptr(GPtrArray) lines = read_lines(place);
    static const char *const TYPES[] = {
        "record", "cell", "started",   "stdout",      "display",     "clear_output",
        "error",  "done", "tool_call", "tool_result", "tool_result",
    };
    g_assert_cmpuint(lines->len, ==, G_N_ELEMENTS(TYPES));
    int64_t number;
    for (guint i = 0; i < lines->len; i++) {
        assert_type(lines, i, TYPES[i]);
        g_autoptr(GDateTime) time =
            g_date_time_new_from_iso8601(ipb_json_get_string(get_line(lines, i), "time"), NULL);
        g_assert_nonnull(time);
    }
    g_assert_true(ipb_json_get_int64(get_line(lines, 0), "format", &number) && number == 1);
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, 1), "code"), ==, "1\n2");
    g_assert_true(ipb_json_get_int64(get_line(lines, 1), "cell", &number) && number == 3);
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, 3), "text"), ==, "a\nb\xe2\x80\xa8");
    const IpbJson *shown = ipb_json_get(get_line(lines, 4), "data");
    g_assert_cmpstr(ipb_json_number(ipb_json_get(shown, "n")), ==, "1e400");
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, 4), "display_id"), ==, "d");
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, 7), "status"), ==, "timeout");
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, 8), "by"), ==, "user");
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, 9), "status"), ==, "ok");
    g_assert_cmpstr(ipb_json_get_string(get_line(lines, 10), "error"), ==, "no file");
    struct stat status;
    g_assert_cmpint(g_stat(place->path, &status), ==, 0);
    g_assert_cmpuint(status.st_mode & 07777, ==, 0600);
}

static void
assert_refused(const Place *place, IpyboxError code, const char *why)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_record_open(NULL, place->path, &error));
    g_assert_error(error, IPYBOX_ERROR, (int) code);
    if (strstr(error->message, why) == NULL)
        g_error("\"%s\" does not say \"%s\"", error->message, why);
    g_assert_nonnull(strstr(error->message, place->path));
}

static void
test_other_files(Place *place, const void *data)
{
    g_autofree char *other = g_build_filename(place->directory, "other", NULL);
    g_assert_cmpint(symlink("elsewhere", place->path), ==, 0);
    assert_refused(place, IPYBOX_ERROR_REFUSED, "is a symbolic link");
    g_remove(place->path);
    g_assert_cmpint(mkfifo(place->path, 0600), ==, 0);
    assert_refused(place, IPYBOX_ERROR_INVALID, "is not a regular file");
    g_remove(place->path);
    g_assert_cmpint(g_mkdir(place->path, 0700), ==, 0);
    assert_refused(place, IPYBOX_ERROR_SYSTEM, "directory");
    g_rmdir(place->path);
    g_assert_true(g_file_set_contents(place->path, "secret\n", -1, NULL));
    g_assert_cmpint(g_chmod(place->path, 0600), ==, 0);
    assert_refused(place, IPYBOX_ERROR_INVALID, "something else");
    g_assert_cmpint(g_chmod(place->path, 0640), ==, 0);
    assert_refused(place, IPYBOX_ERROR_INVALID, "its mode must be 0600");
    g_assert_true(g_file_set_contents(place->path, "", -1, NULL));
    g_assert_cmpint(g_chmod(place->path, 0600), ==, 0);
    g_assert_cmpint(link(place->path, other), ==, 0);
    assert_refused(place, IPYBOX_ERROR_INVALID, "hard link");
    g_remove(other);
    g_autoptr(IpbRecord) record = ipb_record_open(NULL, place->path, NULL); /* the control */
    g_assert_nonnull(record);
}

static void
test_append(Place *place, const void *data)
{
    IpbRecord *record = ipb_record_open(NULL, place->path, NULL);
    g_assert_nonnull(record);
    assert_refused(place, IPYBOX_ERROR_BUSY, "another session records to");
    ipb_record_free(record);
    int fd = g_open(place->path, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    g_assert_cmpint(write(fd, "{\"type\":\"st", 11), ==, 11); /* of a machine that crashed */
    close(fd);
    record = ipb_record_open(NULL, place->path, NULL);
    g_assert_nonnull(record);
    g_assert_true(ipb_record_cell(record, 1, "x", false, NULL));
    ipb_record_free(record);
    g_autoptr(GPtrArray) lines = read_lines(place);
    g_assert_cmpuint(lines->len, ==, 4);
    g_assert_null(g_ptr_array_index(lines, 1));
    assert_type(lines, 2, "record");
    assert_type(lines, 3, "cell");
}

static void
test_full(Place *place, const void *data)
{
    struct rlimit before, limit;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbRecord) record = ipb_record_open(NULL, place->path, NULL);
    signal(SIGXFSZ, SIG_DFL);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
    limit = before;
    limit.rlim_cur = 200;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    g_autofree char *code = g_strnfill(200, 'x');
    g_assert_false(ipb_record_cell(record, 1, code, false, &error));
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    g_assert_nonnull(strstr(error->message, "has ended"));
    g_assert_nonnull(strstr(error->message, "ulimit -f"));
    /* Nothing follows, because a reader would not know what is missing. */
    g_assert_true(ipb_record_cell(record, 2, "y", false, NULL));
    g_autofree char *text = NULL;
    size_t size;
    g_assert_true(g_file_get_contents(place->path, &text, &size, NULL));
    g_assert_cmpuint(size, ==, 200);
}

static void
test_none(void)
{
    g_assert_true(ipb_record_cell(NULL, 1, "x", false, NULL));
    g_assert_true(ipb_record_event(NULL, 1, &(IpbEvent){.type = IPB_EVENT_READY}, NULL));
    g_assert_true(ipb_record_call_end(NULL, 1, NULL, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/record/lines", Place, NULL, set_up, test_lines, tear_down);
    g_test_add("/record/other-files", Place, NULL, set_up, test_other_files, tear_down);
    g_test_add("/record/append", Place, NULL, set_up, test_append, tear_down);
    g_test_add("/record/full", Place, NULL, set_up, test_full, tear_down);
    g_test_add_func("/record/none", test_none);
    return g_test_run();
}
