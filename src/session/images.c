/* SPDX-License-Identifier: Apache-2.0
 *
 * Image files; see the header. The name is 8 random hex digits, as in ipybox 0.9.
 */
#include "session/images.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"

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
decode_image(const ImageKind *kind, const char *base64, size_t size, GBytes **ret_image,
             GError **error)
{
    if (size / 4 * 3 > MAX_IMAGE_SIZE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s larger than %u MiB",
                    kind->mime_type, MAX_IMAGE_SIZE >> 20);
        return false;
    }
    gsize image_size;
    g_autofree guchar *image = g_base64_decode(base64, &image_size);
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
create_file(int directory_fd, const char *suffix, char **ret_name, GError **error)
{
    for (int tries = 0; tries < MAX_NAME_TRIES; tries++) {
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            break;
        g_autofree char *name = g_strdup_printf("%08x.%s", random, suffix);
        int fd =
            openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
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

/* Cells write the workspace, so no link in it may be followed. */
static int
open_directory(const char *directory, const char *workspace, GError **error)
{
    size_t size = strlen(workspace);
    if (strncmp(directory, workspace, size) == 0 &&
        (directory[size] == '/' || directory[size] == '\0'))
        return ipb_file_open_directory_in(workspace, directory, error);
    if (!ipb_file_make_directories(directory, 0755, error))
        return -1;
    int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        ipb_error_set_errno(error, errno, "cannot open %s", directory);
    return fd;
}

static bool
write_image(const ImageKind *kind, GBytes *image, const char *directory, const char *workspace,
            char **ret_path, GError **error)
{
    ipb_autofd directory_fd = open_directory(directory, workspace, error);
    if (directory_fd < 0) {
        g_prefix_error(error, "cannot save images: ");
        return false;
    }
    g_autofree char *name = NULL;
    ipb_autofd fd = create_file(directory_fd, kind->suffix, &name, error);
    if (fd < 0)
        return false;
    gsize size;
    const void *bytes = g_bytes_get_data(image, &size);
    if (!ipb_fd_write_all(fd, bytes, size, error)) {
        g_prefix_error(error, "%s/%s: ", directory, name);
        unlinkat(directory_fd, name, 0);
        return false;
    }
    *ret_path = g_canonicalize_filename(name, directory);
    return true;
}

bool
ipb_images_save(const IpbJson *bundle, const char *directory, const char *workspace,
                char **ret_path, GError **error)
{
    *ret_path = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(KINDS); i++) {
        size_t size;
        const char *base64 = ipb_json_string(ipb_json_get(bundle, KINDS[i].mime_type), &size);
        if (base64 == NULL)
            continue;
        g_autoptr(GBytes) image = NULL;
        return decode_image(&KINDS[i], base64, size, &image, error) &&
               write_image(&KINDS[i], image, directory, workspace, ret_path, error);
    }
    return true;
}
