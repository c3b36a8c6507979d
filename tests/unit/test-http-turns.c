/* SPDX-License-Identifier: Apache-2.0 */
#include "http/turns.h"

#define N_PIECES 5

typedef struct {
    IpbHttpTurns *turns;
    GString *order;
    unsigned n_done;
} Work;

typedef struct {
    Work *work;
    IpbHttpTurn turn;
    char name;
} Piece;

static void
on_turn(void *data)
{
    Piece *piece = data;
    g_assert_false(piece->turn.is_waiting);
    g_string_append_c(piece->work->order, piece->name);
    piece->work->n_done++;
}

static void
run_until(Work *work, unsigned n_done)
{
    while (work->n_done < n_done)
        g_main_context_iteration(NULL, TRUE);
}

/* One after the other, in the order in which they came, and never at once. */
static void
test_order(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    g_autoptr(IpbHttpTurns) turns = ipb_http_turns_new(loop);
    Work work = {.turns = turns, .order = g_string_new(NULL)};
    Piece pieces[N_PIECES];
    for (int i = 0; i < N_PIECES; i++) {
        pieces[i] = (Piece){.work = &work, .name = (char) ('a' + i)};
        ipb_http_turns_wait(turns, &pieces[i].turn, on_turn, &pieces[i]);
        g_assert_cmpuint(work.n_done, ==, 0);
    }
    ipb_http_turns_cancel(turns, &pieces[1].turn);
    ipb_http_turns_cancel(turns, &pieces[1].turn);
    run_until(&work, N_PIECES - 1);
    g_assert_cmpstr(work.order->str, ==, "acde");
    g_string_free(work.order, TRUE);
}

static void
on_again(void *data)
{
    Piece *piece = data;
    on_turn(piece);
    if (piece->work->n_done < N_PIECES)
        ipb_http_turns_wait(piece->work->turns, &piece->turn, on_again, piece);
}

/* A piece of work may wait for the next turn at once. */
static void
test_waiting_within_a_turn(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    g_autoptr(IpbHttpTurns) turns = ipb_http_turns_new(loop);
    Work work = {.turns = turns, .order = g_string_new(NULL)};
    Piece again = {.work = &work, .name = 'a'}, other = {.work = &work, .name = 'b'};
    ipb_http_turns_wait(turns, &again.turn, on_again, &again);
    ipb_http_turns_wait(turns, &other.turn, on_turn, &other);
    run_until(&work, N_PIECES);
    g_assert_cmpstr(work.order->str, ==, "abaaa");
    g_string_free(work.order, TRUE);
}

static void
on_small(void *data)
{
    Work *work = data;
    g_string_append_c(work->order, '.');
    work->n_done++;
}

static void
on_long(void *data)
{
    on_turn(data);
    g_usleep(150 * 1000); /* the work: longer than a test process ever waits for a processor */
}

/* Something else of the loop gets its turn between two pieces that take long. */
static void
test_pause(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    g_autoptr(IpbHttpTurns) turns = ipb_http_turns_new(loop);
    Work work = {.turns = turns, .order = g_string_new(NULL)};
    Piece first = {.work = &work, .name = 'a'}, second = {.work = &work, .name = 'b'};
    ipb_http_turns_wait(turns, &first.turn, on_long, &first);
    ipb_http_turns_wait(turns, &second.turn, on_long, &second);
    run_until(&work, 1);
    IpbTimer *timers[3];
    for (size_t i = 0; i < G_N_ELEMENTS(timers); i++)
        timers[i] = ipb_timer_new(loop, 0, on_small, &work);
    run_until(&work, 5);
    g_assert_cmpstr(work.order->str, ==, "a...b");
    for (size_t i = 0; i < G_N_ELEMENTS(timers); i++)
        ipb_timer_free(timers[i]);
    g_string_free(work.order, TRUE);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/turns/order", test_order);
    g_test_add_func("/http/turns/waiting-within-a-turn", test_waiting_within_a_turn);
    g_test_add_func("/http/turns/pause", test_pause);
    return g_test_run();
}
