/* SPDX-License-Identifier: Apache-2.0
 *
 * Image files; see the header. The name is 8 random hex digits, as in ipybox 0.9.
 */
#include "session/images.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/fd.h"

#define MAX_IMAGE_SIZE (64u * 1024 * 1024)
#define MAX_NAME_TRIES 100

typedef struct {
    const char *mime_type;
    const char *suffix;
    const char *magic;
    size_t magic_size;
} ImageKind;

/* In the order of preference. */
static const ImageKind KINDS[] = {
    {"image/png", "png", "\x89PNG\r\n\x1a\n", 8},
    {"image/jpeg", "jpg", "\xff\xd8\xff", 3},
};

static bool
decode_image(const ImageKind *kind, const char *base64, size_t size, size_t max_size,
             GBytes **ret_image, GError **error)
{
    gsize image_size = 0;
    bool is_small = size / 4 * 3 <= max_size + 2; /* with its padding */
    g_autofree guchar *image = is_small ? g_base64_decode(base64, &image_size) : NULL;
    if (!is_small || image_size > max_size) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s larger than %zu MiB",
                    kind->mime_type, max_size >> 20);
        return false;
    }
    if (image_size < kind->magic_size || memcmp(image, kind->magic, kind->magic_size) != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the data is no %s",
                    kind->mime_type);
        return false;
    }
    *ret_image = g_bytes_new_take(g_steal_pointer(&image), image_size);
    return true;
}

/* Creates a file under a new name and returns its fd; -1 with @error. */
static int
create_file(const IpbBeneath *directory, const char *suffix, char **ret_name, GError **error)
{
    for (int tries = 0; tries < MAX_NAME_TRIES; tries++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            break;
        g_autofree char *name = g_strdup_printf("%08x.%s", random, suffix);
        int fd = ipb_beneath_create(directory, name, 0644);
        if (fd >= 0) {
            *ret_name = g_steal_pointer(&name);
            return fd;
        }
        if (errno != EEXIST)
            break;
    }
    ipb_error_set_errno(error, errno, "cannot create an image file");
    return -1;
}

static bool
write_image(const ImageKind *kind, GBytes *image, const char *directory, const char *workspace,
            char **ret_path, GError **error)
{
    /* Cells write the workspace, so no link in it may be followed. A directory elsewhere is the
     * user's choice. */
    const char *base = ipb_beneath_contains(workspace, directory) ? workspace : directory;
    g_autoptr(IpbBeneath) place = ipb_beneath_open_in(base, directory, 0755, error);
    if (place == NULL) {
        g_prefix_error(error, "cannot save images: ");
        return false;
    }
    g_autofree char *name = NULL;
    ipb_autofd fd = create_file(place, kind->suffix, &name, error);
    if (fd < 0)
        return false;
    gsize size;
    const void *bytes = g_bytes_get_data(image, &size);
    if (!ipb_fd_write_all(fd, bytes, size, error)) {
        g_prefix_error(error, "%s/%s: ", directory, name);
        ipb_beneath_remove_tree(place, name, NULL);
        return false;
    }
    *ret_path = g_canonicalize_filename(name, directory);
    return true;
}

/* The image of a bundle as base64; NULL: it has none. */
static const char *
find_image(const IpbJson *bundle, const ImageKind **ret_kind, size_t *ret_size)
{
    for (size_t i = 0; i < G_N_ELEMENTS(KINDS); i++) {
        const char *base64 = ipb_json_string(ipb_json_get(bundle, KINDS[i].mime_type), ret_size);
        if (base64 == NULL)
            continue;
        *ret_kind = &KINDS[i];
        return base64;
    }
    return NULL;
}

bool
ipb_images_save(const IpbJson *bundle, const char *directory, const char *workspace,
                char **ret_path, GError **error)
{
    *ret_path = NULL;
    size_t size;
    const ImageKind *kind;
    const char *base64 = find_image(bundle, &kind, &size);
    g_autoptr(GBytes) image = NULL;
    return base64 == NULL || (decode_image(kind, base64, size, MAX_IMAGE_SIZE, &image, error) &&
                              write_image(kind, image, directory, workspace, ret_path, error));
}

bool
ipb_images_decode(const IpbJson *bundle, size_t max_size, const char **ret_mime_type,
                  GBytes **ret_image, GError **error)
{
    size_t size;
    const ImageKind *kind = NULL;
    const char *base64 = find_image(bundle, &kind, &size);
    *ret_image = NULL;
    *ret_mime_type = kind != NULL ? kind->mime_type : NULL;
    return base64 == NULL || decode_image(kind, base64, size, max_size, ret_image, error);
}
