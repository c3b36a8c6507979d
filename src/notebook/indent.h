/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON on many lines, as Jupyter writes notebooks.
 */
#pragma once

#include <stddef.h>

/* @json: one valid value without whitespace outside of strings. Each member and item gets a line
 * that begins with @unit spaces for each container it is in, of which @depth are outside of @json.
 * The first line is not indented. The caller frees the text. */
char *ipb_indent_json(const char *json, unsigned unit, unsigned depth, size_t *ret_size);
