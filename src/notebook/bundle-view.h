/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbBundleView: what a static document shows of a MIME bundle: its image, or else its text. HTML
 * and JavaScript of cells are never part of it, because the browser of a reader would run them.
 *
 * Plain struct, owned by value.
 */
#pragma once

#include "notebook/outputs.h"

typedef struct {
    char *text;             /* UTF-8 without control characters; NULL: there is none */
    const char *image_type; /* a MIME type; NULL: there is no image */
    char *image;            /* Base64 without anything else, for a data URL */
} IpbBundleView;

/* @output: DISPLAY or RESULT. */
void ipb_bundle_view_init(IpbBundleView *view, const IpbNotebookOutput *output);
void ipb_bundle_view_clear(IpbBundleView *view);
/* What stands for the image where it cannot be seen: one line. The caller frees it. */
char *ipb_bundle_view_alt(const IpbBundleView *view);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbBundleView, ipb_bundle_view_clear)
