/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernelspecs of a gateway; see the header.
 */
#include "serve/gateway/kernelspecs.h"

#include "base/error.h"

/* Of all folders, and directories in one folder. */
#define MAX_SPECS 100
#define MAX_DIRECTORIES 1000
/* Reasons that are remembered, so that they are not logged again. */
#define MAX_REASONS 1000

struct IpbGatewayKernelspecs {
    IpbGatewayKernelspecsOptions options;
    GHashTable *reasons; /* what it is about → why it is not offered */
};

IpbGatewayKernelspecs *
ipb_gateway_kernelspecs_new(const IpbGatewayKernelspecsOptions *options)
{
    IpbGatewayKernelspecs *specs = g_new0(IpbGatewayKernelspecs, 1);
    specs->options = *options;
    specs->reasons = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return specs;
}

void
ipb_gateway_kernelspecs_free(IpbGatewayKernelspecs *specs)
{
    if (specs == NULL)
        return;
    g_hash_table_unref(specs->reasons);
    g_free(specs);
}

/* Clients ask again and again: a reason is logged once. */
static void
log_reason(IpbGatewayKernelspecs *specs, const char *folder, const char *name, const char *why)
{
    g_autofree char *key = g_build_filename(folder, name, NULL);
    if (specs->options.on_log == NULL ||
        g_strcmp0(g_hash_table_lookup(specs->reasons, key), why) == 0)
        return;
    if (g_hash_table_size(specs->reasons) >= MAX_REASONS)
        g_hash_table_remove_all(specs->reasons);
    g_autofree char *text =
        g_strdup_printf("kernelspec %s is not offered: %s", name != NULL ? name : folder, why);
    g_hash_table_insert(specs->reasons, g_steal_pointer(&key), g_strdup(why));
    specs->options.on_log("warning", text, specs->options.data);
}

/* What one reads in one pass over the folders. */
typedef struct {
    const char *wanted; /* the only name that is wanted; NULL: all */
    GHashTable *seen;   /* names, in lower case, of which a folder has decided */
    GPtrArray *found;   /* IpbGatewayKernelspec */
    GError *error;      /* why the wanted one is not offered */
} Search;

static void
fail(IpbGatewayKernelspecs *specs, Search *search, const char *folder, const char *name,
     GError *error)
{
    log_reason(specs, folder, name, error->message);
    if (search->wanted != NULL && search->error == NULL && name != NULL)
        search->error = error;
    else
        g_error_free(error);
}

static void
look_at(IpbGatewayKernelspecs *specs, Search *search, const IpbBeneath *folder, const char *name)
{
    GError *error = NULL;
    g_autofree char *lower = g_ascii_strdown(name, -1);
    if ((search->wanted != NULL && g_ascii_strcasecmp(search->wanted, name) != 0) ||
        !ipb_gateway_kernelspec_check_name(name, NULL) ||
        g_hash_table_contains(search->seen, lower))
        return;
    g_autoptr(IpbGatewayKernelspec) spec = ipb_gateway_kernelspec_read(folder, name, &error);
    if (spec == NULL && g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_error_free(error); /* a directory without kernel.json */
        return;
    }
    g_hash_table_add(search->seen, g_steal_pointer(&lower));
    if (spec == NULL) {
        fail(specs, search, ipb_beneath_path(folder), name, error);
    } else if (spec->arguments != NULL && search->found->len >= MAX_SPECS) {
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%s: there are more than %d kernelspecs of ipybox", spec->path, MAX_SPECS);
        fail(specs, search, ipb_beneath_path(folder), name, error);
    } else if (spec->arguments != NULL &&
               !specs->options.check(spec, specs->options.check_data, &error)) {
        fail(specs, search, ipb_beneath_path(folder), name, error);
    } else if (spec->arguments != NULL) {
        g_ptr_array_add(search->found, g_steal_pointer(&spec));
    }
}

static void
look_in(IpbGatewayKernelspecs *specs, Search *search, const char *path)
{
    GError *error = NULL;
    g_autoptr(IpbBeneath) folder = ipb_beneath_open(path, &error);
    g_autoptr(GPtrArray) names =
        folder != NULL ? ipb_beneath_list(folder, MAX_DIRECTORIES, &error) : NULL;
    if (names == NULL) {
        if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
            g_error_free(error);
        else
            fail(specs, search, path, NULL, error);
        return;
    }
    for (guint i = 0; i < names->len; i++)
        look_at(specs, search, folder, g_ptr_array_index(names, i));
}

static GPtrArray *
search_all(IpbGatewayKernelspecs *specs, const char *wanted, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GPtrArray *found = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_gateway_kernelspec_free);
    Search search = {.wanted = wanted, .seen = seen, .found = found};
    for (const char *const *folder = specs->options.folders; *folder != NULL; folder++)
        look_in(specs, &search, *folder);
    if (search.error != NULL)
        g_propagate_error(error, search.error);
    return found;
}

GPtrArray *
ipb_gateway_kernelspecs_list(IpbGatewayKernelspecs *specs)
{
    return search_all(specs, NULL, NULL);
}

IpbGatewayKernelspec *
ipb_gateway_kernelspecs_find(IpbGatewayKernelspecs *specs, const char *name, GError **error)
{
    GError *failure = NULL;
    g_autoptr(GPtrArray) found = search_all(specs, name, &failure);
    if (failure != NULL) {
        g_propagate_error(error, failure);
        return NULL;
    }
    if (found->len > 0)
        return g_ptr_array_steal_index(found, 0);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "there is no kernelspec %s of ipybox",
                name);
    return NULL;
}
