/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves the images of MIME bundles as files.
 */
#pragma once

#include "json/json.h"

/* Saves the bundle's image (PNG, else JPEG), if it has one, in @directory (made if missing) under a name that is not
 * taken. @ret_path: absolute, caller frees; NULL if the bundle holds no image. The bundle is untrusted: INVALID if it
 * is not such an image; LIMIT over 64 MiB. A symbolic link below @workspace that leads to @directory is refused: the kernel may have put
 * it there. */
bool ipb_images_save(const IpbJson *bundle, const char *directory, const char *workspace,
                     char **ret_path, GError **error);
