/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a MIME bundle, for results that are text.
 */
#pragma once

#include "json/json.h"

/* The "text/plain" of a bundle, unless that only names the object's class, such as
 * "<IPython.core.display.Markdown object>". Then it is the source of the Markdown or LaTeX, else
 * the text of the HTML (base/html-text.h). NULL: there is no text. The caller frees
 * it. */
char *ipb_bundle_text(const IpbJson *data);
