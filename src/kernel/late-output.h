/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLateOutput: what a kernel writes while no cell runs (from threads, tasks, background
 * children). It is kept for the next cell, up to a maximum.
 *
 * Plain struct, owned by value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* So many bytes are kept; the rest is dropped and counted. */
#define IPB_LATE_OUTPUT_MAX (256 * 1024)

typedef struct {
    GString *text; /* NULL: none */
    uint64_t n_dropped;
    GQueue notices; /* char * */
} IpbLateOutput;

/* @text is valid UTF-8. */
void ipb_late_output_add(IpbLateOutput *late, const char *text, size_t size);
/* Keeps a message of ipybox beside the text. A repetition of the last one is ignored, so a kernel
 * cannot fill the list with it. */
void ipb_late_output_add_notice(IpbLateOutput *late, const char *notice);
/* Takes what was kept of the text; NULL if there is nothing. The caller frees it. */
char *ipb_late_output_take(IpbLateOutput *late, size_t *ret_size);
/* Takes a notice: first the one about dropped text, then the kept ones; NULL: there is none left.
 * Call it after the text was taken. The caller frees the notice. */
char *ipb_late_output_take_notice(IpbLateOutput *late);
size_t ipb_late_output_size(const IpbLateOutput *late);
void ipb_late_output_clear(IpbLateOutput *late);
