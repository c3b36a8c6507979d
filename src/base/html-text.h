/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of HTML, for readers without a browser.
 */
#pragma once

/* What a browser would show of @html as text: no tags, scripts or styles; a line for each block and
 * each table row, with tabs between cells. It is no longer than the HTML. It never fails: malformed
 * HTML gives some text. Of HTML of more than 8 MiB it is the text of the beginning, and a line that
 * says so. Caller frees. */
char *ipb_html_text(const char *html);
