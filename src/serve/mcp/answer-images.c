/* SPDX-License-Identifier: Apache-2.0
 *
 * Images in answers; see the header.
 */
#include "serve/mcp/answer-images.h"

#include <string.h>

#include "session/images.h"

/* Bytes of an image, and of all images of an answer. A plot has 20 to 200 KiB. */
#define MAX_IMAGE (1u << 20)
#define MAX_ALL (4u << 20)
#define MAX_IMAGES 10
/* Bytes of the note. */
#define MAX_NOTE 2000

/* MCP has no capability for image content, and programs written for ipybox 0.9, whose answers have
 * text only, may fail at a block without a text. So only hosts that are known to give images to
 * their models get them without being asked: the beginnings of their names in clientInfo. Others
 * use --images. */
static const char *const HOSTS[] = {
    "claude-code",           /* Claude Code */
    "claude-ai",             /* Claude Desktop */
    "codex-mcp-client",      /* Codex */
    "cursor-vscode",         /* Cursor */
    "gemini-cli-mcp-client", /* Gemini CLI; the name of the server may follow */
    "opencode",              /* opencode */
    "Visual Studio Code",
};

typedef struct {
    const char *mime_type;
    GBytes *data;
} Image;

struct IpbAnswerImages {
    GArray *images; /* Image */
    size_t size;
    GString *note;
    bool is_note_full;
};

static void
clear_image(void *data)
{
    g_bytes_unref(((Image *) data)->data);
}

IpbAnswerImages *
ipb_answer_images_new(void)
{
    IpbAnswerImages *images = g_new0(IpbAnswerImages, 1);
    images->images = g_array_new(FALSE, FALSE, sizeof(Image));
    g_array_set_clear_func(images->images, clear_image);
    images->note = g_string_new(NULL);
    return images;
}

void
ipb_answer_images_free(IpbAnswerImages *images)
{
    if (images == NULL)
        return;
    g_array_unref(images->images);
    g_string_free(images->note, TRUE);
    g_free(images);
}

static void
leave_out(IpbAnswerImages *images, const char *why, const char *path)
{
    GString *note = images->note;
    if (note->len > MAX_NOTE) {
        if (!images->is_note_full)
            g_string_append(note, "; and more");
        images->is_note_full = true;
        return;
    }
    g_string_append_printf(note, "%s%s (%s)",
                           note->len == 0 ? "[ipybox] Images not shown here: " : "; ",
                           path != NULL ? path : "one", why);
}

void
ipb_answer_images_add(IpbAnswerImages *images, const IpbJson *bundle, const char *path)
{
    Image image;
    g_autoptr(GError) error = NULL;
    if (!ipb_images_decode(bundle, MAX_IMAGE, &image.mime_type, &image.data, &error)) {
        leave_out(images, error->message, path);
        return;
    }
    if (image.data == NULL)
        return;
    size_t size = g_bytes_get_size(image.data);
    if (images->images->len >= MAX_IMAGES || images->size + size > MAX_ALL) {
        leave_out(images, "the answer has too many", path);
        g_bytes_unref(image.data);
        return;
    }
    images->size += size;
    g_array_append_val(images->images, image);
}

void
ipb_answer_images_write(const IpbAnswerImages *images, IpbJsonWriter *writer)
{
    for (guint i = 0; i < images->images->len; i++) {
        const Image *image = &g_array_index(images->images, Image, i);
        gsize size;
        const guchar *data = g_bytes_get_data(image->data, &size);
        g_autofree char *base64 = g_base64_encode(data, size);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "type", "image");
        ipb_json_member_string(writer, "data", base64);
        ipb_json_member_string(writer, "mimeType", image->mime_type);
        ipb_json_end_object(writer);
    }
}

const char *
ipb_answer_images_note(const IpbAnswerImages *images)
{
    return images->note->len > 0 ? images->note->str : NULL;
}

IpbMcpImages
ipb_answer_images_choose(IpbMcpImages images, const char *client_name)
{
    if (images != IPB_MCP_IMAGES_AUTO)
        return images;
    for (size_t i = 0; client_name != NULL && i < G_N_ELEMENTS(HOSTS); i++)
        if (g_str_has_prefix(client_name, HOSTS[i]))
            return IPB_MCP_IMAGES_BOTH;
    return IPB_MCP_IMAGES_PATH;
}
