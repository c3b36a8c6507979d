/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbChildOutput: the pipes of cells that have ended, which processes that were started in these
 * cells still hold. Their text is late output of those cells. A pipe is closed when no process
 * holds it any more.
 *
 * Ownership: it owns its fds. The callback may call anything but free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

/* Pairs of pipes that are kept at most. */
#define IPB_CHILD_OUTPUT_MAX 16

typedef struct IpbChildOutput IpbChildOutput;

/* Text: valid UTF-8 without NUL, NUL-terminated. @cell: 0: not known. */
typedef void (*IpbChildTextFunc)(uint64_t cell, bool is_stderr, const char *text, size_t size,
                                 void *data);

IpbChildOutput *ipb_child_output_new(IpbLoop *loop, IpbChildTextFunc on_text, void *data);
/* Takes a non-blocking @fd, also on failure. @rest: what was read from it and not delivered; it is
 * delivered from the loop. */
bool ipb_child_output_add(IpbChildOutput *output, uint64_t cell, bool is_stderr, int fd,
                          const uint8_t *rest, size_t rest_size, GError **error);
/* Whether a further pair would be too many. */
bool ipb_child_output_is_full(const IpbChildOutput *output);
/* While paused nothing is read. */
void ipb_child_output_set_paused(IpbChildOutput *output, bool paused);
/* Delivers what is in the pipes at this moment, and closes them. */
void ipb_child_output_drain(IpbChildOutput *output);
void ipb_child_output_free(IpbChildOutput *output);
