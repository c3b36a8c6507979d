/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of events and of ends; see the header.
 */
#include "kernel/event.h"

const char *
ipb_event_name(IpbEventType type)
{
    static const char *const NAMES[] = {
        [IPB_EVENT_STDOUT] = "stdout",
        [IPB_EVENT_STDERR] = "stderr",
        [IPB_EVENT_LATE_OUTPUT] = "late",
        [IPB_EVENT_DISPLAY] = "display",
        [IPB_EVENT_UPDATE] = "update",
        [IPB_EVENT_CLEAR_OUTPUT] = "clear_output",
        [IPB_EVENT_RESULT] = "result",
        [IPB_EVENT_ERROR] = "error",
        [IPB_EVENT_TOOL_PROGRESS] = "tool_progress",
        [IPB_EVENT_NOTICE] = "notice",
        [IPB_EVENT_STARTED] = "started",
        [IPB_EVENT_DONE] = "done",
        [IPB_EVENT_READY] = "ready",
        [IPB_EVENT_START_FAILED] = "start_failed",
        [IPB_EVENT_INPUT_REQUEST] = "input_request",
        [IPB_EVENT_INPUT_WITHDRAWN] = "input_withdrawn",
        [IPB_EVENT_DIED] = "died",
        [IPB_EVENT_COMM] = "comm",
    };
    return NAMES[type];
}

const char *
ipb_cell_status_name(IpbCellStatus status)
{
    static const char *const NAMES[] = {
        [IPB_CELL_OK] = "ok",           [IPB_CELL_ERROR] = "error",
        [IPB_CELL_TIMEOUT] = "timeout", [IPB_CELL_CANCELLED] = "cancelled",
        [IPB_CELL_LOST] = "lost",       [IPB_CELL_INTERRUPTED] = "interrupted",
    };
    return NAMES[status];
}
