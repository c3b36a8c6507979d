/* SPDX-License-Identifier: Apache-2.0
 *
 * What is shown of a bundle; see the header.
 */
#include "notebook/bundle-view.h"

#include <string.h>

#include "base/display-text.h"
#include "kernel/bundle-text.h"

/* Characters. */
#define MAX_ALT 200

/* In the order in which they are preferred. An SVG that is shown as an image runs no scripts. */
static const char *const IMAGE_TYPES[] = {"image/png", "image/jpeg", "image/gif", "image/webp",
                                          "image/svg+xml"};

/* @base64 without line breaks; NULL if it has other characters than Base64. */
static char *
copy_base64(const char *base64)
{
    g_autofree char *copy = g_malloc(strlen(base64) + 1);
    char *end = copy;
    for (const char *at = base64; *at != '\0'; at++) {
        if (*at == '\n' || *at == '\r')
            continue;
        if (!g_ascii_isalnum(*at) && strchr("+/=", *at) == NULL)
            return NULL;
        *end++ = *at;
    }
    *end = '\0';
    return end > copy ? g_steal_pointer(&copy) : NULL;
}

static char *
make_image(const char *type, const char *value)
{
    if (!g_str_equal(type, "image/svg+xml"))
        return copy_base64(value);
    return *value != '\0' ? g_base64_encode((const unsigned char *) value, strlen(value)) : NULL;
}

void
ipb_bundle_view_init(IpbBundleView *view, const IpbNotebookOutput *output)
{
    *view = (IpbBundleView){0};
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(
        output->bundle->data, strlen(output->bundle->data), &IPB_JSON_LIMITS_MESSAGE, NULL);
    const IpbJson *data = document != NULL ? ipb_json_root(document) : NULL;
    g_autofree char *text = data != NULL ? ipb_bundle_text(data) : NULL;
    g_autofree char *valid = text != NULL ? g_utf8_make_valid(text, -1) : NULL;
    if (valid != NULL)
        view->text = ipb_display_text_printable(valid);
    for (size_t i = 0; i < G_N_ELEMENTS(IMAGE_TYPES) && view->image == NULL; i++) {
        const char *value = ipb_json_get_string(data, IMAGE_TYPES[i]);
        if (value == NULL || (view->image = make_image(IMAGE_TYPES[i], value)) == NULL)
            continue;
        view->image_type = IMAGE_TYPES[i];
    }
}

void
ipb_bundle_view_clear(IpbBundleView *view)
{
    g_clear_pointer(&view->text, g_free);
    g_clear_pointer(&view->image, g_free);
}

char *
ipb_bundle_view_alt(const IpbBundleView *view)
{
    if (view->text == NULL || *view->text == '\0')
        return g_strdup("Image without a description");
    char *alt = g_utf8_substring(view->text, 0, MIN(g_utf8_strlen(view->text, -1), MAX_ALT));
    return g_strdelimit(alt, "\n\t", ' ');
}
