/* SPDX-License-Identifier: Apache-2.0
 *
 * Output between cells; see the header.
 */
#include "kernel/late-output.h"

#include <inttypes.h>

#define MAX_NOTICES 100

static GString *
get_text(IpbLateOutput *late)
{
    if (late->text == NULL)
        late->text = g_string_new(NULL);
    return late->text;
}

/* The largest size up to @max that does not cut a character. */
static size_t
cut_size(const char *text, size_t max)
{
    while (max > 0 && ((unsigned char) text[max] & 0xc0) == 0x80)
        max--;
    return max;
}

void
ipb_late_output_add(IpbLateOutput *late, const char *text, size_t size)
{
    size_t used = late->text != NULL ? late->text->len : 0;
    size_t room = used < IPB_LATE_OUTPUT_MAX ? IPB_LATE_OUTPUT_MAX - used : 0;
    /* After a first drop nothing more is kept, so the text has no gaps. */
    size_t taken = late->n_dropped > 0 ? 0 : size <= room ? size : cut_size(text, room);
    if (taken > 0)
        g_string_append_len(get_text(late), text, (gssize) taken);
    late->n_dropped += size - taken;
}

void
ipb_late_output_add_notice(IpbLateOutput *late, const char *notice)
{
    const char *last = g_queue_peek_tail(&late->notices);
    if (g_strcmp0(last, notice) != 0 && g_queue_get_length(&late->notices) < MAX_NOTICES)
        g_queue_push_tail(&late->notices, g_strdup(notice));
}

char *
ipb_late_output_take_notice(IpbLateOutput *late)
{
    if (late->n_dropped > 0) {
        uint64_t n_dropped = late->n_dropped;
        late->n_dropped = 0;
        return g_strdup_printf("too much output was written while no cell ran: %" PRIu64
                               " more bytes were dropped",
                               n_dropped);
    }
    return g_queue_pop_head(&late->notices);
}

char *
ipb_late_output_take(IpbLateOutput *late, size_t *ret_size)
{
    if (late->text == NULL)
        return NULL;
    *ret_size = late->text->len;
    return g_string_free(g_steal_pointer(&late->text), FALSE);
}

size_t
ipb_late_output_size(const IpbLateOutput *late)
{
    return late->text != NULL ? late->text->len : 0;
}

void
ipb_late_output_clear(IpbLateOutput *late)
{
    if (late->text != NULL)
        g_string_free(late->text, TRUE);
    g_queue_clear_full(&late->notices, g_free);
    *late = (IpbLateOutput){0};
}
