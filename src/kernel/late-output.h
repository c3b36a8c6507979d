/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLateOutput: what a kernel writes while no cell runs (threads, tasks, background children), kept
 * for the next cell, with a maximum. Plain struct, owned by value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* The first so many bytes are kept. */
#define IPB_LATE_OUTPUT_MAX (256 * 1024)

typedef struct {
    GString *text; /* NULL: none */
    uint64_t n_dropped;
} IpbLateOutput;

/* @text is valid UTF-8. */
void ipb_late_output_add(IpbLateOutput *late, const char *text, size_t size);
/* A line of ours, kept in any case. */
void ipb_late_output_add_notice(IpbLateOutput *late, const char *notice);
/* What was kept, with a note of what was not; NULL if there is nothing. Caller frees; the buffer is empty then. */
char *ipb_late_output_take(IpbLateOutput *late, size_t *ret_size);
size_t ipb_late_output_size(const IpbLateOutput *late);
void ipb_late_output_clear(IpbLateOutput *late);
