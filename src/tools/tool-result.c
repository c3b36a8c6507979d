/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps a tool's result to the JSON value that Python gets; see the header.
 */
#include "tools/tool-result.h"

#include <string.h>

#include "base/error.h"

/* Part of a failed call's text that the error shows. More of it would not help. */
#define MAX_ERROR_TEXT (64 * 1024)

static void
free_document(void *document)
{
    ipb_json_doc_free(document);
}

/* The bytes of a value. They own the document that they are part of. */
static GBytes *
take_value(const IpbJson *value, IpbJsonDoc **document)
{
    IpbSpan raw = ipb_json_raw(value);
    return g_bytes_new_with_free_func(raw.start, raw.size, free_document,
                                      g_steal_pointer(document));
}

/* The text of a text content; NULL: it is another kind of content. */
static const IpbJson *
get_text(const IpbJson *content)
{
    const char *type = ipb_json_get_string(content, "type");
    const IpbJson *text = ipb_json_get(content, "text");
    return g_strcmp0(type, "text") == 0 && ipb_json_is(text, IPB_JSON_STRING) ? text : NULL;
}

static bool
is_text_only(const IpbJson *contents)
{
    IPB_JSON_FOREACH (content, contents)
        if (get_text(content) == NULL)
            return false;
    return true;
}

/* Joins JSON strings by escaped newlines. Their own escapes stay. */
static GBytes *
join_texts(const IpbJson *contents)
{
    size_t size = 2;
    IPB_JSON_FOREACH (content, contents)
        size += ipb_json_raw(get_text(content)).size + 2;
    GString *joined = g_string_sized_new(size);
    g_string_append_c(joined, '"');
    IPB_JSON_FOREACH (content, contents) {
        IpbSpan raw = ipb_json_raw(get_text(content));
        if (content != ipb_json_first(contents))
            g_string_append(joined, "\\n");
        g_string_append_len(joined, raw.start + 1, (gssize) raw.size - 2);
    }
    g_string_append_c(joined, '"');
    return g_string_free_to_bytes(joined);
}

/* Appends decoded text to a message. A NUL, which would end the message, is replaced. */
static void
append_text(GString *out, const char *text, size_t size)
{
    if (out->len >= MAX_ERROR_TEXT)
        return;
    if (out->len > 0)
        g_string_append_c(out, '\n');
    bool is_cut = size > MAX_ERROR_TEXT - out->len;
    if (is_cut) {
        size = MAX_ERROR_TEXT - out->len;
        while (size > 0 && ((unsigned char) text[size] & 0xc0) == 0x80)
            size--;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\0')
            g_string_append_c(out, text[i]);
        else
            g_string_append(out, "\xe2\x90\x80"); /* U+2400, symbol for NUL */
    }
    if (is_cut)
        g_string_append(out, "…");
}

/* The text of the tool about its failure. */
static char *
describe_failure(const IpbJson *result)
{
    GString *text = g_string_new(NULL);
    IPB_JSON_FOREACH (content, ipb_json_get(result, "content")) {
        size_t size = 0;
        const char *part = ipb_json_string(get_text(content), &size);
        if (part != NULL)
            append_text(text, part, size);
    }
    const IpbJson *structured = ipb_json_get(result, "structuredContent");
    if (text->len == 0 && structured != NULL && !ipb_json_is(structured, IPB_JSON_NULL)) {
        IpbSpan raw = ipb_json_raw(structured);
        append_text(text, raw.start, raw.size);
    }
    if (text->len == 0)
        g_string_append(text, "the tool failed and does not say why");
    return g_string_free(text, FALSE);
}

GBytes *
ipb_tool_result_map(const IpbJson *result, IpbJsonDoc **document, IpbToolResultForm form,
                    const char *server_name, const char *tool_name, GError **error)
{
    if (ipb_json_get_bool(result, "isError", false)) {
        g_autofree char *text = describe_failure(result);
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "%s.%s: %s", server_name, tool_name,
                    text);
        return NULL;
    }
    if (form == IPB_TOOL_RESULT_WHOLE)
        return take_value(result, document);
    const IpbJson *structured = ipb_json_get(result, "structuredContent");
    const IpbJson *contents = ipb_json_get(result, "content");
    size_t n_contents = ipb_json_length(contents);
    /* Some servers write null if there is none. */
    if (structured != NULL && !(ipb_json_is(structured, IPB_JSON_NULL) && n_contents > 0))
        return take_value(structured, document);
    if (n_contents == 0)
        return g_bytes_new_static("null", strlen("null"));
    if (!is_text_only(contents))
        return take_value(contents, document);
    if (n_contents == 1)
        return take_value(get_text(ipb_json_first(contents)), document);
    return join_texts(contents);
}

GBytes *
ipb_tool_result_make_whole(GBytes *value)
{
    gsize size;
    const char *text = g_bytes_get_data(value, &size);
    GString *whole = g_string_new("{\"content\":[{\"type\":\"text\",\"text\":");
    g_string_append_len(whole, text, (gssize) size);
    g_string_append(whole, "}]}");
    return g_string_free_to_bytes(whole);
}
