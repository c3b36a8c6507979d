/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and tokens; see the header. Tokens are kept and compared as SHA-256 digests, so the time of
 * a comparison says nothing about the token.
 */
#include "serve/mcp-http/principals.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"

#define MAX_FILE (1024 * 1024)
#define MAX_NAME 64
/* 16 random bytes as hex digits */
#define MIN_TOKEN 32
#define MAX_TOKEN 1024
#define LOCAL_NAME "local"

struct IpbPrincipals {
    /* char * */
    GPtrArray *names;
    /* Digest of a token → index + 1 */
    GHashTable *by_digest;
};

static char *
make_digest(IpbSpan token)
{
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *) token.start, token.size);
}

static bool
is_name(const char *name)
{
    size_t size = strlen(name);
    for (const char *at = name; *at != '\0'; at++)
        if (!g_ascii_isalnum(*at) && strchr("-_.", *at) == NULL)
            return false;
    return size > 0 && size <= MAX_NAME && name[0] != '.';
}

static bool
is_token(const char *token)
{
    size_t size = strlen(token);
    for (const char *at = token; *at != '\0'; at++)
        if (!g_ascii_isgraph(*at))
            return false;
    return size >= MIN_TOKEN && size <= MAX_TOKEN;
}

/* Why it cannot be added; NULL: it was. Static. */
static const char *
add(IpbPrincipals *principals, const char *name, const char *token)
{
    if (principals->names->len == IPB_PRINCIPALS_MAX)
        return "there are more than 1000 names";
    if (!is_name(name))
        return "a name has 1 to 64 letters, digits, \"-\", \"_\" and \".\", and does not begin "
               "with \".\"";
    if (!is_token(token))
        return "a token has 32 to 1024 visible ASCII characters; openssl rand -hex 32 makes one";
    if (g_ptr_array_find_with_equal_func(principals->names, name, g_str_equal, NULL))
        return "the name is there twice";
    g_autofree char *digest = make_digest((IpbSpan){token, strlen(token)});
    if (g_hash_table_contains(principals->by_digest, digest))
        return "another name has the same token";
    g_ptr_array_add(principals->names, g_strdup(name));
    g_hash_table_insert(principals->by_digest, g_steal_pointer(&digest),
                        GUINT_TO_POINTER(principals->names->len));
    return NULL;
}

static IpbPrincipals *
new_empty(void)
{
    IpbPrincipals *principals = g_new0(IpbPrincipals, 1);
    principals->names = g_ptr_array_new_with_free_func(g_free);
    principals->by_digest = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return principals;
}

IpbPrincipals *
ipb_principals_new(const char *token, GError **error)
{
    g_autoptr(IpbPrincipals) principals = new_empty();
    const char *fault = add(principals, LOCAL_NAME, token);
    if (fault == NULL)
        return g_steal_pointer(&principals);
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, fault);
    return NULL;
}

/* A user that can read the file can run code. */
static bool
read_secret(const char *path, char **ret_text, GError **error)
{
    ipb_autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return ipb_error_set_errno(error, errno, "cannot read the token file %s", path);
    if ((status.st_mode & 077) != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "other users can read or change the token file %s: run chmod 600 on it", path);
        return false;
    }
    size_t size;
    if (!ipb_file_read_fd(fd, path, MAX_FILE, ret_text, &size, error))
        return false;
    if (strlen(*ret_text) == size)
        return true;
    g_clear_pointer(ret_text, g_free);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the token file %s is no text", path);
    return false;
}

/* The token is not in the error. */
static bool
add_line(IpbPrincipals *principals, const char *path, unsigned number, char *line, GError **error)
{
    g_strstrip(line);
    if (*line == '\0' || *line == '#')
        return true;
    char *name = line;
    char *token = line + strcspn(line, " \t");
    const char *fault = "a line is NAME TOKEN";
    if (*token != '\0') {
        *token++ = '\0';
        fault = add(principals, name, g_strchug(token));
    }
    if (fault == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s:%u: %s", path, number, fault);
    return false;
}

IpbPrincipals *
ipb_principals_load(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    g_autoptr(IpbPrincipals) principals = new_empty();
    if (!read_secret(path, &text, error))
        return NULL;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (unsigned i = 0; lines[i] != NULL; i++)
        if (!add_line(principals, path, i + 1, lines[i], error))
            return NULL;
    if (principals->names->len > 0)
        return g_steal_pointer(&principals);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "the token file %s is empty: it must have a line NAME TOKEN for each client", path);
    return NULL;
}

size_t
ipb_principals_count(const IpbPrincipals *principals)
{
    return principals->names->len;
}

const char *
ipb_principals_name(const IpbPrincipals *principals, size_t index)
{
    return g_ptr_array_index(principals->names, index);
}

bool
ipb_principals_find(const IpbPrincipals *principals, IpbSpan token, size_t *ret_index)
{
    g_autofree char *digest = make_digest(token);
    guint found = GPOINTER_TO_UINT(g_hash_table_lookup(principals->by_digest, digest));
    *ret_index = found - 1;
    return found > 0;
}

void
ipb_principals_free(IpbPrincipals *principals)
{
    if (principals == NULL)
        return;
    g_ptr_array_unref(principals->names);
    g_hash_table_unref(principals->by_digest);
    g_free(principals);
}
