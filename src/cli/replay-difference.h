/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between the outputs of a cell in a record and those of running it again. Compared
 * are the texts of standard output and standard error, the text of the result, the MIME types of
 * the displays, and the name of the error. Addresses of objects ("at 0x7f…") count as equal.
 */
#pragma once

#include "notebook/outputs.h"

typedef struct {
    const char *what; /* "status", "stdout", "stderr", "result", "displays", "error", "files" */
    size_t line;      /* the first one that differs, from 1 */
    /* From that line on, at most IPB_REPLAY_MAX_TEXT bytes. NULL: there is nothing. */
    char *recorded, *now;
} IpbReplayDifference;

#define IPB_REPLAY_MAX_TEXT (16 * 1024)

/* Adds a difference if the texts differ. @what is borrowed. Either may be NULL. */
void ipb_replay_compare(GPtrArray *differences, const char *what, const char *recorded,
                        const char *now);
/* Adds the differences of the outputs. */
void ipb_replay_compare_outputs(GPtrArray *differences, const GPtrArray *recorded,
                                const GPtrArray *now);
/* An empty array of IpbReplayDifference. The caller frees it. */
GPtrArray *ipb_replay_differences_new(void);
