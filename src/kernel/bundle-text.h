/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a MIME bundle, for results that are text.
 */
#pragma once

#include "json/json.h"

/* Its "text/plain", unless that says no more than which class the object has, as "<IPython.core.display.Markdown object>" does: then the
 * source of its Markdown or LaTeX, else the text of its HTML (base/html-text.h), where there is one. NULL: there is no text. Caller
 * frees. */
char *ipb_bundle_text(const IpbJson *data);
