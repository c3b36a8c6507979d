/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHeldOutput: output and log lines that are held back, in order, while a question is on the
 * terminal.
 *
 * Ownership: the owner frees it. It borrows nothing.
 */
#pragma once

#include <stddef.h>

#include <glib.h>

typedef struct IpbHeldOutput IpbHeldOutput;

IpbHeldOutput *ipb_held_output_new(void);
void ipb_held_output_free(IpbHeldOutput *hold);
/* Adds text for @fd. */
void ipb_held_output_add(IpbHeldOutput *hold, int fd, const char *text);
/* Adds a log line. */
void ipb_held_output_add_log(IpbHeldOutput *hold, const char *level, const char *text);
/* The number of bytes that are held. */
size_t ipb_held_output_size(const IpbHeldOutput *hold);
/* Passes everything to @func in order, and is empty then. @level: NULL for output. @fd: -1 for a
 * log line. */
typedef void (*IpbHeldOutputFunc)(int fd, const char *level, const char *text, gpointer data);
void ipb_held_output_release(IpbHeldOutput *hold, IpbHeldOutputFunc func, gpointer data);
