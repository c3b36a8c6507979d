/* SPDX-License-Identifier: Apache-2.0
 *
 * What cells have changed in a staged workspace, as text for people.
 */
#pragma once

#include "json/json.h"

/* A line for each change of an array of {"path", "kind", "type"}: "+ path" (added), "~ path"
 * (changed), "- path" (removed); directories end in "/". If the change has a "problem", it is in
 * the line. @cut: why not all are in it; may be NULL. Returns NULL if there are none, also if
 * @array is no array. Everything may be hostile: a line is one path, without control characters.
 * The caller frees it. */
char *ipb_file_changes_text(const IpbJson *array, const char *cut);
