/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/audit-log.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "json/json.h"

typedef struct {
    char *directory;
    char *path;
} Place;

static void
set_up(Place *place, const void *data)
{
    place->directory = g_dir_make_tmp("ipb-audit-XXXXXX", NULL);
    place->path = g_build_filename(place->directory, "audit.jsonl", NULL);
}

static void
tear_down(Place *place, const void *data)
{
    g_remove(place->path);
    g_rmdir(place->directory);
    g_free(place->path);
    g_free(place->directory);
}

static IpbDecision
make_decision(const char *arguments)
{
    return (IpbDecision){
        .request = 7,
        .server_name = "files",
        .tool_name = "read",
        .arguments_json = arguments,
        .arguments_size = strlen(arguments),
        .is_allowed = true,
        .by = IPB_DECIDED_BY_RULE,
        .rule = 3,
        .reason = "said \"so\"",
    };
}

/* The parsed lines of the file. A last one without its newline does not count. */
static GPtrArray *
read_lines(const Place *place)
{
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(place->path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    GPtrArray *documents = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_json_doc_free);
    for (char **line = lines; line[1] != NULL; line++) {
        IpbJsonDoc *document = ipb_json_parse(*line, strlen(*line), &IPB_JSON_LIMITS_SMALL, NULL);
        if (document != NULL)
            g_ptr_array_add(documents, document);
    }
    return documents;
}

static void
test_line(Place *place, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbAuditLog) log = ipb_audit_log_open(NULL, place->path, &error);
    g_assert_no_error(error);
    IpbDecision decision = make_decision("{\"path\": \"/x\", \"n\": 1e400}");
    g_assert_true(ipb_audit_log_write(log, &decision, &error));
    g_autoptr(GPtrArray) lines = read_lines(place);
    g_assert_cmpuint(lines->len, ==, 1);
    const IpbJson *line = ipb_json_root(g_ptr_array_index(lines, 0));
    int64_t number;
    g_assert_cmpstr(ipb_json_get_string(line, "server"), ==, "files");
    g_assert_cmpstr(ipb_json_get_string(line, "tool"), ==, "read");
    g_assert_cmpstr(ipb_json_get_string(line, "decision"), ==, "allow");
    g_assert_cmpstr(ipb_json_get_string(line, "by"), ==, "rule");
    g_assert_cmpstr(ipb_json_get_string(line, "reason"), ==, "said \"so\"");
    g_assert_true(ipb_json_get_int64(line, "rule", &number) && number == 3);
    g_assert_true(ipb_json_get_int64(line, "request", &number) && number == 7);
    g_assert_cmpuint(strlen(ipb_json_get_string(line, "session")), ==, 36);
    g_autoptr(GDateTime) time =
        g_date_time_new_from_iso8601(ipb_json_get_string(line, "time"), NULL);
    g_assert_nonnull(time);
    const IpbJson *arguments = ipb_json_get(line, "arguments");
    g_assert_cmpstr(ipb_json_number(ipb_json_get(arguments, "n")), ==, "1e400");
    struct stat status;
    g_assert_cmpint(g_stat(place->path, &status), ==, 0);
    g_assert_cmpuint(status.st_mode & 07777, ==, 0600);
}

/* A name that a cell chose does not look like that of a registration, even if the URL has no
 * origin. */
static void
test_unregistered(Place *place, const void *data)
{
    static const struct {
        const char *params, *url;
    } ROWS[] = {
        {"{\"url\":\"https://user:secret@a.test:8443/secret?key=secret\"}", "https://a.test:8443"},
        {"{\"url\":\"${URL}\"}", NULL},
        {"{\"url\":\"https://a.test:${PORT}/mcp\"}", NULL},
        {"{\"command\":\"npx\",\"env\":{\"KEY\":\"secret\"}}", NULL},
        {NULL, NULL},
    };
    g_autoptr(IpbAuditLog) log = ipb_audit_log_open(NULL, place->path, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        IpbDecision decision = make_decision("{}");
        decision.server_params = ROWS[i].params;
        g_assert_true(ipb_audit_log_write(log, &decision, NULL));
    }
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(place->path, &text, NULL, NULL));
    g_assert_null(strstr(text, "secret"));
    g_autoptr(GPtrArray) lines = read_lines(place);
    g_assert_cmpuint(lines->len, ==, G_N_ELEMENTS(ROWS));
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        const IpbJson *line = ipb_json_root(g_ptr_array_index(lines, i));
        g_assert_cmpstr(ipb_json_get_string(line, "url"), ==, ROWS[i].url);
        g_assert_true(ipb_json_get_bool(line, "registered", true) == (ROWS[i].params == NULL));
    }
}

static void
test_large_arguments(Place *place, const void *data)
{
    g_autoptr(IpbAuditLog) log = ipb_audit_log_open(NULL, place->path, NULL);
    g_autofree char *text = g_strnfill(70000, 'x');
    g_autofree char *arguments = g_strdup_printf("{\"a\": \"%s\"}", text);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, arguments, -1);
    IpbDecision decision = make_decision(arguments);
    g_assert_true(ipb_audit_log_write(log, &decision, NULL));
    g_autoptr(GPtrArray) lines = read_lines(place);
    const IpbJson *line = ipb_json_root(g_ptr_array_index(lines, 0));
    g_assert_null(ipb_json_get(line, "arguments"));
    g_assert_cmpstr(ipb_json_get_string(line, "argumentsSha256"), ==, digest);
}

static void
test_two_logs(Place *place, const void *data)
{
    g_autoptr(IpbAuditLog) first = ipb_audit_log_open(NULL, place->path, NULL);
    g_autoptr(IpbAuditLog) second = ipb_audit_log_open(NULL, place->path, NULL);
    IpbDecision decision = make_decision("{}");
    for (int i = 0; i < 10; i++)
        g_assert_true(ipb_audit_log_write(i % 2 == 0 ? first : second, &decision, NULL));
    g_autoptr(GPtrArray) lines = read_lines(place);
    g_assert_cmpuint(lines->len, ==, 10);
}

static void
test_full(Place *place, const void *data)
{
    struct rlimit before, limit;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbAuditLog) log = ipb_audit_log_open(NULL, place->path, NULL);
    IpbDecision decision = make_decision("{\"path\": \"some path\"}");
    signal(SIGXFSZ, SIG_DFL);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
    limit = before;
    limit.rlim_cur = 100;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    g_assert_false(ipb_audit_log_write(log, &decision, &error)); /* a part of it is written */
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    g_assert_nonnull(strstr(error->message, place->path));
    g_assert_nonnull(strstr(error->message, "ulimit -f"));
    g_assert_false(ipb_audit_log_write(log, &decision, NULL));
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
    g_assert_true(ipb_audit_log_write(log, &decision, NULL));
    g_autoptr(GPtrArray) lines = read_lines(place);
    g_assert_cmpuint(lines->len, ==, 1);
}

static void
test_what_is_not_opened(Place *place, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_audit_log_open(NULL, "/dev/null", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_cmpint(symlink("/tmp/elsewhere", place->path), ==, 0);
    g_assert_null(ipb_audit_log_open(NULL, place->path, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    g_clear_error(&error);
    g_assert_null(ipb_audit_log_open(NULL, "/dev/null/audit.jsonl", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/audit-log/line", Place, NULL, set_up, test_line, tear_down);
    g_test_add("/audit-log/unregistered", Place, NULL, set_up, test_unregistered, tear_down);
    g_test_add("/audit-log/large-arguments", Place, NULL, set_up, test_large_arguments, tear_down);
    g_test_add("/audit-log/two-logs", Place, NULL, set_up, test_two_logs, tear_down);
    g_test_add("/audit-log/full", Place, NULL, set_up, test_full, tear_down);
    g_test_add("/audit-log/what-is-not-opened", Place, NULL, set_up, test_what_is_not_opened,
               tear_down);
    return g_test_run();
}
