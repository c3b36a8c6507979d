/* SPDX-License-Identifier: Apache-2.0
 *
 * The media type of a file, guessed by its name.
 */
#pragma once

/* Static; NULL: it is not known. */
const char *ipb_content_type_guess(const char *path);
