/* SPDX-License-Identifier: Apache-2.0
 *
 * Media types; see the header.
 */
#include "serve/content-type.h"

#include <glib.h>

const char *
ipb_content_type_guess(const char *path)
{
    static const char *const TYPES[][2] = {
        {".png", "image/png"},         {".jpg", "image/jpeg"},        {".jpeg", "image/jpeg"},
        {".gif", "image/gif"},         {".webp", "image/webp"},       {".svg", "image/svg+xml"},
        {".txt", "text/plain"},        {".log", "text/plain"},        {".md", "text/markdown"},
        {".csv", "text/csv"},          {".html", "text/html"},        {".py", "text/x-python"},
        {".pdf", "application/pdf"},   {".json", "application/json"}, {".xml", "application/xml"},
        {".tar", "application/x-tar"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(TYPES); i++)
        if (g_str_has_suffix(path, TYPES[i][0]))
            return TYPES[i][1];
    return NULL;
}
