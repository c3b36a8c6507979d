/* SPDX-License-Identifier: Apache-2.0
 *
 * Jupyter's notebook format: outputs of cells, and whole notebooks (nbformat 4.5) of recordings.
 * Lone surrogates become U+FFFD, because Jupyter cannot write them.
 */
#pragma once

#include "json/writer.h"
#include "notebook/recording.h"

/* Writes the outputs of a cell: the array "outputs". */
void ipb_ipynb_write_outputs(IpbJsonWriter *writer, const IpbOutputs *outputs, size_t cell);
/* A notebook, NUL-terminated. The caller frees it. */
char *ipb_ipynb_make(const IpbRecording *recording, size_t *ret_size);
