/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of one MCP server; see the header.
 */
#include "mcp/server-log.h"

#include <string.h>

/* Bytes of stderr that are kept. */
#define MAX_TAIL (64 * 1024)
/* The part of them that is shown below an error message. */
#define MAX_ERROR_LINES 20
#define MAX_ERROR_LINE 400
/* Passed on at most: bytes of a line, lines in one second. */
#define MAX_LINE 4096
#define MAX_LINES_PER_WINDOW 100
#define WINDOW_MS 1000

struct IpbServerLog {
    unsigned refs;
    IpbLoop *loop;
    IpbServerLogFunc func;
    void *data;
    char *tail; /* ring of MAX_TAIL bytes, allocated with the first byte */
    size_t tail_end, tail_size;
    GString *line; /* an unfinished line of stderr */
    int64_t window_start;
    unsigned n_in_window;
    unsigned n_left_out;
    IpbTimer *left_out_timer;
};

IpbServerLog *
ipb_server_log_new(IpbLoop *loop, IpbServerLogFunc func, void *data)
{
    IpbServerLog *log = g_new0(IpbServerLog, 1);
    log->refs = 1;
    log->loop = ipb_loop_ref(loop);
    log->func = func;
    log->data = data;
    log->line = g_string_new(NULL);
    return log;
}

IpbServerLog *
ipb_server_log_ref(IpbServerLog *log)
{
    log->refs++;
    return log;
}

void
ipb_server_log_unref(IpbServerLog *log)
{
    if (log == NULL || --log->refs > 0)
        return;
    ipb_server_log_mute(log);
    g_free(log->tail);
    g_string_free(log->line, true);
    ipb_loop_unref(log->loop);
    g_free(log);
}

void
ipb_server_log_mute(IpbServerLog *log)
{
    log->func = NULL;
    g_clear_pointer(&log->left_out_timer, ipb_timer_free);
}

static bool
is_harmful(gunichar c)
{
    if (c == '\n' || c == '\t')
        return false;
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* The length of the terminal sequence at @text, which begins with ESC: CSI (colours, cursor), OSC
 * (titles, links), or two characters. */
static size_t
terminal_sequence_size(const char *text)
{
    size_t i = 2;
    if (text[1] == '[') {
        while (text[i] >= 0x20 && text[i] < 0x40)
            i++;
        return text[i] >= 0x40 && text[i] < 0x7f ? i + 1 : i;
    }
    if (text[1] == ']') {
        while (text[i] != '\0' && text[i] != '\a' && text[i] != '\033' && text[i] != '\n')
            i++;
        return text[i] == '\a' ? i + 1 : text[i] == '\033' && text[i + 1] == '\\' ? i + 2 : i;
    }
    return text[1] > ' ' && text[1] < 0x7f ? 2 : 1;
}

char *
ipb_server_log_clean(const char *text, size_t size, size_t max_size)
{
    size_t used = MIN(size, max_size * 4);
    g_autofree char *valid = g_utf8_make_valid(text, (gssize) used);
    GString *out = g_string_new(NULL);
    const char *c = valid;
    while (*c != '\0' && out->len < max_size) {
        if (*c == '\033') {
            c += terminal_sequence_size(c);
            continue;
        }
        gunichar character = g_utf8_get_char(c);
        if (!(*c == '\r' && (c[1] == '\n' || c[1] == '\0')))
            g_string_append_unichar(out, is_harmful(character) ? 0xfffd : character);
        c = g_utf8_next_char(c);
    }
    if (*c != '\0' || used < size)
        g_string_append(out, "…");
    return g_string_free(out, false);
}

char *
ipb_server_log_clean_body(const GString *body, size_t max_size)
{
    return ipb_server_log_clean(body->str, body->str[0] != '<' ? body->len : 0, max_size);
}

static void
on_left_out_timer(void *data)
{
    IpbServerLog *log = data;
    g_clear_pointer(&log->left_out_timer, ipb_timer_free);
    unsigned count = log->n_left_out;
    log->n_left_out = 0;
    g_autofree char *text = g_strdup_printf("%u lines were left out: too many at once", count);
    if (log->func != NULL)
        log->func("warning", text, log->data); /* may drop the last reference */
}

/* Whether one more line may be passed on now. */
static bool
may_write(IpbServerLog *log)
{
    int64_t now = g_get_monotonic_time();
    if (log->n_in_window == 0 || now - log->window_start >= WINDOW_MS * 1000) {
        log->window_start = now;
        log->n_in_window = 0;
    }
    if (log->n_in_window < MAX_LINES_PER_WINDOW) {
        log->n_in_window++;
        return true;
    }
    log->n_left_out++;
    if (log->left_out_timer == NULL)
        log->left_out_timer = ipb_timer_new(log->loop, WINDOW_MS, on_left_out_timer, log);
    return false;
}

void
ipb_server_log_write(IpbServerLog *log, const char *level, const char *text, size_t size)
{
    if (log->func == NULL || !may_write(log))
        return;
    g_autofree char *clean = ipb_server_log_clean(text, size, MAX_LINE);
    log->func(level, clean, log->data);
}

static void
add_to_tail(IpbServerLog *log, const char *bytes, size_t size)
{
    if (size > MAX_TAIL) {
        bytes += size - MAX_TAIL;
        size = MAX_TAIL;
    }
    if (log->tail == NULL)
        log->tail = g_malloc(MAX_TAIL);
    size_t first = MIN(size, MAX_TAIL - log->tail_end);
    memcpy(log->tail + log->tail_end, bytes, first);
    memcpy(log->tail, bytes + first, size - first);
    log->tail_end = (log->tail_end + size) % MAX_TAIL;
    log->tail_size = MIN(log->tail_size + size, MAX_TAIL);
}

static void
write_line(IpbServerLog *log)
{
    g_autoptr(GString) line = log->line;
    log->line = g_string_new(NULL);
    if (line->len > 0)
        ipb_server_log_write(log, "stderr", line->str, line->len);
}

void
ipb_server_log_add_stderr(IpbServerLog *log, const char *bytes, size_t size, bool is_end)
{
    g_autoptr(IpbServerLog) held = ipb_server_log_ref(log);
    if (size > 0)
        add_to_tail(log, bytes, size);
    while (size > 0) {
        const char *newline = memchr(bytes, '\n', size);
        size_t part = newline != NULL ? (size_t) (newline - bytes) : size;
        /* One byte more than is passed on, to see that the line is cut. */
        size_t room = log->line->len <= MAX_LINE ? MAX_LINE + 1 - log->line->len : 0;
        g_string_append_len(log->line, bytes, (gssize) MIN(part, room));
        if (newline != NULL)
            write_line(log);
        part += newline != NULL;
        bytes += part;
        size -= part;
    }
    if (is_end)
        write_line(log);
}

void
ipb_server_log_forget_lines(IpbServerLog *log)
{
    log->tail_end = log->tail_size = 0;
}

char *
ipb_server_log_last_lines(const IpbServerLog *log)
{
    if (log->tail_size == 0)
        return NULL;
    g_autofree char *text = g_malloc(log->tail_size);
    size_t start = (log->tail_end + MAX_TAIL - log->tail_size) % MAX_TAIL;
    size_t first = MIN(log->tail_size, MAX_TAIL - start);
    memcpy(text, log->tail + start, first);
    memcpy(text + first, log->tail, log->tail_size - first);

    size_t end = log->tail_size;
    while (end > 0 && strchr("\r\n", text[end - 1]) != NULL && text[end - 1] != '\0')
        end--;
    size_t from = end;
    for (unsigned lines = 0; from > 0; from--)
        if (text[from - 1] == '\n' && ++lines == MAX_ERROR_LINES)
            break;
    GString *out = g_string_new(NULL);
    while (from < end) {
        const char *newline = memchr(text + from, '\n', end - from);
        size_t size = newline != NULL ? (size_t) (newline - text) - from : end - from;
        g_autofree char *clean = ipb_server_log_clean(text + from, size, MAX_ERROR_LINE);
        g_string_append_printf(out, "%s    %s", out->len > 0 ? "\n" : "", clean);
        from += size + 1;
    }
    char *result = g_string_free(out, false);
    if (*result == '\0')
        g_clear_pointer(&result, g_free);
    return result;
}
