/* SPDX-License-Identifier: Apache-2.0
 *
 * The phrases of HTTP statuses; see the header.
 */
#include "http/status.h"

#include <stddef.h>

#include <glib.h>

static const struct {
    unsigned status;
    const char *phrase;
} PHRASES[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *
ipb_http_status_phrase(unsigned status)
{
    for (size_t i = 0; i < G_N_ELEMENTS(PHRASES); i++)
        if (PHRASES[i].status == status)
            return PHRASES[i].phrase;
    return "Status";
}
