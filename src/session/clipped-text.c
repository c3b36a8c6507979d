/* SPDX-License-Identifier: Apache-2.0
 *
 * A text whose beginning and end are kept; see the header.
 *
 * Three fifths are for the beginning: it shows what the output is (the heading of a table, the
 * first of many records). Two fifths are for the end: it shows the outcome (the result, the last
 * lines of a log).
 */
#include "session/clipped-text.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* Maximum size of the beginning and of the end, in bytes. The white space after the end is no
 * larger than the end. */
#define MAX_HEAD (154u * 1024 * 1024)
#define MAX_TAIL (102u * 1024 * 1024)

/* The last characters that were appended. */
typedef struct {
    GString *bytes; /* from `start` on */
    size_t start;
    size_t n_chars;
    uint64_t n_dropped; /* characters before them */
} Tail;

struct IpbClippedText {
    size_t max_chars, max_head_chars, max_tail_chars;
    GString *head;
    size_t n_head_chars;
    bool is_head_full;
    Tail tail;
    Tail blanks; /* white space after it */
};

/* --- the end ---------------------------------------------------------------------------------- */

static const char *
tail_bytes(const Tail *tail, size_t *ret_size)
{
    *ret_size = tail->bytes->len - tail->start;
    return tail->bytes->str + tail->start;
}

static void
drop_from_tail(Tail *tail, size_t n_chars, size_t size)
{
    tail->start += size;
    tail->n_chars -= n_chars;
    tail->n_dropped += n_chars;
    if (tail->start > tail->bytes->len / 2) { /* rarely, because moving costs time */
        g_string_erase(tail->bytes, 0, (gssize) tail->start);
        tail->start = 0;
    }
}

static void
append_to_tail(Tail *tail, const char *bytes, size_t size, size_t max_chars)
{
    size_t kept;
    const char *text;
    g_string_append_len(tail->bytes, bytes, (gssize) size);
    tail->n_chars += ipb_utf8_count(bytes, size);
    text = tail_bytes(tail, &kept);
    if (tail->n_chars > max_chars) {
        size_t n = tail->n_chars - max_chars;
        drop_from_tail(tail, n, ipb_utf8_size_of(text, kept, n));
        text = tail_bytes(tail, &kept);
    }
    if (kept > MAX_TAIL) {
        size_t excess = kept - MAX_TAIL;
        while (excess < kept && !ipb_utf8_begins_char(text[excess]))
            excess++;
        drop_from_tail(tail, ipb_utf8_count(text, excess), excess);
    }
}

static void
clear_tail(Tail *tail)
{
    g_string_truncate(tail->bytes, 0);
    tail->start = tail->n_chars = 0;
    tail->n_dropped = 0;
}

/* --- the text --------------------------------------------------------------------------------- */

IpbClippedText *
ipb_clipped_text_new(size_t max_chars)
{
    IpbClippedText *text = g_new0(IpbClippedText, 1);
    text->max_chars = max_chars;
    text->max_tail_chars = max_chars / 5 * 2 + max_chars % 5 * 2 / 5;
    text->max_head_chars = max_chars - text->max_tail_chars;
    text->head = g_string_new(NULL);
    text->tail.bytes = g_string_new(NULL);
    text->blanks.bytes = g_string_new(NULL);
    return text;
}

void
ipb_clipped_text_free(IpbClippedText *text)
{
    if (text == NULL)
        return;
    g_string_free(text->head, TRUE);
    g_string_free(text->tail.bytes, TRUE);
    g_string_free(text->blanks.bytes, TRUE);
    g_free(text);
}

/* Returns how much of it was appended. */
static size_t
append_to_head(IpbClippedText *text, const char *piece, size_t size)
{
    if (text->is_head_full)
        return 0;
    size_t room = MIN(size, MAX_HEAD - text->head->len);
    while (room < size && room > 0 && !ipb_utf8_begins_char(piece[room]))
        room--;
    size_t taken = ipb_utf8_size_of(piece, room, text->max_head_chars - text->n_head_chars);
    g_string_append_len(text->head, piece, (gssize) taken);
    text->n_head_chars += ipb_utf8_count(piece, taken);
    text->is_head_full = taken < size;
    return taken;
}

void
ipb_clipped_text_append(IpbClippedText *text, const char *piece)
{
    size_t size = strlen(piece);
    size_t taken = append_to_head(text, piece, size);
    piece += taken;
    size -= taken;
    size_t body = size;
    while (body > 0 && g_ascii_isspace(piece[body - 1]))
        body--;
    if (body > 0) {
        size_t n_blanks;
        const char *blanks = tail_bytes(&text->blanks, &n_blanks);
        /* If blanks were dropped, the rest of them fills the end alone: no text comes before
         * them. */
        append_to_tail(&text->tail, blanks, n_blanks, text->max_tail_chars);
        text->tail.n_dropped += text->blanks.n_dropped;
        clear_tail(&text->blanks);
        append_to_tail(&text->tail, piece, body, text->max_tail_chars);
    }
    append_to_tail(&text->blanks, piece + body, size - body, text->max_tail_chars);
}

bool
ipb_clipped_text_is_cut(const IpbClippedText *text)
{
    return text->tail.n_dropped > 0;
}

char *
ipb_clipped_text_get(const IpbClippedText *text)
{
    size_t tail_size, blanks_size;
    const char *tail = tail_bytes(&text->tail, &tail_size);
    const char *blanks = tail_bytes(&text->blanks, &blanks_size);
    GString *all = g_string_new_len(text->head->str, (gssize) text->head->len);
    if (ipb_clipped_text_is_cut(text)) {
        uint64_t n_all = text->n_head_chars + text->tail.n_dropped + text->tail.n_chars;
        g_string_append_printf(
            all, "%s[Output cut here: %" PRIu64 " of %" PRIu64 " characters left out]%s",
            all->len > 0 ? "\n\n" : "", text->tail.n_dropped, n_all, tail_size > 0 ? "\n\n" : "");
    }
    g_string_append_len(all, tail, (gssize) tail_size);
    size_t room = text->max_chars - text->n_head_chars - text->tail.n_chars;
    g_string_append_len(all, blanks, (gssize) ipb_utf8_size_of(blanks, blanks_size, room));
    return g_string_free(all, FALSE);
}
