/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP client and its calls, and the place of libcurl in the loop; see the header.
 *
 * A call is in the client's table until it is freed. It waits for libcurl (is_queued), is with it
 * (is_added), and has ended; then its on_end is called from the loop.
 *
 * libcurl calls us while it runs, and must not be called then (in_curl). Calls that our functions
 * begin or free then wait until it has returned.
 */
#include "http/client.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <ipybox/version.h>

#include "base/display-text.h"
#include "base/error.h"
#include "http/curl.h"
#include "http/url.h"

#define DEFAULT_MAX_HEAD (64 * 1024)
#define DEFAULT_MAX_HEADERS 128
#define DEFAULT_MAX_BODY (16 * 1024 * 1024)
#define DEFAULT_CONNECT_MS 30000
/* A kept connection is used again within this time only. Servers close connections after 5 s and
 * more, and a request that is sent just then may be lost. */
#define MAX_IDLE_S 3L
/* Idle connections that are kept. */
#define MAX_IDLE_CONNECTIONS 16L
#define MAX_CA_FILE_SIZE (16 << 20)
/* Characters of libcurl's text in an error message. */
#define MAX_DETAILS 200

struct IpbHttpClient {
    IpbCurl *curl;
    IpbLoop *loop;
    CURLM *multi;
    /* libcurl's */
    IpbTimer *timer;
    /* Begins the calls in @waiting, and reports those in @ended */
    IpbTimer *work_timer;
    char *ca_file, *ca_dir;
    /* NULL: the process's */
    char **env;
    /* Set of all IpbHttpCall */
    GHashTable *calls;
    /* Borrowed: to be given to libcurl */
    GQueue waiting;
    /* Borrowed: on_end is to be called */
    GQueue ended;
    /* libcurl is running: it cannot be called */
    unsigned in_curl;
    /* Freed within a function of a call; destroyed when the last of @n_reporting returns */
    bool is_freed;
    unsigned n_reporting;
};

struct IpbHttpCall {
    IpbHttpClient *client;
    CURL *easy;
    /* To the multi handle */
    bool is_added;
    /* By the owner, while libcurl was running */
    bool is_freed;
    bool is_queued, has_ended;
    /* For messages */
    char *origin;
    struct curl_slist *headers;
    char *body;
    size_t body_size, body_sent;
    char details[CURL_ERROR_SIZE];
    IpbHttpLimits limits;
    IpbHttpDeadlines deadlines;
    IpbHttpHeadFunc on_head;
    IpbHttpBodyFunc on_body;
    IpbHttpEndFunc on_end;
    void *data;

    IpbTimer *timer;
    /* Monotonic time in µs */
    int64_t began, last_byte;
    /* The status as it was reported, and that of the head that is being read */
    unsigned status, head_status;
    bool has_head;
    size_t head_size, body_received;
    unsigned n_head_lines;
    /* Of the answer's headers */
    GPtrArray *names, *values;
    /* What ended it */
    GError *error;
};

/* --- the answer ------------------------------------------------------------------------------- */

static void schedule(IpbHttpClient *client);
static void finish_call(IpbHttpCall *call, CURLcode code);
static void start_timer(IpbHttpCall *call);

static const char *
get_env(const IpbHttpClient *client, const char *name)
{
    const char *value = client->env != NULL ? g_environ_getenv(client->env, name) : g_getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static void set_error(IpbHttpCall *call, int code, const char *format, ...) G_GNUC_PRINTF(3, 4);

static void
set_error(IpbHttpCall *call, int code, const char *format, ...)
{
    if (call->error != NULL)
        return;
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    call->error = g_error_new(IPYBOX_ERROR, code, "%s: %s",
                              call->origin != NULL ? call->origin : "the request", text);
}

/* Nothing more of libcurl is processed for it. */
static bool
is_over(const IpbHttpCall *call)
{
    return call->is_freed || call->error != NULL || call->client->is_freed;
}

static bool
has_control(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((unsigned char) text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7f)
            return true;
    return false;
}

/* The head is complete. That of an interim answer is dropped. */
static void
end_head(IpbHttpCall *call)
{
    if (call->head_status == 101) {
        set_error(call, IPYBOX_ERROR_PROTOCOL,
                  "its answer switches to another protocol (status 101), which was not requested");
        return;
    }
    if (call->head_status < 200) {
        g_ptr_array_set_size(call->names, 0);
        g_ptr_array_set_size(call->values, 0);
        return;
    }
    call->has_head = true;
    call->status = call->head_status;
    call->last_byte = g_get_monotonic_time();
    if (call->on_head != NULL)
        call->on_head(call, call->status, call->data);
}

static void
take_status_line(IpbHttpCall *call, const char *line, size_t size)
{
    g_autofree char *text = g_strndup(line, size);
    const char *blank = strchr(text, ' ');
    call->head_status = blank != NULL ? (unsigned) g_ascii_strtoull(blank + 1, NULL, 10) : 0;
    if (call->head_status < 100 || call->head_status > 999)
        set_error(call, IPYBOX_ERROR_PROTOCOL, "its answer begins with no HTTP status");
    g_ptr_array_set_size(call->names, 0);
    g_ptr_array_set_size(call->values, 0);
}

static void
take_header(IpbHttpCall *call, const char *line, size_t size)
{
    const char *colon = memchr(line, ':', size);
    if (has_control(line, size) || *line == ' ' || *line == '\t' || colon == NULL) {
        set_error(call, IPYBOX_ERROR_PROTOCOL,
                  "a header of its answer is none: no colon, folded or with control characters");
        return;
    }
    g_ptr_array_add(call->names, g_strndup(line, (size_t) (colon - line)));
    char *value = g_strndup(colon + 1, size - (size_t) (colon + 1 - line));
    g_ptr_array_add(call->values, g_strstrip(value));
}

/* libcurl: a line of a head (interim answers have heads, too), or of a chunked body's trailer. */
static size_t
on_header(char *line, size_t one, size_t size, void *data)
{
    IpbHttpCall *call = data;
    if (is_over(call))
        return 0;
    call->head_size += size;
    if (call->head_size > call->limits.head_size) {
        set_error(call, IPYBOX_ERROR_LIMIT,
                  "the headers of its answer have more than %zu bytes, the maximum (head_size)",
                  call->limits.head_size);
        return 0;
    }
    if (++call->n_head_lines > call->limits.n_headers) {
        set_error(call, IPYBOX_ERROR_LIMIT,
                  "its answer has more than %u headers, the maximum (n_headers)",
                  call->limits.n_headers);
        return 0;
    }
    if (call->has_head)
        return size; /* a trailer */
    size_t length = size;
    if (length > 0 && line[length - 1] == '\n')
        length--;
    if (length > 0 && line[length - 1] == '\r')
        length--;
    if (length == 0)
        end_head(call);
    else if (length > 5 && memcmp(line, "HTTP/", 5) == 0)
        take_status_line(call, line, length);
    else
        take_header(call, line, length);
    return is_over(call) ? 0 : size;
}

/* libcurl: a piece of the body, decompressed. */
static size_t
on_bytes(char *bytes, size_t one, size_t size, void *data)
{
    IpbHttpCall *call = data;
    if (is_over(call))
        return 0;
    if (size > call->limits.body_size - call->body_received) {
        set_error(call, IPYBOX_ERROR_LIMIT,
                  "the body of its answer has more than %zu bytes, the maximum (body_size)",
                  call->limits.body_size);
        return 0;
    }
    call->body_received += size;
    call->last_byte = g_get_monotonic_time();
    if (call->on_body != NULL && size > 0)
        call->on_body(call, bytes, size, call->data);
    return is_over(call) ? 0 : size;
}

/* libcurl: more of the request's body. There is no function to rewind, so libcurl never sends a
 * request a second time on another connection. */
static size_t
on_read(char *buffer, size_t one, size_t size, void *data)
{
    IpbHttpCall *call = data;
    if (is_over(call))
        return CURL_READFUNC_ABORT;
    size_t n = MIN(size * one, call->body_size - call->body_sent);
    if (n > 0)
        memcpy(buffer, call->body + call->body_sent, n);
    call->body_sent += n;
    return n;
}

/* libcurl: as libcurl does it, but the programs that we start do not inherit the socket. */
static curl_socket_t
on_open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int64_t
deadline_of(int64_t from, unsigned after_ms)
{
    return after_ms > 0 ? from + (int64_t) after_ms * 1000 : INT64_MAX;
}

static void
on_deadline(void *data)
{
    IpbHttpCall *call = data;
    g_clear_pointer(&call->timer, ipb_timer_free);
    int64_t now = g_get_monotonic_time();
    const IpbHttpDeadlines *deadlines = &call->deadlines;
    if (now >= deadline_of(call->began, deadlines->total_ms))
        set_error(call, IPYBOX_ERROR_TIMEOUT, "the answer was not complete within %g s",
                  deadlines->total_ms / 1000.0);
    else if (!call->has_head && now >= deadline_of(call->began, deadlines->head_ms))
        set_error(call, IPYBOX_ERROR_TIMEOUT, "no answer began within %g s",
                  deadlines->head_ms / 1000.0);
    else if (call->has_head && now >= deadline_of(call->last_byte, deadlines->idle_ms))
        set_error(call, IPYBOX_ERROR_TIMEOUT, "nothing more of the answer came within %g s",
                  deadlines->idle_ms / 1000.0);
    if (call->error != NULL)
        finish_call(call, CURLE_OK);
    else
        start_timer(call);
}

static void
start_timer(IpbHttpCall *call)
{
    const IpbHttpDeadlines *deadlines = &call->deadlines;
    int64_t now = g_get_monotonic_time();
    int64_t first = deadline_of(call->began, deadlines->total_ms);
    first = MIN(first, call->has_head ? deadline_of(call->last_byte, deadlines->idle_ms)
                                      : deadline_of(call->began, deadlines->head_ms));
    /* The idle time begins with the head, which comes without this timer. */
    if (!call->has_head)
        first = MIN(first, deadline_of(now, deadlines->idle_ms));
    if (first == INT64_MAX)
        return;
    int64_t delay_ms = CLAMP((first - now + 999) / 1000, 1, G_MAXINT);
    call->timer = ipb_timer_new(call->client->loop, (unsigned) delay_ms, on_deadline, call);
}

/* libcurl's own description of its error, printable and without a proxy's password. */
static char *
describe(const IpbHttpCall *call, CURLcode code)
{
    if (g_str_has_prefix(call->details, "Unsupported proxy"))
        return g_strdup("the proxy's address is wrong: see http_proxy, https_proxy, all_proxy");
    const char *text =
        *call->details != '\0' ? call->details : call->client->curl->easy_strerror(code);
    g_autofree char *shown = ipb_display_text_printable(text);
    g_strdelimit(g_strchomp(shown), "\n\t", ' ');
    return g_utf8_substring(shown, 0, MIN(g_utf8_strlen(shown, -1), MAX_DETAILS));
}

/* Did the proxy refuse the connection? Then nothing reached the server. */
static bool
is_refused_by_proxy(const IpbHttpCall *call)
{
    long status = 0;
    call->client->curl->easy_getinfo(call->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    return status >= 300;
}

static void
set_curl_error(IpbHttpCall *call, CURLcode code)
{
    g_autofree char *text = describe(call, code);
    if (is_refused_by_proxy(call)) {
        set_error(call, IPYBOX_ERROR_UNAVAILABLE,
                  "the proxy refuses the connection (%s): see https_proxy", text);
        return;
    }
    switch ((int) code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        set_error(call, IPYBOX_ERROR_NOT_FOUND, "the name of the host is not known (%s)", text);
        break;
    case CURLE_COULDNT_RESOLVE_PROXY:
        set_error(call, IPYBOX_ERROR_UNAVAILABLE,
                  "the name of the proxy is not known (%s): see http_proxy and https_proxy", text);
        break;
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY:
        set_error(call, IPYBOX_ERROR_UNAVAILABLE, "no connection (%s)", text);
        break;
    case CURLE_SSL_CONNECT_ERROR:
        set_error(call, IPYBOX_ERROR_UNAVAILABLE,
                  "no connection with TLS (%s): is it a server of https?", text);
        break;
    case CURLE_PEER_FAILED_VERIFICATION:
        set_error(call, IPYBOX_ERROR_REFUSED,
                  "its certificate is not to be trusted (%s). If it is signed by an authority of "
                  "your own, name its PEM file as ca_file, or in SSL_CERT_FILE",
                  text);
        break;
    case CURLE_SSL_CACERT_BADFILE:
        set_error(call, IPYBOX_ERROR_INVALID,
                  "the certificates of authorities cannot be read (%s): see ca_file and "
                  "SSL_CERT_FILE, or install ca-certificates",
                  text);
        break;
    case CURLE_OPERATION_TIMEDOUT:
        set_error(call, IPYBOX_ERROR_TIMEOUT, "no connection within %g s",
                  call->deadlines.connect_ms / 1000.0);
        break;
    case CURLE_URL_MALFORMAT:
    case CURLE_LOGIN_DENIED:
        set_error(call, IPYBOX_ERROR_INVALID, "the URL is wrong (%s)", text);
        break;
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9: the URL's protocol was checked before */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WRITE_ERROR: /* of its decompression; ours have set an error already */
        set_error(call, IPYBOX_ERROR_PROTOCOL, "its answer is wrong (%s)", text);
        break;
    case CURLE_OUT_OF_MEMORY: /* also libcurl's code for a header that is too long */
        set_error(call, IPYBOX_ERROR_LIMIT,
                  "a header of its answer is too long: libcurl takes 100 KB (%s)", text);
        break;
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        set_error(call, IPYBOX_ERROR_SERVER,
                  "the connection ended before the answer was complete (%s)%s", text,
                  call->body_size > 0 ? "; the request may have been executed" : "");
        break;
    default:
        set_error(call, IPYBOX_ERROR_SYSTEM, "the request failed (%s)", text);
    }
}

static void
finish_call(IpbHttpCall *call, CURLcode code)
{
    IpbHttpClient *client = call->client;
    if (call->is_added) {
        client->in_curl++;
        client->curl->multi_remove_handle(client->multi, call->easy);
        client->in_curl--;
        call->is_added = false;
    }
    g_clear_pointer(&call->timer, ipb_timer_free);
    if (call->has_ended || call->is_freed)
        return;
    call->has_ended = true;
    if (code != CURLE_OK)
        set_curl_error(call, code);
    else if (!call->has_head)
        set_error(call, IPYBOX_ERROR_PROTOCOL, "its answer has no head");
    g_queue_push_tail(&client->ended, call);
    schedule(client);
}

static void
destroy_call(IpbHttpCall *call)
{
    IpbHttpClient *client = call->client;
    g_clear_pointer(&call->timer, ipb_timer_free);
    client->in_curl++;
    if (call->is_added)
        client->curl->multi_remove_handle(client->multi, call->easy);
    if (call->easy != NULL)
        client->curl->easy_cleanup(call->easy);
    client->in_curl--;
    client->curl->slist_free_all(call->headers);
    g_clear_pointer(&call->names, g_ptr_array_unref);
    g_clear_pointer(&call->values, g_ptr_array_unref);
    g_clear_error(&call->error);
    g_free(call->origin);
    g_free(call->body);
    g_free(call);
}

void
ipb_http_call_free(IpbHttpCall *call)
{
    if (call == NULL || call->is_freed)
        return;
    IpbHttpClient *client = call->client;
    g_queue_remove(&client->ended, call);
    g_queue_remove(&client->waiting, call);
    call->is_freed = true;
    if (client->in_curl > 0)
        return; /* sweep() frees it when libcurl has returned */
    g_hash_table_remove(client->calls, call);
    destroy_call(call);
}

unsigned
ipb_http_call_status(const IpbHttpCall *call)
{
    return call->status;
}

const char *
ipb_http_call_header(const IpbHttpCall *call, const char *name, unsigned index)
{
    for (guint i = 0; i < call->names->len; i++)
        if (g_ascii_strcasecmp(call->names->pdata[i], name) == 0 && index-- == 0)
            return call->values->pdata[i];
    return NULL;
}

static bool
add_header(IpbHttpCall *call, const char *header)
{
    struct curl_slist *list = call->client->curl->slist_append(call->headers, header);
    if (list == NULL)
        return false;
    call->headers = list;
    return true;
}

/* For libcurl, "Name:" without a value removes a header, and "Name;" sends an empty one. */
static bool
add_headers(IpbHttpCall *call, const char *const *headers)
{
    for (size_t i = 0; headers != NULL && headers[i] != NULL; i++) {
        const char *header = headers[i];
        const char *colon = strchr(header, ':');
        if (colon == NULL || colon == header || has_control(header, strlen(header))) {
            set_error(call, IPYBOX_ERROR_INVALID,
                      "a header to be sent is wrong: it must be \"Name: value\" without control "
                      "characters");
            return false;
        }
        g_autofree char *value = g_strstrip(g_strdup(colon + 1));
        g_autofree char *name = g_strndup(header, (size_t) (colon - header));
        g_autofree char *line =
            *value == '\0' ? g_strconcat(name, ";", NULL) : g_strconcat(name, ": ", value, NULL);
        if (strpbrk(name, " \t;,\"()<>@[]{}?=/\\") != NULL || !g_str_is_ascii(name)) {
            set_error(call, IPYBOX_ERROR_INVALID, "the name of a header to be sent is wrong");
            return false;
        }
        if (!add_header(call, line))
            return false;
    }
    /* Sends the body without waiting for 100 Continue. */
    return add_header(call, "Expect:");
}

/* libcurl does not look into the environment itself, because the options may replace it. */
static const char *
find_proxy(const IpbHttpClient *client, const char *origin)
{
    /* Not HTTP_PROXY: in a CGI program that is a header of the request. */
    static const char *const HTTP[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
    static const char *const HTTPS[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                        NULL};
    const char *const *names = g_str_has_prefix(origin, "https:") ? HTTPS : HTTP;
    for (; *names != NULL; names++) {
        const char *value = get_env(client, *names);
        if (value != NULL)
            return value;
    }
    return "";
}

static const char *
find_no_proxy(const IpbHttpClient *client)
{
    const char *value = get_env(client, "no_proxy");
    if (value == NULL)
        value = get_env(client, "NO_PROXY");
    return value != NULL ? value : "";
}

#define SET(option, value) (curl->easy_setopt(easy, (option), (value)) == CURLE_OK)

static bool
set_functions(IpbHttpCall *call, CURL *easy)
{
    const IpbCurl *curl = call->client->curl;
    return SET(CURLOPT_PRIVATE, call) && SET(CURLOPT_ERRORBUFFER, call->details) &&
           SET(CURLOPT_HEADERFUNCTION, on_header) && SET(CURLOPT_HEADERDATA, call) &&
           SET(CURLOPT_WRITEFUNCTION, on_bytes) && SET(CURLOPT_WRITEDATA, call) &&
           SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
}

static bool
set_connection(IpbHttpCall *call, CURL *easy)
{
    const IpbHttpClient *client = call->client;
    const IpbCurl *curl = client->curl;
    return SET(CURLOPT_PROTOCOLS_STR, "http,https") && SET(CURLOPT_FOLLOWLOCATION, 0L) &&
           SET(CURLOPT_NOSIGNAL, 1L) && SET(CURLOPT_QUICK_EXIT, 1L) &&
           SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L) &&
           SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1) &&
           SET(CURLOPT_ACCEPT_ENCODING, "gzip, deflate") &&
           SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) && SET(CURLOPT_MAXAGE_CONN, MAX_IDLE_S) &&
           SET(CURLOPT_CONNECTTIMEOUT_MS, (long) call->deadlines.connect_ms) &&
           SET(CURLOPT_SSL_VERIFYPEER, 1L) && SET(CURLOPT_SSL_VERIFYHOST, 2L) &&
           (client->ca_file == NULL || SET(CURLOPT_CAINFO, client->ca_file)) &&
           (client->ca_dir == NULL || SET(CURLOPT_CAPATH, client->ca_dir)) &&
           SET(CURLOPT_PROXY, find_proxy(client, call->origin)) &&
           SET(CURLOPT_NOPROXY, find_no_proxy(client)) &&
           SET(CURLOPT_USERAGENT, "ipybox/" IPYBOX_VERSION);
}

static bool
set_request(IpbHttpCall *call, CURL *easy, const IpbHttpCallOptions *options)
{
    const IpbCurl *curl = call->client->curl;
    if (!SET(CURLOPT_URL, options->url) || !SET(CURLOPT_HTTPHEADER, call->headers))
        return false;
    if (call->body == NULL)
        return SET(CURLOPT_HTTPGET, 1L) && SET(CURLOPT_CUSTOMREQUEST, options->method);
    return SET(CURLOPT_POST, 1L) && SET(CURLOPT_CUSTOMREQUEST, options->method) &&
           SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) call->body_size) &&
           SET(CURLOPT_READFUNCTION, on_read) && SET(CURLOPT_READDATA, call);
}

static void
copy_options(IpbHttpCall *call, const IpbHttpCallOptions *options)
{
    call->on_head = options->on_head;
    call->on_body = options->on_body;
    call->on_end = options->on_end;
    call->data = options->data;
    call->limits = options->limits;
    if (call->limits.head_size == 0)
        call->limits.head_size = DEFAULT_MAX_HEAD;
    if (call->limits.n_headers == 0)
        call->limits.n_headers = DEFAULT_MAX_HEADERS;
    if (call->limits.body_size == 0)
        call->limits.body_size = DEFAULT_MAX_BODY;
    call->deadlines = options->deadlines;
    if (call->deadlines.connect_ms == 0)
        call->deadlines.connect_ms = DEFAULT_CONNECT_MS;
    call->names = g_ptr_array_new_with_free_func(g_free);
    call->values = g_ptr_array_new_with_free_func(g_free);
    call->began = g_get_monotonic_time();
    if (options->body != NULL) {
        /* One byte more, because an empty body is a body. */
        call->body = g_malloc(options->body_size + 1);
        memcpy(call->body, options->body, options->body_size);
        call->body_size = options->body_size;
    }
}

static void
prepare_call(IpbHttpCall *call, const IpbHttpCallOptions *options)
{
    copy_options(call, options);
    call->origin = ipb_http_url_origin(call->client->curl, options->url, &call->error);
    if (call->origin == NULL || !add_headers(call, options->headers))
        return;
    call->easy = call->client->curl->easy_init();
    if (call->easy == NULL || !set_functions(call, call->easy) ||
        !set_connection(call, call->easy) || !set_request(call, call->easy, options))
        set_error(call, IPYBOX_ERROR_UNAVAILABLE, "%s is too old, or without HTTPS: 7.87 is needed",
                  call->client->curl->version());
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Processes the calls that libcurl has ended by now. */
static void
read_ends(IpbHttpClient *client)
{
    CURLMsg *message;
    int left;
    while ((message = client->curl->multi_info_read(client->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE)
            continue;
        IpbHttpCall *call = NULL;
        CURLcode code = message->data.result;
        client->curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **) &call);
        finish_call(call, code);
    }
}

/* Frees the calls that their owners freed while libcurl ran. */
static void
sweep(IpbHttpClient *client)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, client->calls);
    while (g_hash_table_iter_next(&iter, &item, NULL)) {
        if (!((IpbHttpCall *) item)->is_freed)
            continue;
        g_hash_table_iter_remove(&iter);
        destroy_call(item);
    }
}

static void
destroy(IpbHttpClient *client)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, client->calls);
    while (g_hash_table_iter_next(&iter, &item, NULL))
        destroy_call(item);
    g_hash_table_unref(client->calls);
    g_queue_clear(&client->waiting);
    g_queue_clear(&client->ended);
    g_clear_pointer(&client->work_timer, ipb_timer_free);
    if (client->multi != NULL)
        client->curl->multi_cleanup(client->multi); /* calls on_socket and on_timer_wanted */
    g_clear_pointer(&client->timer, ipb_timer_free);
    ipb_curl_unload(client->curl);
    ipb_loop_unref(client->loop);
    g_free(client->ca_file);
    g_free(client->ca_dir);
    g_strfreev(client->env);
    g_free(client);
}

/* Reports calls that have ended. Their functions may free the client. */
static void
report_ends(IpbHttpClient *client)
{
    client->n_reporting++;
    for (guint n = client->ended.length; n > 0 && !client->is_freed; n--) {
        IpbHttpCall *call = g_queue_pop_head(&client->ended);
        if (call == NULL)
            break;
        g_autoptr(GError) error = g_steal_pointer(&call->error);
        call->on_end(call, error, call->data); /* may free it */
    }
    client->n_reporting--;
    if (client->is_freed && client->n_reporting == 0) {
        destroy(client);
        return;
    }
    if (client->ended.length > 0)
        schedule(client);
}

static void
on_work(void *data)
{
    IpbHttpClient *client = data;
    g_clear_pointer(&client->work_timer, ipb_timer_free);
    IpbHttpCall *call;
    while ((call = g_queue_pop_head(&client->waiting)) != NULL) {
        call->is_queued = false;
        client->in_curl++;
        CURLMcode code = client->curl->multi_add_handle(client->multi, call->easy);
        client->in_curl--;
        call->is_added = code == CURLM_OK;
        if (code == CURLM_OK)
            start_timer(call);
        else
            finish_call(call, CURLE_FAILED_INIT);
    }
    report_ends(client);
}

static void
schedule(IpbHttpClient *client)
{
    if (client->work_timer == NULL && !client->is_freed)
        client->work_timer = ipb_timer_new(client->loop, 0, on_work, client);
}

static void
act(IpbHttpClient *client, curl_socket_t fd, int what)
{
    int running;
    client->in_curl++;
    client->curl->multi_socket_action(client->multi, fd, what, &running);
    client->in_curl--;
    if (client->is_freed) {
        if (client->n_reporting == 0)
            destroy(client);
        return;
    }
    read_ends(client);
    sweep(client);
    report_ends(client);
}

typedef struct {
    IpbHttpClient *client;
    curl_socket_t fd;
    IpbWatch *watch;
} Socket;

static void
on_socket_ready(uint32_t events, void *data)
{
    Socket *sock = data;
    act(sock->client, sock->fd,
        (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
            (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
}

/* libcurl: watch this socket. */
static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
    IpbHttpClient *client = data;
    Socket *sock = socket_data;
    if (what == CURL_POLL_REMOVE) {
        if (sock != NULL)
            ipb_watch_free(sock->watch);
        g_free(sock);
        client->curl->multi_assign(client->multi, fd, NULL);
        return 0;
    }
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    if (sock != NULL) {
        ipb_watch_set_events(sock->watch, events);
        return 0;
    }
    sock = g_new(Socket, 1);
    *sock = (Socket){client, fd, NULL};
    sock->watch = ipb_watch_new(client->loop, fd, events, on_socket_ready, sock, NULL);
    if (sock->watch == NULL) {
        g_free(sock);
        return 0; /* the call's deadline ends it */
    }
    client->curl->multi_assign(client->multi, fd, sock);
    return 0;
}

static void
on_timer(void *data)
{
    IpbHttpClient *client = data;
    g_clear_pointer(&client->timer, ipb_timer_free);
    act(client, CURL_SOCKET_TIMEOUT, 0);
}

/* libcurl: call on_timer after this delay. */
static int
on_timer_wanted(CURLM *multi, long delay_ms, void *data)
{
    IpbHttpClient *client = data;
    g_clear_pointer(&client->timer, ipb_timer_free);
    if (delay_ms >= 0)
        client->timer = ipb_timer_new(client->loop, (unsigned) delay_ms, on_timer, client);
    return 0;
}

/* Reading a device could take forever. */
static bool
check_ca_file(const char *path, GError **error)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return ipb_error_set_errno(error, errno, "ca_file %s", path);
    if (S_ISREG(info.st_mode) && info.st_size <= MAX_CA_FILE_SIZE)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "ca_file must be a file of certificates, of at most %d MiB: %s",
                MAX_CA_FILE_SIZE >> 20, path);
    return false;
}

IpbHttpClient *
ipb_http_client_new(IpbLoop *loop, const IpbHttpClientOptions *options, GError **error)
{
    if (options != NULL && options->ca_file != NULL && !check_ca_file(options->ca_file, error))
        return NULL;
    IpbCurl *curl = ipb_curl_load(error);
    if (curl == NULL)
        return NULL;
    IpbHttpClient *client = g_new0(IpbHttpClient, 1);
    client->curl = curl;
    client->loop = ipb_loop_ref(loop);
    client->calls = g_hash_table_new(NULL, NULL);
    client->env = options != NULL ? g_strdupv((char **) options->env) : NULL;
    const char *ca_file = options != NULL && options->ca_file != NULL
                              ? options->ca_file
                              : get_env(client, "SSL_CERT_FILE");
    client->ca_file = g_strdup(ca_file != NULL ? ca_file : ipb_curl_find_authorities());
    if (options == NULL || options->ca_file == NULL)
        client->ca_dir = g_strdup(get_env(client, "SSL_CERT_DIR"));
    client->multi = curl->multi_init();
    if (client->multi == NULL ||
        curl->multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_TIMERDATA, client) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, MAX_IDLE_CONNECTIONS) != CURLM_OK) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "%s does not work here",
                    curl->version());
        destroy(client);
        return NULL;
    }
    return client;
}

void
ipb_http_client_free(IpbHttpClient *client)
{
    if (client == NULL || client->is_freed)
        return;
    client->is_freed = true;
    if (client->n_reporting == 0 && client->in_curl == 0)
        destroy(client);
}

IpbHttpCall *
ipb_http_client_send(IpbHttpClient *client, const IpbHttpCallOptions *options)
{
    IpbHttpCall *call = g_new0(IpbHttpCall, 1);
    call->client = client;
    g_hash_table_add(client->calls, call);
    prepare_call(call, options);
    if (call->error != NULL) {
        call->has_ended = true;
        g_queue_push_tail(&client->ended, call);
    } else {
        call->is_queued = true;
        g_queue_push_tail(&client->waiting, call);
    }
    schedule(client);
    return call;
}

char *
ipb_http_client_origin(IpbHttpClient *client, const char *url, GError **error)
{
    return ipb_http_url_origin(client->curl, url, error);
}

char *
ipb_http_client_resolve(IpbHttpClient *client, const char *base, const char *reference,
                        GError **error)
{
    return ipb_http_url_resolve(client->curl, base, reference, error);
}
