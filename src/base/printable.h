/* SPDX-License-Identifier: Apache-2.0
 *
 * Untrusted text made safe to show to people.
 */
#pragma once

#include <glib.h>

/* @text with control characters but newline and tab made visible (ESC as ␛), and with the marks that make text read in another order than
 * it is written. Caller frees. */
char *ipb_printable(const char *text);
