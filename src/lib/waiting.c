/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits for an answer of the program; see the header.
 */
#include "lib/waiting.h"

void
ipb_waiting_attach(IpbWaiting *waiting, IpbSession *core, GPtrArray *list, uint64_t id)
{
    *waiting = (IpbWaiting){.core = core, .list = list, .id = id};
    g_ptr_array_add(list, waiting);
}

IpbSession *
ipb_waiting_detach(IpbWaiting *waiting)
{
    if (waiting->core != NULL)
        g_ptr_array_remove_fast(waiting->list, waiting);
    return g_steal_pointer(&waiting->core);
}

void *
ipb_waiting_detach_id(GPtrArray *list, uint64_t id)
{
    for (guint i = 0; i < list->len; i++) {
        IpbWaiting *waiting = g_ptr_array_index(list, i);
        if (waiting->id != id)
            continue;
        ipb_waiting_detach(waiting);
        return waiting;
    }
    return NULL;
}

void
ipb_waiting_detach_all(GPtrArray *list)
{
    while (list->len > 0)
        ipb_waiting_detach(g_ptr_array_index(list, 0));
}
