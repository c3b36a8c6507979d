/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads small JSON objects; see the header.
 */
#include "oauth/json-document.h"

#include "base/error.h"

#define MAX_TEXT (16 * 1024)
#define MAX_ITEMS 1000

static const IpbJsonLimits LIMITS = {256 * 1024, 32, 10000};

IpbJsonDoc *
ipb_oauth_json_document_parse(const char *text, size_t size, const char *what, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &LIMITS, error);
    if (document == NULL) {
        g_prefix_error(error, "%s cannot be read: ", what);
        return NULL;
    }
    if (ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT))
        return g_steal_pointer(&document);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "%s is not a JSON object", what);
    return NULL;
}

static const char *
get_printable(const IpbJson *value)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL || size == 0 || size > MAX_TEXT)
        return NULL;
    for (size_t i = 0; i < size; i++)
        if (text[i] < ' ' || text[i] >= 0x7f)
            return NULL;
    return text;
}

char *
ipb_oauth_json_document_text(const IpbJson *object, const char *name)
{
    return g_strdup(get_printable(ipb_json_get(object, name)));
}

char **
ipb_oauth_json_document_list(const IpbJson *object, const char *name)
{
    const IpbJson *value = ipb_json_get(object, name);
    if (!ipb_json_is(value, IPB_JSON_ARRAY) || ipb_json_length(value) > MAX_ITEMS)
        return NULL;
    g_autoptr(GStrvBuilder) list = g_strv_builder_new();
    IPB_JSON_FOREACH (item, value) {
        const char *text = get_printable(item);
        if (text != NULL)
            g_strv_builder_add(list, text);
    }
    return g_strv_builder_end(list);
}
