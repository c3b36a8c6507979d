/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target without libFuzzer: every file of the corpus directory, then a number of
 * mutations of them from a fixed seed. `fuzz-NAME CORPUS [MUTATIONS]`
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#define MAX_INPUT_SIZE (1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static GPtrArray *
load_corpus(const char *path)
{
    GPtrArray *inputs = g_ptr_array_new_with_free_func((GDestroyNotify) g_bytes_unref);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    for (const char *name; dir != NULL && (name = g_dir_read_name(dir)) != NULL;) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        char *text;
        gsize size;
        if (g_file_get_contents(file, &text, &size, NULL))
            g_ptr_array_add(inputs, g_bytes_new_take(text, MIN(size, MAX_INPUT_SIZE)));
    }
    return inputs;
}

/* Flips, inserts, deletes, or copies a piece of another input, to leave the corpus' valid texts. */
static void
mutate(GByteArray *bytes, GPtrArray *inputs, GRand *rand)
{
    for (int edits = g_rand_int_range(rand, 1, 6); edits > 0; edits--) {
        guint at = bytes->len > 0 ? (guint) g_rand_int_range(rand, 0, (gint32) bytes->len) : 0;
        switch (g_rand_int_range(rand, 0, 4)) {
        case 0:
            if (bytes->len > 0)
                bytes->data[at] ^= (guint8) (1 << g_rand_int_range(rand, 0, 8));
            break;
        case 1:
            if (bytes->len > 0)
                g_byte_array_remove_range(
                    bytes, at, (guint) g_rand_int_range(rand, 1, (gint32) (bytes->len - at) + 1));
            break;
        case 2:
            if (bytes->len > 0)
                bytes->data[at] = (guint8) g_rand_int_range(rand, 0, 256);
            break;
        default: {
            gsize size;
            guint other = (guint) g_rand_int_range(rand, 0, (gint32) inputs->len);
            const guint8 *data = g_bytes_get_data(g_ptr_array_index(inputs, other), &size);
            if (size > 0 && bytes->len < MAX_INPUT_SIZE) {
                gsize from = (gsize) g_rand_int_range(rand, 0, (gint32) size);
                g_byte_array_append(bytes, data + from, (guint) (size - from));
            }
        }
        }
    }
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s CORPUS [MUTATIONS]\n", argv[0]);
        return 2;
    }
    g_autoptr(GPtrArray) inputs = load_corpus(argv[1]);
    if (inputs->len == 0) {
        fprintf(stderr, "no input in %s\n", argv[1]);
        return 1;
    }
    for (guint i = 0; i < inputs->len; i++) {
        gsize size;
        const uint8_t *data = g_bytes_get_data(g_ptr_array_index(inputs, i), &size);
        LLVMFuzzerTestOneInput(data, size);
    }
    g_autoptr(GRand) rand = g_rand_new_with_seed(20260101);
    for (long n = argc > 2 ? strtol(argv[2], NULL, 10) : 0; n > 0; n--) {
        gsize size;
        guint seed = (guint) g_rand_int_range(rand, 0, (gint32) inputs->len);
        const guint8 *data = g_bytes_get_data(g_ptr_array_index(inputs, seed), &size);
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        g_byte_array_append(bytes, data, (guint) size);
        mutate(bytes, inputs, rand);
        /* An exact allocation, so that a sanitizer sees a read past the end. */
        uint8_t *exact = malloc(bytes->len > 0 ? bytes->len : 1);
        memcpy(exact, bytes->data, bytes->len);
        LLVMFuzzerTestOneInput(exact, bytes->len);
        free(exact);
    }
    printf("%u inputs and their mutations passed\n", inputs->len);
    return 0;
}
