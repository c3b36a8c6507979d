/* SPDX-License-Identifier: Apache-2.0
 *
 * Files over HTTP; see the header. A transfer is one request. Its course:
 *
 *     it waits for its turn → the program runs, and reports what is there → conditions are checked
 *     → content goes up or down → the program reports what it has done, and ends → the answer
 *
 * An answer with content begins after the conditions. If the program cannot complete it, the
 * connection is closed, so that the client notices. When the client leaves, the program is
 * cancelled, and removes what it has begun.
 */
#include "serve/mcp-http/files.h"

#include <string.h>
#include <time.h>

#include "base/error.h"
#include "http/conditions.h"
#include "http/target.h"
#include "json/writer.h"
#include "serve/content-type.h"
#include "serve/mcp-http/file-helper.h"

/* Transfers that run at a time, of one principal and in all. Each is a process. */
#define MAX_RUNNING_EACH 4
#define MAX_RUNNING 32
/* Bytes of a decoded path, and of a body. */
#define MAX_PATH 4096
#define MAX_UPLOAD (UINT64_C(16) << 30)
/* Hex digits before each piece that the program gets. */
#define SIZE_DIGITS 8

/* Those from WRITE on change something. */
typedef enum { READ, LIST, PACK, WRITE, MAKE, UNPACK, REMOVE } Action;

static const char *const ACTIONS[] = {"read", "list", "pack", "write", "make", "unpack", "remove"};

typedef struct {
    IpbMcpFiles *files;
    IpbMcpService *service;
    bool is_sandboxed;
    Action action;
    char *path; /* decoded, relative to the workspace */
    char *params;
    IpbHttpRequest *request; /* NULL: it is answered, or its client is gone */
    IpbHttpStream *stream;   /* of an answer with content; or NULL */
    IpbFileHelper *helper;   /* NULL: it waits for its turn */
    bool has_begun;          /* the program has reported what is there */
    uint64_t n_left;         /* of READ: bytes that the answer still needs */
    uint64_t n_received;
    /* What the program has reported at its end: the answer's status (0: nothing), and a text */
    unsigned status;
    char *text;
    char *etag; /* a header line */
    bool is_over;
} Transfer;

struct IpbMcpFiles {
    IpbRuntime *runtime;
    IpbLoop *loop;
    GPtrArray *transfers; /* Transfer, in the order of their arrival */
    IpbTimer *timer;      /* starts those that wait, and frees those that are over */
    void (*on_over)(void *data);
    void *data;
};

/* --- answers ---------------------------------------------------------------------------------- */

static void
fail(Transfer *transfer, unsigned status, const char *message)
{
    IpbHttpRequest *request = g_steal_pointer(&transfer->request);
    if (request == NULL)
        return;
    if (status == 503)
        ipb_http_request_refuse_error(request, status, message, IPB_HTTP_RETRY_AFTER);
    else
        ipb_http_request_answer_error(request, status, message);
}

/* @json: taken; NULL: no body. */
static void
answer(Transfer *transfer, unsigned status, const char *headers, char *json)
{
    IpbHttpRequest *request = g_steal_pointer(&transfer->request);
    g_autoptr(GBytes) body = json != NULL ? g_bytes_new_take(json, strlen(json)) : NULL;
    if (request == NULL)
        return;
    const IpbHttpAnswer whole = {.status = status, .headers = headers, .body = body};
    if (!ipb_http_request_answer(request, &whole))
        ipb_http_request_refuse_error(request, 503, "too many large answers at the same time",
                                      IPB_HTTP_RETRY_AFTER);
}

/* Nothing more is to be done for it: its program ends. */
static void
finish(Transfer *transfer)
{
    if (transfer->helper != NULL)
        ipb_file_helper_cancel(transfer->helper);
}

static void
fail_and_finish(Transfer *transfer, unsigned status, const char *message)
{
    fail(transfer, status, message);
    finish(transfer);
}

static unsigned
status_of(const char *code)
{
    static const struct {
        const char *code;
        unsigned status;
    } STATUSES[] = {
        {"missing", 404}, {"conflict", 409}, {"refused", 403}, {"changed", 412},
        {"limit", 413},   {"bad", 422},      {"full", 507},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(STATUSES); i++)
        if (g_str_equal(code, STATUSES[i].code))
            return STATUSES[i].status;
    return 500;
}

/* What the program says is not enough for some errors. Caller frees. */
static char *
describe_failure(const Transfer *transfer, const char *why)
{
    const char *text = transfer->text != NULL ? transfer->text : "";
    switch (transfer->status) {
    case 404:
        return g_strdup_printf(
            "there is no %s in the workspace that cells can read. GET " IPB_MCP_FILES_PATH
            " lists the workspace",
            transfer->path);
    case 403:
        return g_strdup_printf("%s: cells may not write this%s%s", transfer->path,
                               why != NULL ? ": " : "", why != NULL ? why : "");
    case 409:
        if (transfer->action == REMOVE)
            return g_strdup_printf("%s: %s. ?recursive=true removes a directory with everything in "
                                   "it",
                                   transfer->path, text);
        return g_strdup_printf("%s: %s", transfer->path, text);
    case 412:
        return g_strdup_printf("%s: %s: read it again", transfer->path, text);
    case 507:
        return g_strdup_printf("%s: %s: remove files that are not needed", transfer->path, text);
    default:
        return g_strdup_printf("%s: %s", transfer->path, text);
    }
}

/* --- headers ---------------------------------------------------------------------------------- */

static void
append_date(GString *headers, int64_t seconds)
{
    static const char *const DAYS[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t time = (time_t) seconds;
    struct tm parts;
    if (gmtime_r(&time, &parts) != NULL && parts.tm_year + 1900 <= 9999 && parts.tm_year >= 0)
        g_string_append_printf(headers, "%s, %02d %s %04d %02d:%02d:%02d GMT", DAYS[parts.tm_wday],
                               parts.tm_mday, MONTHS[parts.tm_mon], parts.tm_year + 1900,
                               parts.tm_hour, parts.tm_min, parts.tm_sec);
}

/* A browser saves the file, and neither shows nor runs it with the server's origin. */
static GString *
make_headers(const char *name)
{
    g_autofree char *escaped = g_uri_escape_string(name, NULL, FALSE);
    GString *headers = g_string_new("X-Content-Type-Options: nosniff\r\n"
                                    "Content-Security-Policy: sandbox; default-src 'none'\r\n"
                                    "Cache-Control: private, no-cache\r\n");
    g_string_append_printf(headers, "Content-Disposition: attachment; filename*=UTF-8''%s\r\n",
                           escaped);
    return headers;
}

static bool
get_header(const Transfer *transfer, const char *name, IpbSpan *ret_value)
{
    return ipb_http_head_get(ipb_http_request_head(transfer->request), name, ret_value);
}

/* --- conditions ------------------------------------------------------------------------------- */

/* False: the request was answered. @tag NULL: there is no file. */
static bool
check_conditions(Transfer *transfer, const char *tag, const char *headers)
{
    IpbSpan value;
    bool is_reading = transfer->action == READ;
    if (get_header(transfer, "If-Match", &value)) {
        IpbHttpTags match = ipb_http_tags_match(value, tag, /* takes_weak= */ false);
        if (match == IPB_HTTP_TAGS_BAD) {
            fail_and_finish(transfer, 400, "If-Match must be \"*\" or entity tags in quotes");
            return false;
        }
        if (match == IPB_HTTP_TAGS_NO_MATCH) {
            fail_and_finish(transfer, 412,
                            tag != NULL ? "the file has another entity tag than If-Match: read it "
                                          "again"
                                        : "there is no such file, as If-Match demands");
            return false;
        }
    }
    if (!get_header(transfer, "If-None-Match", &value))
        return true;
    IpbHttpTags match = ipb_http_tags_match(value, tag, /* takes_weak= */ is_reading);
    if (match == IPB_HTTP_TAGS_NO_MATCH)
        return true;
    if (match == IPB_HTTP_TAGS_BAD)
        fail(transfer, 400, "If-None-Match must be \"*\" or entity tags in quotes");
    else if (is_reading)
        answer(transfer, 304, headers, NULL);
    else
        fail(transfer, 412, "the file exists, and If-None-Match forbids that");
    finish(transfer);
    return false;
}

/* If-Modified-Since counts only if it is the text that Last-Modified had. */
static bool
is_unmodified(const Transfer *transfer, const char *date)
{
    IpbSpan value;
    return !get_header(transfer, "If-None-Match", &value) &&
           get_header(transfer, "If-Modified-Since", &value) && ipb_span_equal(value, date);
}

/* --- content that goes down ------------------------------------------------------------------- */

static size_t
on_content(const char *bytes, size_t size, void *data)
{
    Transfer *transfer = data;
    if (transfer->stream == NULL)
        return size;
    if (transfer->action == READ && size > transfer->n_left) { /* it is not our program */
        ipb_http_stream_abort(g_steal_pointer(&transfer->stream));
        return size;
    }
    size_t taken = ipb_http_stream_write(transfer->stream, bytes, size);
    transfer->n_left -= transfer->action == READ ? taken : 0;
    return taken;
}

static void
on_writable(void *data)
{
    Transfer *transfer = data;
    ipb_file_helper_resume(transfer->helper);
}

static void
on_stream_gone(void *data)
{
    Transfer *transfer = data;
    transfer->stream = NULL;
    finish(transfer);
}

/* False: it was a HEAD request, which is answered. */
static bool
begin_stream(Transfer *transfer, const IpbHttpAnswer *head)
{
    static const IpbHttpStreamFuncs FUNCS = {.on_writable = on_writable, .on_gone = on_stream_gone};
    transfer->stream =
        ipb_http_request_answer_stream(g_steal_pointer(&transfer->request), head, &FUNCS, transfer);
    if (transfer->stream == NULL) {
        finish(transfer);
        return false;
    }
    ipb_file_helper_expect_content(transfer->helper);
    return true;
}

/* The range that is to be sent; *ret_status is 200, 206 or 416. */
static void
choose_range(const Transfer *transfer, uint64_t size, const char *tag, const char *date,
             uint64_t *ret_start, uint64_t *ret_size, unsigned *ret_status)
{
    IpbSpan value, condition;
    *ret_start = 0;
    *ret_size = size;
    *ret_status = 200;
    if (!get_header(transfer, "Range", &value) ||
        (get_header(transfer, "If-Range", &condition) && !ipb_span_equal(condition, date) &&
         ipb_http_tags_match(condition, tag, false) != IPB_HTTP_TAGS_MATCH))
        return;
    IpbHttpRange range = ipb_http_range_parse(value, size, ret_start, ret_size);
    *ret_status = range == IPB_HTTP_RANGE_PART ? 206 : range == IPB_HTTP_RANGE_OUTSIDE ? 416 : 200;
}

static void
send_file(Transfer *transfer, uint64_t size, const char *tag, int64_t seconds)
{
    g_autofree char *name = g_path_get_basename(transfer->path);
    g_autoptr(GString) headers = make_headers(name), date = g_string_new(NULL);
    uint64_t start, n;
    unsigned status;
    append_date(date, seconds);
    g_string_append_printf(headers, "ETag: \"%s\"\r\nLast-Modified: %s\r\nAccept-Ranges: bytes\r\n",
                           tag, date->str);
    if (!check_conditions(transfer, tag, headers->str))
        return;
    if (is_unmodified(transfer, date->str)) {
        answer(transfer, 304, headers->str, NULL);
        finish(transfer);
        return;
    }
    choose_range(transfer, size, tag, date->str, &start, &n, &status);
    if (status == 416) {
        g_autofree char *range =
            g_strdup_printf("Content-Range: bytes */%" G_GUINT64_FORMAT "\r\n", size);
        answer(transfer, 416, range,
               g_strdup("{\"error\":\"the file has no bytes in this Range: Content-Range says its "
                        "size\"}"));
        finish(transfer);
        return;
    }
    if (status == 206)
        g_string_append_printf(headers,
                               "Content-Range: bytes %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT
                               "/%" G_GUINT64_FORMAT "\r\n",
                               start, start + n - 1, size);
    const char *type = ipb_content_type_guess(transfer->path);
    transfer->n_left = n;
    if (!begin_stream(
            transfer,
            &(IpbHttpAnswer){.status = status,
                             .content_type = type != NULL ? type : "application/octet-stream",
                             .headers = headers->str,
                             .has_stream_size = true,
                             .stream_size = n}))
        return;
    g_autofree char *line =
        g_strdup_printf("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n", start, n);
    ipb_file_helper_send(transfer->helper, line, strlen(line));
}

static void
send_archive(Transfer *transfer)
{
    g_autofree char *directory =
        g_path_get_basename(*transfer->path != '\0' ? transfer->path : "x");
    g_autofree char *name =
        g_strconcat(*transfer->path != '\0' ? directory : "workspace", ".tar", NULL);
    g_autoptr(GString) headers = make_headers(name);
    if (begin_stream(transfer, &(IpbHttpAnswer){.status = 200,
                                                .content_type = "application/x-tar",
                                                .headers = headers->str}))
        ipb_file_helper_send(transfer->helper, "go\n", 3);
}

static void
send_list(Transfer *transfer, const IpbJson *report)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    const IpbJson *entries = ipb_json_get(report, "entries");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "entries");
    if (entries != NULL)
        ipb_json_write_value(writer, entries);
    ipb_json_end_object(writer);
    answer(transfer, 200, "X-Content-Type-Options: nosniff\r\nCache-Control: private, no-cache\r\n",
           ipb_json_writer_finish(writer, NULL));
    finish(transfer);
}

/* Relative to the URL of the request: a proxy may have put something before the path. */
static void
send_to_directory(Transfer *transfer)
{
    g_autofree char *name = g_path_get_basename(transfer->path);
    g_autofree char *escaped = g_uri_escape_string(name, NULL, FALSE);
    g_autofree char *location = g_strdup_printf("Location: ./%s/\r\n", escaped);
    answer(transfer, 301, location,
           g_strdup("{\"error\":\"it is a directory: add a slash to the path\"}"));
    finish(transfer);
}

/* --- content that goes up --------------------------------------------------------------------- */

static void
on_piece(const char *bytes, size_t size, void *data)
{
    Transfer *transfer = data;
    char digits[SIZE_DIGITS + 1];
    transfer->n_received += size;
    if (transfer->n_received > MAX_UPLOAD) {
        fail_and_finish(transfer, 413, "the body is larger than 16 GiB");
        return;
    }
    g_snprintf(digits, sizeof digits, "%08zx", size);
    if (!ipb_file_helper_send(transfer->helper, digits, SIZE_DIGITS) ||
        !ipb_file_helper_send(transfer->helper, bytes, size) ||
        ipb_file_helper_is_writing(transfer->helper))
        /* If it does not read any more, its end follows. */
        ipb_http_request_pause_body(transfer->request, true);
}

static void
on_written(void *data)
{
    Transfer *transfer = data;
    if (transfer->request != NULL)
        ipb_http_request_pause_body(transfer->request, false);
}

static void
on_body_end(void *data)
{
    Transfer *transfer = data;
    ipb_file_helper_send(transfer->helper, "00000000", SIZE_DIGITS);
}

static void
take_body(Transfer *transfer)
{
    static const IpbHttpBodyFuncs FUNCS = {.on_piece = on_piece, .on_end = on_body_end};
    ipb_file_helper_send(transfer->helper, "go\n", 3);
    ipb_http_request_read_body(transfer->request, &FUNCS, transfer);
}

/* --- what the program reports ----------------------------------------------------------------- */

/* What is there. */
static void
begin(Transfer *transfer, const IpbJson *report)
{
    const char *kind = ipb_json_get_string(report, "kind");
    const char *tag = ipb_json_get_string(report, "etag");
    int64_t size = 0, seconds = 0;
    bool is_file = g_strcmp0(kind, "file") == 0 && tag != NULL &&
                   ipb_json_get_int64(report, "size", &size) && size >= 0 &&
                   ipb_json_get_int64(report, "mtime", &seconds) &&
                   strspn(tag, "0123456789abcdef-") == strlen(tag);
    switch (transfer->action) {
    case READ:
        if (is_file)
            send_file(transfer, (uint64_t) size, tag, seconds);
        else
            send_to_directory(transfer);
        return;
    case LIST:
        send_list(transfer, report);
        return;
    case PACK:
        send_archive(transfer);
        return;
    case WRITE:
        if (check_conditions(transfer, is_file ? tag : NULL, NULL))
            take_body(transfer);
        return;
    case REMOVE:
        if (check_conditions(transfer, is_file ? tag : NULL, NULL))
            ipb_file_helper_send(transfer->helper, "go\n", 3);
        return;
    case MAKE:
        ipb_file_helper_send(transfer->helper, "go\n", 3);
        return;
    case UNPACK:
    default:
        take_body(transfer);
    }
}

/* It has done what it had to. */
static void
note_success(Transfer *transfer, const IpbJson *report)
{
    const char *tag = ipb_json_get_string(report, "etag");
    int64_t n_files;
    transfer->status = ipb_json_get_bool(report, "created", false) ? 201 : 204;
    if (tag != NULL && strspn(tag, "0123456789abcdef-") == strlen(tag))
        transfer->etag = g_strdup_printf("ETag: \"%s\"\r\n", tag);
    if (transfer->action == UNPACK && ipb_json_get_int64(report, "files", &n_files)) {
        transfer->status = 200;
        transfer->text = g_strdup_printf("{\"files\":%" G_GINT64_FORMAT "}", n_files);
    }
}

static void
on_report(const IpbJson *report, void *data)
{
    Transfer *transfer = data;
    const char *code = ipb_json_get_string(report, "error");
    if (transfer->request == NULL || transfer->status != 0)
        return;
    if (code != NULL) { /* the answer waits for what was denied */
        transfer->status = status_of(code);
        transfer->text = g_strdup(ipb_json_get_string(report, "text"));
        ipb_http_request_pause_body(transfer->request, true);
    } else if (!transfer->has_begun) {
        transfer->has_begun = true;
        begin(transfer, report);
    } else {
        note_success(transfer, report);
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

static void set_timer(IpbMcpFiles *files);

static void
end_stream(Transfer *transfer, bool is_ok)
{
    IpbHttpStream *stream = g_steal_pointer(&transfer->stream);
    if (is_ok && (transfer->action != READ || transfer->n_left == 0))
        ipb_http_stream_end(stream);
    else
        ipb_http_stream_abort(stream);
}

static void
on_helper_end(bool is_ok, const char *why, void *data)
{
    Transfer *transfer = data;
    if (transfer->stream != NULL) {
        end_stream(transfer, is_ok);
    } else if (transfer->request != NULL && is_ok && transfer->status >= 200 &&
               transfer->status < 300) {
        answer(transfer, transfer->status, transfer->etag, g_steal_pointer(&transfer->text));
    } else if (transfer->request != NULL && transfer->status >= 400) {
        g_autofree char *message = describe_failure(transfer, why);
        fail(transfer, transfer->status, message);
    } else if (transfer->request != NULL) {
        g_autofree char *message = g_strdup_printf("the program that works on files has failed: %s",
                                                   why != NULL ? why : "it has ended");
        fail(transfer, 500, message);
    }
    g_clear_pointer(&transfer->helper, ipb_file_helper_free);
    transfer->is_over = true;
    set_timer(transfer->files);
}

static void
on_client_gone(void *data)
{
    Transfer *transfer = data;
    transfer->request = NULL;
    if (transfer->helper != NULL) {
        finish(transfer);
        return;
    }
    transfer->is_over = true;
    set_timer(transfer->files);
}

static void
free_transfer(void *data)
{
    Transfer *transfer = data;
    ipb_file_helper_free(transfer->helper);
    g_free(transfer->path);
    g_free(transfer->params);
    g_free(transfer->text);
    g_free(transfer->etag);
    g_free(transfer);
}

/* --- turns ------------------------------------------------------------------------------------ */

static void
start(Transfer *transfer)
{
    g_autoptr(GError) error = NULL;
    IpbMcpFiles *files = transfer->files;
    IpbSession *session = ipb_mcp_service_common_session(transfer->service, &error);
    if (session != NULL)
        transfer->helper = ipb_file_helper_new(
            &(IpbFileHelperOptions){
                .runtime = files->runtime,
                .session = session,
                .is_sandboxed = transfer->is_sandboxed,
                .action = ACTIONS[transfer->action],
                .params = transfer->params,
                .on_report = on_report,
                .on_content = on_content,
                .on_written = on_written,
                .on_end = on_helper_end,
                .data = transfer,
            },
            &error);
    if (transfer->helper != NULL)
        return;
    fail(transfer, 500, error->message);
    transfer->is_over = true;
    set_timer(files);
}

static unsigned
count_running(const IpbMcpFiles *files, const IpbMcpService *service)
{
    unsigned n = 0;
    for (guint i = 0; i < files->transfers->len; i++) {
        const Transfer *transfer = g_ptr_array_index(files->transfers, i);
        n += transfer->helper != NULL && (service == NULL || transfer->service == service);
    }
    return n;
}

static void
on_timer(void *data)
{
    IpbMcpFiles *files = data;
    bool is_one_over = false;
    g_clear_pointer(&files->timer, ipb_timer_free);
    for (guint i = files->transfers->len; i-- > 0;) {
        const Transfer *transfer = g_ptr_array_index(files->transfers, i);
        if (!transfer->is_over)
            continue;
        is_one_over = true;
        g_ptr_array_remove_index(files->transfers, i); /* frees it */
    }
    for (guint i = 0; i < files->transfers->len; i++) {
        Transfer *transfer = g_ptr_array_index(files->transfers, i);
        if (transfer->helper == NULL && !transfer->is_over &&
            count_running(files, NULL) < MAX_RUNNING &&
            count_running(files, transfer->service) < MAX_RUNNING_EACH)
            start(transfer);
    }
    if (is_one_over)
        files->on_over(files->data);
}

/* From the loop. */
static void
set_timer(IpbMcpFiles *files)
{
    if (files->timer == NULL)
        files->timer = ipb_timer_new(files->loop, 0, on_timer, files);
}

/* --- requests --------------------------------------------------------------------------------- */

/* The path below the workspace; NULL: it is none. Segments are decoded one by one, so that an
 * encoded slash is not taken for one. *ret_is_directory: it ends in a slash. */
static char *
decode_path(IpbSpan target, bool *ret_is_directory)
{
    IpbSpan rest = ipb_http_target_path(target);
    size_t skipped = strlen(IPB_MCP_FILES_PATH);
    g_autoptr(GString) path = g_string_new(NULL);
    rest.start += skipped;
    rest.size -= skipped;
    *ret_is_directory = rest.size == 0 || rest.start[rest.size - 1] == '/';
    while (rest.size > 0) {
        const char *slash = memchr(rest.start, '/', rest.size);
        size_t size = slash != NULL ? (size_t) (slash - rest.start) : rest.size;
        g_autofree char *name = ipb_http_target_decode((IpbSpan){rest.start, size}, false);
        if (name == NULL || *name == '\0' || strchr(name, '/') != NULL || g_str_equal(name, ".") ||
            g_str_equal(name, ".."))
            return NULL;
        g_string_append_printf(path, "%s%s", path->len > 0 ? "/" : "", name);
        size += slash != NULL;
        rest.start += size;
        rest.size -= size;
    }
    return path->len <= MAX_PATH ? g_string_free(g_steal_pointer(&path), FALSE) : NULL;
}

static bool
has_flag(IpbSpan target, const char *name, const char *value)
{
    g_autofree char *found = ipb_http_target_query(target, name);
    return g_strcmp0(found, value) == 0;
}

/* An upload would be a commit without the approval that commits need. */
static bool
is_read_only(const IpbSessionOptions *options)
{
    bool allows_commits = options->approval == IPB_APPROVAL_ALLOW &&
                          !options->is_approval_default && options->approval_rules == NULL;
    return options->is_staged && !allows_commits;
}

/* NULL: *ret_action is set. Otherwise what is wrong with the request. */
static const char *
choose_action(const IpbHttpHead *head, bool is_directory, bool is_root, Action *ret_action)
{
    bool is_tar = has_flag(head->target, "format", "tar");
    bool has_body = head->content_length > 0 || head->is_chunked;
    if (is_tar && !is_directory)
        return "archives are of directories: end the path with a slash";
    if (ipb_span_equal(head->method, "DELETE")) {
        *ret_action = REMOVE;
        return is_root ? "the workspace itself cannot be removed" : NULL;
    }
    if (ipb_span_equal(head->method, "PUT")) {
        *ret_action = is_tar ? UNPACK : is_directory ? MAKE : WRITE;
        return *ret_action == MAKE && has_body
                   ? "this path is a directory: ?format=tar unpacks an archive in it; for a file, "
                     "end the path without a slash"
                   : NULL;
    }
    *ret_action = is_tar ? PACK : is_directory ? LIST : READ;
    return NULL;
}

static char *
make_params(const Transfer *transfer)
{
    IpbSpan value;
    IpbSpan target = ipb_http_request_head(transfer->request)->target;
    bool is_conditional =
        get_header(transfer, "If-Match", &value) || get_header(transfer, "If-None-Match", &value);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "path", transfer->path);
    if (transfer->action == WRITE || transfer->action == REMOVE)
        ipb_json_member_bool(writer, "is_conditional", is_conditional);
    if (transfer->action == REMOVE)
        ipb_json_member_bool(writer, "is_recursive", has_flag(target, "recursive", "true"));
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

void
ipb_mcp_files_handle(IpbMcpFiles *files, IpbMcpService *service, const IpbSessionOptions *options,
                     IpbHttpRequest *request)
{
    const IpbHttpHead *head = ipb_http_request_head(request);
    bool is_directory;
    Action action = READ;
    IpbSpan value;
    g_autofree char *path = decode_path(head->target, &is_directory);
    if (path == NULL) {
        ipb_http_request_answer_error(request, 400,
                                      "the path must be names of UTF-8, percent-encoded and "
                                      "separated by single slashes, without . and ..");
        return;
    }
    const char *wrong = choose_action(head, is_directory, *path == '\0', &action);
    if (wrong == NULL && ipb_http_head_get(head, "Content-Range", &value))
        wrong = "a part of a file cannot be written: send the whole file, without Content-Range";
    if (wrong != NULL) {
        ipb_http_request_answer_error(request, 400, wrong);
        return;
    }
    if (action >= WRITE && is_read_only(options)) {
        ipb_http_request_answer_error(
            request, 403,
            "the workspace is staged, and changes of it need an approval (commit_changes): files "
            "can be written over HTTP only if ipybox serve has --approve=allow");
        return;
    }
    if (head->content_length > MAX_UPLOAD) {
        ipb_http_request_refuse_error(request, 413, "the body is larger than 16 GiB", NULL);
        return;
    }
    Transfer *transfer = g_new0(Transfer, 1);
    *transfer = (Transfer){
        .files = files,
        .service = service,
        .is_sandboxed = options->is_sandboxed,
        .action = action,
        .path = g_steal_pointer(&path),
        .request = request,
    };
    transfer->params = make_params(transfer);
    ipb_http_request_set_gone(request, on_client_gone, transfer);
    g_ptr_array_add(files->transfers, transfer);
    set_timer(files);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpFiles *
ipb_mcp_files_new(IpbRuntime *runtime, void (*on_over)(void *data), void *data)
{
    IpbMcpFiles *files = g_new0(IpbMcpFiles, 1);
    files->runtime = runtime;
    files->loop = ipb_loop_ref(ipb_runtime_loop(runtime));
    files->transfers = g_ptr_array_new_with_free_func(free_transfer);
    files->on_over = on_over;
    files->data = data;
    return files;
}

static void
end_transfer(Transfer *transfer)
{
    if (transfer->stream != NULL)
        ipb_http_stream_abort(g_steal_pointer(&transfer->stream));
    fail(transfer, 503, "the server is ending, or the client was removed");
    if (transfer->helper != NULL) {
        finish(transfer);
        return;
    }
    transfer->is_over = true;
    set_timer(transfer->files);
}

void
ipb_mcp_files_end_of(IpbMcpFiles *files, const IpbMcpService *service)
{
    for (guint i = 0; i < files->transfers->len; i++) {
        Transfer *transfer = g_ptr_array_index(files->transfers, i);
        if (service == NULL || transfer->service == service)
            end_transfer(transfer);
    }
}

bool
ipb_mcp_files_serves(const IpbMcpFiles *files, const IpbMcpService *service)
{
    for (guint i = 0; i < files->transfers->len; i++) {
        const Transfer *transfer = g_ptr_array_index(files->transfers, i);
        if (service == NULL || transfer->service == service)
            return true;
    }
    return false;
}

void
ipb_mcp_files_free(IpbMcpFiles *files)
{
    if (files == NULL)
        return;
    ipb_mcp_files_end_of(files, NULL);
    ipb_timer_free(files->timer);
    g_ptr_array_unref(files->transfers);
    ipb_loop_unref(files->loop);
    g_free(files);
}
