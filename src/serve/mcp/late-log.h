/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLateLog: late output as log notifications (notifications/message, level info), and the level
 * that the client wants. Text is collected for a moment, so that a thread that prints lines sends
 * few messages; of much text only the end is sent. Nothing is lost by that: the answer of the next
 * cell has the text.
 *
 * Ownership: the server owns it. It must not outlive the conversation.
 */
#pragma once

#include "base/loop.h"
#include "kernel/event.h"
#include "serve/conversation.h"

typedef struct IpbLateLog IpbLateLog;

/* @conversation is borrowed. While it is congested, nothing is sent. */
IpbLateLog *ipb_late_log_new(IpbLoop *loop, IpbConversation *conversation);
void ipb_late_log_free(IpbLateLog *log);
/* The lowest level that the client wants; false if it is no level of MCP. Before this is called,
 * all levels are sent, as the protocol allows. */
bool ipb_late_log_set_level(IpbLateLog *log, const char *level);
/* Sends a late event, now or soon. */
void ipb_late_log_add(IpbLateLog *log, const IpbEvent *event);
