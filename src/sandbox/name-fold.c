/* SPDX-License-Identifier: Apache-2.0
 *
 * Nearly all names are ASCII, and take the fast path. It does not allocate.
 */
#include "sandbox/name-fold.h"

#include <stdbool.h>
#include <string.h>

#include <glib.h>

#define HASH_START 2166136261u
#define HASH_FACTOR 16777619u

/* Code points that Unicode calls default-ignorable. */
static const struct {
    gunichar first, last;
} IGNORED[] = {
    {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c}, {0x115f, 0x1160}, {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x200b, 0x200f},   {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164},
    {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

static bool
is_ignored(gunichar c)
{
    for (size_t i = 0; i < G_N_ELEMENTS(IGNORED); i++)
        if (c >= IGNORED[i].first && c <= IGNORED[i].last)
            return true;
    return false;
}

/* Windows and its file systems ignore dots and spaces at the end, and ":stream". A name of dots
 * only stays. */
static size_t
trim(const char *text, size_t size)
{
    const char *colon = memchr(text, ':', size);
    size_t end = colon != NULL && colon > text ? (size_t) (colon - text) : size;
    while (end > 0 && (text[end - 1] == '.' || text[end - 1] == ' '))
        end--;
    return end > 0 ? end : size;
}

static void
set_text(IpbFoldedName *folded, const char *text, size_t size)
{
    size = trim(text, MIN(size, IPB_NAME_FOLD_BYTES - 1));
    uint32_t hash = HASH_START;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c >= 'A' && c <= 'Z')
            c = (char) (c + ('a' - 'A'));
        folded->text[i] = c;
        hash = (hash ^ (unsigned char) c) * HASH_FACTOR;
    }
    folded->text[size] = '\0';
    folded->size = size;
    folded->hash = hash;
}

static char *
fold_unicode(const char *name, size_t size)
{
    g_autofree char *decomposed = g_utf8_normalize(name, (gssize) size, G_NORMALIZE_ALL);
    if (decomposed == NULL)
        return NULL;
    g_autoptr(GString) visible = g_string_new(NULL);
    for (const char *p = decomposed; *p != '\0'; p = g_utf8_next_char(p))
        if (!is_ignored(g_utf8_get_char(p)))
            g_string_append_unichar(visible, g_utf8_get_char(p));
    g_autofree char *caseless = g_utf8_casefold(visible->str, (gssize) visible->len);
    return g_utf8_normalize(caseless, -1, G_NORMALIZE_ALL);
}

void
ipb_name_fold(const char *name, size_t size, IpbFoldedName *ret_folded)
{
    bool is_ascii = true;
    for (size_t i = 0; i < size && is_ascii; i++)
        is_ascii = (unsigned char) name[i] < 0x80;
    g_autofree char *folded = is_ascii ? NULL : fold_unicode(name, size);
    if (folded != NULL)
        set_text(ret_folded, folded, strlen(folded));
    else
        set_text(ret_folded, name, size);
}
