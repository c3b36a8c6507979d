/* SPDX-License-Identifier: Apache-2.0
 *
 * How similar two names are, for errors that suggest the right one.
 */
#pragma once

/* The number of letters that must be changed, inserted or removed to turn one name into the other,
 * ignoring case. Only the first 64 bytes of each name count. */
unsigned ipb_spelling_distance(const char *a, const char *b);
