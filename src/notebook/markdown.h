/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as Markdown, for people. Everything of cells is in code blocks, which cannot be left,
 * or is an image in a data URL.
 */
#pragma once

#include "notebook/recording.h"

/* NUL-terminated. The caller frees it. */
char *ipb_markdown_make(const IpbRecording *recording, size_t *ret_size);
