/* SPDX-License-Identifier: Apache-2.0
 *
 * The answers of our own to an HTTP client whose request is not passed on. A denial says so in the status line, too, since that is
 * what most clients show of it, and in the headers and words of srt's proxy. Each closes the connection; each ends the turn.
 */
#pragma once

#include "egress/connection.h"

/* 400 and its like. */
void ipb_http_reply_bad(IpbConnection *connection, unsigned status, const char *reason);
/* 403 for REFUSED, 504 for TIMEOUT, else 502. */
void ipb_http_reply_failure(IpbConnection *connection, const IpbDestination *destination,
                            const GError *error);
/* The whole answer without a connection, for a client that there is no place for. */
char *ipb_http_reply_busy(const char *reason);
