/* SPDX-License-Identifier: Apache-2.0
 *
 * The phrases of the HTTP statuses (RFC 9110) that we send.
 */
#pragma once

/* For example "Not Found"; "Status" for an unknown one. Static. */
const char *ipb_http_status_phrase(unsigned status);
