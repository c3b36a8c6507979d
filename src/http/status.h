/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of HTTP's statuses (RFC 9110), for those that we answer with.
 */
#pragma once

/* "Not Found"; "Status" for one that is not ours. Static. */
const char *ipb_http_status_phrase(unsigned status);
