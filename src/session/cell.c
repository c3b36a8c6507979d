/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell and its clock; see the header.
 */
#include "session/cell.h"

IpbCell *
ipb_cell_new(IpbLoop *loop, const char *code, const IpbCellOptions *options, IpbEventFunc on_event,
             void *data)
{
    IpbCell *cell = g_new0(IpbCell, 1);
    cell->loop = ipb_loop_ref(loop);
    cell->code = g_strdup(code);
    cell->is_silent = options->is_silent;
    cell->stores_history = options->stores_history;
    cell->user_expressions = g_strdup(options->user_expressions);
    cell->timeout_ms = options->timeout_ms;
    cell->left_us = (int64_t) options->timeout_ms * 1000;
    cell->on_event = on_event;
    cell->data = data;
    return cell;
}

void
ipb_cell_free(IpbCell *cell)
{
    if (cell == NULL)
        return;
    ipb_timer_free(cell->timer);
    ipb_loop_unref(cell->loop);
    g_free(cell->code);
    g_free(cell->user_expressions);
    g_free(cell);
}

void
ipb_cell_emit(const IpbCell *cell, const IpbEvent *event)
{
    if (cell->on_event != NULL)
        cell->on_event(event, cell->data);
}

static void
on_time_is_up(void *data)
{
    IpbCell *cell = data;
    g_clear_pointer(&cell->timer, ipb_timer_free);
    cell->on_timeout(cell->timeout_data);
}

void
ipb_cell_start_clock(IpbCell *cell, void (*on_timeout)(void *data), void *data)
{
    if (cell->timeout_ms == 0 || cell->timer != NULL)
        return;
    cell->on_timeout = on_timeout;
    cell->timeout_data = data;
    cell->started_us = g_get_monotonic_time();
    cell->timer = ipb_timer_new(cell->loop, (unsigned) ((MAX(cell->left_us, 0) + 999) / 1000),
                                on_time_is_up, cell);
}

void
ipb_cell_stop_clock(IpbCell *cell)
{
    if (cell->timer == NULL)
        return;
    g_clear_pointer(&cell->timer, ipb_timer_free);
    cell->left_us -= g_get_monotonic_time() - cell->started_us;
}
