/* SPDX-License-Identifier: Apache-2.0
 *
 * URLs as libcurl's own parser reads them, so that what is checked is what is connected to.
 *
 * INVALID: the text is no http or https URL, or it has a user or a password.
 */
#pragma once

#include "http/curl.h"

/* "https://example.com:8443" (without the default port), the host in small letters. Caller
 * frees. */
char *ipb_http_url_origin(const IpbCurl *curl, const char *url, GError **error);
/* @reference, which may be relative, resolved against @base; without a fragment. Caller frees. */
char *ipb_http_url_resolve(const IpbCurl *curl, const char *base, const char *reference,
                           GError **error);
