/* SPDX-License-Identifier: Apache-2.0
 *
 * Our answers over HTTP; see the header.
 */
#include "egress/http-reply.h"

#include <string.h>

#include "base/error.h"
#include "http/status.h"

#define MAX_PHRASE 200

/* Part of the status line: one line of ASCII. */
static char *
make_phrase(const char *text)
{
    char *phrase = g_strndup(text, MAX_PHRASE);
    for (char *c = phrase; *c != '\0'; c++)
        if (*c < ' ' || *c >= 0x7f)
            *c = '?';
    return phrase;
}

static char *
make_reply(unsigned status, const char *header, const char *detail, const char *body)
{
    g_autofree char *phrase = make_phrase(detail);
    return g_strdup_printf("HTTP/1.1 %u %s: %s\r\n"
                           "Content-Type: text/plain; charset=utf-8\r\n"
                           "Content-Length: %zu\r\n"
                           "%s"
                           "Connection: close\r\n"
                           "\r\n"
                           "%s",
                           status, ipb_http_status_phrase(status), phrase, strlen(body), header,
                           body);
}

static void
reply(IpbConnection *connection, unsigned status, const char *header, const char *detail,
      const char *body)
{
    g_autofree char *text = make_reply(status, header, detail, body);
    ipb_connection_finish(connection, text, strlen(text));
}

void
ipb_http_reply_bad(IpbConnection *connection, unsigned status, const char *reason)
{
    g_autofree char *body = g_strdup_printf("%s\n", reason);
    reply(connection, status, "", reason, body);
}

void
ipb_http_reply_failure(IpbConnection *connection, const IpbDestination *destination,
                       const GError *error)
{
    g_autofree char *target = ipb_destination_to_text(destination);
    g_autofree char *detail = g_strdup_printf("%s: %s", target, error->message);
    g_autofree char *body = NULL;
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED)) {
        body = g_strdup_printf("Connection blocked by network allowlist\n%s\n", detail);
        reply(connection, 403, "X-Proxy-Error: blocked-by-sandbox-runtime\r\n", detail, body);
        return;
    }
    body = g_strdup_printf("%s\n", detail);
    bool is_timeout = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT);
    reply(connection, is_timeout ? 504 : 502, "", detail, body);
}

char *
ipb_http_reply_busy(const char *reason)
{
    g_autofree char *body = g_strdup_printf("%s\n", reason);
    return make_reply(503, "", reason, body);
}
