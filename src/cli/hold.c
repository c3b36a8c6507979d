/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits until a question is answered; see the header.
 */
#include "cli/hold.h"

#include <string.h>

typedef struct {
    int fd;      /* -1: a log line */
    char *level; /* of a log line */
    GString *text;
} Piece;

struct IpbHold {
    GQueue pieces; /* Piece; neighbours for one fd are one piece */
    size_t size;
};

static void
free_piece(void *data)
{
    Piece *piece = data;
    g_free(piece->level);
    g_string_free(piece->text, TRUE);
    g_free(piece);
}

IpbHold *
ipb_hold_new(void)
{
    IpbHold *hold = g_new0(IpbHold, 1);
    g_queue_init(&hold->pieces);
    return hold;
}

void
ipb_hold_free(IpbHold *hold)
{
    if (hold == NULL)
        return;
    g_queue_clear_full(&hold->pieces, free_piece);
    g_free(hold);
}

static Piece *
add_piece(IpbHold *hold, int fd, const char *level)
{
    Piece *piece = g_new(Piece, 1);
    *piece = (Piece){.fd = fd, .level = g_strdup(level), .text = g_string_new(NULL)};
    g_queue_push_tail(&hold->pieces, piece);
    hold->size += sizeof *piece;
    return piece;
}

void
ipb_hold_add_output(IpbHold *hold, int fd, const char *text)
{
    Piece *piece = g_queue_peek_tail(&hold->pieces);
    if (piece == NULL || piece->fd != fd)
        piece = add_piece(hold, fd, NULL);
    g_string_append(piece->text, text);
    hold->size += strlen(text);
}

void
ipb_hold_add_log(IpbHold *hold, const char *level, const char *text)
{
    Piece *piece = add_piece(hold, -1, level);
    g_string_append(piece->text, text);
    hold->size += strlen(text);
}

size_t
ipb_hold_size(const IpbHold *hold)
{
    return hold->size;
}

void
ipb_hold_release(IpbHold *hold, IpbHoldFunc func, gpointer data)
{
    Piece *piece;
    while ((piece = g_queue_pop_head(&hold->pieces)) != NULL) {
        func(piece->fd, piece->level, piece->text->str, data);
        free_piece(piece);
    }
    hold->size = 0;
}
