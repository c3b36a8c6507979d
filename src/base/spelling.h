/* SPDX-License-Identifier: Apache-2.0
 *
 * How similar two names are, for errors that suggest the right one.
 */
#pragma once

/* The number of letters that must be changed, inserted or removed to turn one name into the other,
 * ignoring case. Only the first 64 bytes of each name count. */
unsigned ipb_spelling_distance(const char *a, const char *b);
/* The one of @names that is most similar to @name, to be suggested. NULL if none is similar.
 * @names: NULL at the end. */
const char *ipb_spelling_nearest(const char *name, const char *const *names);
