/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves the images of MIME bundles as files.
 */
#pragma once

#include "json/json.h"

/* Saves the image of a bundle (PNG, or else JPEG), if it has one, in @directory under a new name.
 * The directory is created if it does not exist. @ret_path: absolute, the caller frees it; NULL if
 * the bundle has no image. The bundle is untrusted. Errors: INVALID: not such an image; LIMIT: over
 * 64 MiB. If a symbolic link below @workspace is part of the path to @directory, saving is refused,
 * because the kernel may have made the link. */
bool ipb_images_save(const IpbJson *bundle, const char *directory, const char *workspace,
                     char **ret_path, GError **error);
/* Decodes the image of a bundle, of at most @max_size bytes. *ret_image: NULL if the bundle has
 * none; the caller unrefs it. Errors as above, LIMIT over @max_size. */
bool ipb_images_decode(const IpbJson *bundle, size_t max_size, const char **ret_mime_type,
                       GBytes **ret_image, GError **error);
