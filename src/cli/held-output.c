/* SPDX-License-Identifier: Apache-2.0
 *
 * Output that is held back; see the header.
 */
#include "cli/held-output.h"

#include <string.h>

typedef struct {
    int fd;      /* -1: a log line */
    char *level; /* of a log line */
    GString *text;
} Piece;

struct IpbHeldOutput {
    GQueue pieces; /* Piece; adjacent output for one fd is one piece */
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

IpbHeldOutput *
ipb_held_output_new(void)
{
    IpbHeldOutput *hold = g_new0(IpbHeldOutput, 1);
    g_queue_init(&hold->pieces);
    return hold;
}

void
ipb_held_output_free(IpbHeldOutput *hold)
{
    if (hold == NULL)
        return;
    g_queue_clear_full(&hold->pieces, free_piece);
    g_free(hold);
}

static Piece *
add_piece(IpbHeldOutput *hold, int fd, const char *level)
{
    Piece *piece = g_new(Piece, 1);
    *piece = (Piece){.fd = fd, .level = g_strdup(level), .text = g_string_new(NULL)};
    g_queue_push_tail(&hold->pieces, piece);
    hold->size += sizeof *piece;
    return piece;
}

void
ipb_held_output_add(IpbHeldOutput *hold, int fd, const char *text)
{
    Piece *piece = g_queue_peek_tail(&hold->pieces);
    if (piece == NULL || piece->fd != fd)
        piece = add_piece(hold, fd, NULL);
    g_string_append(piece->text, text);
    hold->size += strlen(text);
}

void
ipb_held_output_add_log(IpbHeldOutput *hold, const char *level, const char *text)
{
    Piece *piece = add_piece(hold, -1, level);
    g_string_append(piece->text, text);
    hold->size += strlen(text);
}

size_t
ipb_held_output_size(const IpbHeldOutput *hold)
{
    return hold->size;
}

void
ipb_held_output_release(IpbHeldOutput *hold, IpbHeldOutputFunc func, gpointer data)
{
    Piece *piece;
    while ((piece = g_queue_pop_head(&hold->pieces)) != NULL) {
        func(piece->fd, piece->level, piece->text->str, data);
        free_piece(piece);
    }
    hold->size = 0;
}
