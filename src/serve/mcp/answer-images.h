/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbAnswerImages: the images of a cell that its answer has as image content, for models that
 * cannot open the files. Their number and sizes are bounded: what is too large is left out, with a
 * note that says the path. The images are untrusted: only their beginnings are looked at.
 */
#pragma once

#include "json/writer.h"
#include "serve/mcp/tool-options.h"

typedef struct IpbAnswerImages IpbAnswerImages;

IpbAnswerImages *ipb_answer_images_new(void);
void ipb_answer_images_free(IpbAnswerImages *images);
/* Adds the image of a bundle, if it has one. @path: where it was saved, or NULL. */
void ipb_answer_images_add(IpbAnswerImages *images, const IpbJson *bundle, const char *path);
/* Writes the content blocks into an array that was begun. */
void ipb_answer_images_write(const IpbAnswerImages *images, IpbJsonWriter *writer);
/* Which images were left out, a line for people; NULL: none. Borrowed. */
const char *ipb_answer_images_note(const IpbAnswerImages *images);
/* What AUTO means for a client of this name (clientInfo.name; NULL: it has none). */
IpbMcpImages ipb_answer_images_choose(IpbMcpImages images, const char *client_name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbAnswerImages, ipb_answer_images_free)
