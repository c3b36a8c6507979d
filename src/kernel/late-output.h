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
    GQueue notices; /* char * */
} IpbLateOutput;

/* @text is valid UTF-8. */
void ipb_late_output_add(IpbLateOutput *late, const char *text, size_t size);
/* A sentence of ours, which is kept beside the text; the same again counts once, so that no kernel can drown the others. */
void ipb_late_output_add_notice(IpbLateOutput *late, const char *notice);
/* What was kept of the text; NULL if there is nothing. Caller frees; it is gone then. */
char *ipb_late_output_take(IpbLateOutput *late, size_t *ret_size);
/* Call it after the text was taken, until it gives NULL: what was not kept of it, then the notices. Caller frees. */
char *ipb_late_output_take_notice(IpbLateOutput *late);
size_t ipb_late_output_size(const IpbLateOutput *late);
void ipb_late_output_clear(IpbLateOutput *late);
