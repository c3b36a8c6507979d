/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of HTML, for readers without a browser.
 */
#pragma once

/* What a browser would show of @html as text: no tags, no scripts and styles, a line for each block and each row of a table, its cells
 * separated by tabs. It is no longer than the HTML. Nothing makes it fail: of what is no HTML it gives something; of HTML of more
 * than 8 MiB the text of its beginning, and a line that says so. Caller frees. */
char *ipb_html_text(const char *html);
