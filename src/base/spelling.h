/* SPDX-License-Identifier: Apache-2.0
 *
 * How similar two names are, for errors that suggest the right one.
 */
#pragma once

/* How many letters must be changed, inserted or removed to make one of the other, ignoring case.
 * Only the first 64 bytes of each name count. */
unsigned ipb_spelling_distance(const char *a, const char *b);
