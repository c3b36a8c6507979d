/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike two names are, for errors that suggest the right one.
 */
#pragma once

/* How many letters have to be changed, put in or left out, upper and lower case being the same. Of longer names the first 64 bytes
 * count. */
unsigned ipb_spelling_distance(const char *a, const char *b);
