/* SPDX-License-Identifier: Apache-2.0
 *
 * Unified diffs of texts, for people who review changes.
 */
#pragma once

#include <stddef.h>

/* How @new_text differs from @old_text, with three lines around each difference; "" if it does not.
 * It is cut after a line at @max bytes, with a last line that says so. If the texts differ in too
 * many lines to be compared, the different part is shown as a whole. @name: of both sides, in the
 * first lines. Control characters except tab are made visible. All texts are UTF-8. The caller
 * frees it. */
char *ipb_text_diff(const char *name, const char *old_text, const char *new_text, size_t max);
