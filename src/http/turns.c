/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of work in turn; see the header. The time of a piece includes what else the system did. So
 * pauses are longer when processors are busy.
 */
#include "http/turns.h"

/* How long the pause is, in times of the piece before it. */
#define PAUSE_FACTOR 4
#define MAX_PAUSE_MS 1000

struct IpbHttpTurns {
    IpbLoop *loop;
    /* IpbHttpTurn, borrowed */
    GQueue waiting;
    /* µs of monotonic time: the end of the pause */
    int64_t next_at;
    IpbTimer *timer;
};

static void set_timer(IpbHttpTurns *turns);

static void
on_timer(void *data)
{
    IpbHttpTurns *turns = data;
    g_clear_pointer(&turns->timer, ipb_timer_free);
    IpbHttpTurn *turn = g_queue_peek_head(&turns->waiting);
    if (turn == NULL)
        return;
    int64_t start = g_get_monotonic_time();
    ipb_http_turns_cancel(turns, turn);
    turn->func(turn->data);
    int64_t end = g_get_monotonic_time();
    turns->next_at = end + MIN((end - start) * PAUSE_FACTOR, MAX_PAUSE_MS * INT64_C(1000));
    set_timer(turns);
}

static void
set_timer(IpbHttpTurns *turns)
{
    if (turns->timer != NULL || g_queue_is_empty(&turns->waiting))
        return;
    int64_t left_us = turns->next_at - g_get_monotonic_time();
    turns->timer = ipb_timer_new(turns->loop, (unsigned) (MAX(left_us, 0) / 1000), on_timer, turns);
}

IpbHttpTurns *
ipb_http_turns_new(IpbLoop *loop)
{
    IpbHttpTurns *turns = g_new0(IpbHttpTurns, 1);
    turns->loop = ipb_loop_ref(loop);
    g_queue_init(&turns->waiting);
    return turns;
}

void
ipb_http_turns_wait(IpbHttpTurns *turns, IpbHttpTurn *turn, void (*func)(void *data), void *data)
{
    g_return_if_fail(!turn->is_waiting);
    *turn = (IpbHttpTurn){.link.data = turn, .is_waiting = true, .func = func, .data = data};
    g_queue_push_tail_link(&turns->waiting, &turn->link);
    set_timer(turns);
}

void
ipb_http_turns_cancel(IpbHttpTurns *turns, IpbHttpTurn *turn)
{
    if (!turn->is_waiting)
        return;
    turn->is_waiting = false;
    g_queue_unlink(&turns->waiting, &turn->link);
}

void
ipb_http_turns_free(IpbHttpTurns *turns)
{
    if (turns == NULL)
        return;
    g_assert(g_queue_is_empty(&turns->waiting));
    ipb_timer_free(turns->timer);
    ipb_loop_unref(turns->loop);
    g_free(turns);
}
