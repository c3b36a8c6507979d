/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML as plain text, for readers without a browser.
 */
#pragma once

/* What a browser would show of @html, as text: without tags, scripts and styles; a line for each
 * block and each table row, with tabs between cells. The text is not longer than the HTML. It never
 * fails: malformed HTML gives some text. Only the first 8 MiB of HTML are read; then the text ends
 * with a line that says so. Caller frees. */
char *ipb_html_text(const char *html);
