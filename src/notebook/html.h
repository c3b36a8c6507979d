/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as an HTML page, for people. It runs no scripts and loads nothing, whatever cells
 * have displayed: all their text is escaped, images are data URLs, and the page forbids everything
 * else (Content-Security-Policy). Headings, labels and descriptions of images are there for screen
 * readers.
 */
#pragma once

#include "notebook/recording.h"

/* NUL-terminated. The caller frees it. */
char *ipb_html_make(const IpbRecording *recording, size_t *ret_size);
