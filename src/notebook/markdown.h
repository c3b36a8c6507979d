/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as Markdown, for people. Everything of cells is in code blocks, which cannot be left,
 * or is an image in a data URL.
 */
#pragma once

#include "notebook/recording.h"

/* Appends what was done with the files of a staged session, in and after the cell. */
void ipb_markdown_add_files(GString *out, const IpbRecordingCell *cell);
/* NUL-terminated. The caller frees it. */
char *ipb_markdown_make(const IpbRecording *recording, size_t *ret_size);
