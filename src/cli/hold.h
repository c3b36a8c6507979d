/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHold: pieces of output and log lines that are held back, in order, while a question is on the
 * terminal.
 *
 * Ownership: the owner frees it. It borrows nothing.
 */
#pragma once

#include <stddef.h>

#include <glib.h>

typedef struct IpbHold IpbHold;

IpbHold *ipb_hold_new(void);
void ipb_hold_free(IpbHold *hold);
/* Text for @fd. */
void ipb_hold_add_output(IpbHold *hold, int fd, const char *text);
/* A line of a log. */
void ipb_hold_add_log(IpbHold *hold, const char *level, const char *text);
/* Bytes of all that is held. */
size_t ipb_hold_size(const IpbHold *hold);
/* Hands everything over, in its order; then it is empty. @level: NULL for output; @fd: -1 for a log line. */
typedef void (*IpbHoldFunc)(int fd, const char *level, const char *text, gpointer data);
void ipb_hold_release(IpbHold *hold, IpbHoldFunc func, gpointer data);
