/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths of the plan are walked from "/" down, directories before what is in them. Where the
 * access differs from what the mounts so far give, there is a mount. So nothing is more open than
 * the plan says: a mount that opens something is always followed by those that close parts of it.
 */
#include "sandbox/linux/mount-list.h"

#include <string.h>

#include "base/error.h"
#include "sandbox/linux/sandbox-user.h"
#include "sandbox/path.h"

#define MAX_MOUNTS 4000
G_STATIC_ASSERT(MAX_MOUNTS <= IPB_BLOB_MAX_MOUNTS);
/* Of a hidden directory below which something is shown: directories and empty files only. */
#define HIDDEN_SIZE_BYTES (1024 * 1024)
/* Of a hidden directory that may be written. */
#define SCRATCH_SIZE_BYTES (16 * 1024 * 1024)

typedef struct {
    const IpbPathRules *paths;
    GPtrArray *mounts;
    const char *workspace, *layer; /* layer: NULL unless the workspace is staged */
    bool is_root_mapped;
    bool judges_names;
} Builder;

/* Has the rule something that a mount can cover? */
static bool
is_mounted(const Builder *builder, const IpbPathRule *rule)
{
    if (rule->is_missing && rule->own == NULL)
        return false;
    bool is_second_wall = rule->deny_by_name && rule->is_replaceable && builder->judges_names;
    return !is_second_wall || rule->deny_write || rule->deny_read || rule->keep;
}

static void
free_mount(IpbMount *mount)
{
    g_free(mount->source);
    g_free(mount->target);
    g_free(mount->content);
    g_free(mount->reason);
    g_free(mount);
}

static IpbMount *
add_mount(const Builder *builder, IpbMountKind kind, const char *source, const char *target,
          const char *reason)
{
    IpbMount *mount = g_new0(IpbMount, 1);
    mount->kind = kind;
    mount->source = g_strdup(source);
    mount->target = g_strdup(target);
    mount->reason = g_strdup(reason);
    g_ptr_array_add(builder->mounts, mount);
    return mount;
}

/* --- what the host has ------------------------------------------------------------------------ */

/* Pins each directory between the rule at @index and what is protected or hidden below it. If one
 * were moved aside, the next sandbox would show what was hidden in it. */
static void
add_pins(const Builder *builder, guint index)
{
    static const char REASON[] = "cannot be renamed: something in it is protected or hidden";
    const GPtrArray *rules = builder->paths->sorted;
    const char *root = ((IpbPathRule *) g_ptr_array_index(rules, index))->path;
    g_autoptr(GHashTable) pinned = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    bool is_first = true;
    for (guint i = index + 1; i < rules->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(rules, i);
        if (!ipb_path_is_below(rule->path, root))
            break;
        if ((!rule->deny_write && !rule->deny_by_name && !rule->deny_read && !rule->keep) ||
            !is_mounted(builder, rule))
            continue;
        for (const char *slash = strchr(rule->path + strlen(root) + 1, '/'); slash != NULL;
             slash = strchr(slash + 1, '/')) {
            g_autofree char *path = g_strndup(rule->path, (size_t) (slash - rule->path));
            if (g_hash_table_contains(pinned, path))
                continue;
            /* A directory has to be visible while it is pinned. */
            if (is_first)
                add_mount(builder, IPB_MOUNT_READ_ONLY, root, root, "so that parts can be pinned");
            is_first = false;
            add_mount(builder, IPB_MOUNT_READ_ONLY, path, path, REASON);
            g_hash_table_add(pinned, g_steal_pointer(&path));
        }
    }
}

static void
add_bind(const Builder *builder, guint index)
{
    const IpbPathRule *rule = g_ptr_array_index(builder->paths->sorted, index);
    if (rule->access.is_writable && builder->layer != NULL &&
        g_str_equal(rule->path, builder->workspace)) {
        /* Nothing needs a pin: names inside are the layer's. */
        add_mount(builder, IPB_MOUNT_LAYER, builder->layer, rule->path, "what the session writes");
        add_mount(builder, IPB_MOUNT_STAGED, rule->path, rule->path, rule->access.reason);
        return;
    }
    if (rule->access.is_writable) {
        if (rule->is_directory && rule->parent != NULL)
            add_pins(builder, index);
        add_mount(builder, IPB_MOUNT_WRITABLE, rule->path, rule->path, rule->access.reason);
        return;
    }
    IpbMount *mount =
        add_mount(builder, IPB_MOUNT_READ_ONLY, rule->path, rule->path, rule->access.reason);
    bool is_denied = rule->deny_write || rule->deny_by_name;
    mount->is_denial = rule->parent != NULL && is_denied && !rule->keep && !rule->allow_read &&
                       !rule->expose && !rule->allow_write;
}

/* Root's sandboxes run as another user, who cannot enter root's directories: what is shown there
 * has to be mounted. */
static bool
is_closed_to_others(const Builder *builder, const IpbPathRule *rule)
{
    return builder->is_root_mapped && (rule->keep || rule->allow_read || rule->expose);
}

/* --- what the sandbox has instead ------------------------------------------------------------- */

static void
add_hiding(const Builder *builder, const IpbPathRule *rule)
{
    const char *reason = rule->access.reason;
    if (!rule->is_directory)
        add_mount(builder, IPB_MOUNT_HIDE_FILE, NULL, rule->path, reason);
    else if (rule->access.is_writable)
        add_mount(builder, IPB_MOUNT_TMPFS, NULL, rule->path, reason)->size_bytes =
            SCRATCH_SIZE_BYTES;
    else
        add_mount(builder, IPB_MOUNT_HIDE_DIR, NULL, rule->path, reason);
}

static void
add_own_place(const Builder *builder, const IpbPathRule *rule)
{
    static const IpbMountKind KINDS[] = {
        [IPB_OWN_DIRECTORY] = IPB_MOUNT_TMPFS,  [IPB_OWN_FILE] = IPB_MOUNT_FILE,
        [IPB_OWN_PROCESSES] = IPB_MOUNT_PROC,   [IPB_OWN_DEVICES] = IPB_MOUNT_DEV,
        [IPB_OWN_TERMINALS] = IPB_MOUNT_DEVPTS,
    };
    const IpbOwnPlace *own = rule->own;
    IpbMount *mount = add_mount(builder, KINDS[own->kind], NULL, rule->path, own->reason);
    mount->content = g_strdup(own->content);
    mount->size_bytes = own->size_bytes;
    if (ipb_path_rule_hides(rule))
        add_mount(builder, IPB_MOUNT_HIDE_DIR, NULL, rule->path, rule->read_reason);
}

/* --- the list --------------------------------------------------------------------------------- */

static void
add_mounts(const Builder *builder, guint index)
{
    const IpbPathRule *rule = g_ptr_array_index(builder->paths->sorted, index);
    const IpbPathAccess *access = &rule->access;
    if (rule->parent == NULL) {
        add_bind(builder, index);
        return;
    }
    if (!is_mounted(builder, rule))
        return;
    const IpbPathAccess *above = &rule->parent->access;
    bool is_host_tmp = rule->own != NULL && access->view == IPB_VIEW_HOST;
    if (rule->own != NULL && !is_host_tmp) {
        add_own_place(builder, rule);
        return;
    }
    switch (access->view) {
    case IPB_VIEW_HOST:
        if (above->view != IPB_VIEW_HOST || above->is_writable != access->is_writable ||
            is_closed_to_others(builder, rule))
            add_bind(builder, index);
        break;
    case IPB_VIEW_HIDDEN:
        if (above->view != IPB_VIEW_HIDDEN)
            add_hiding(builder, rule);
        break;
    case IPB_VIEW_OWN:
        if (above->view == IPB_VIEW_HOST)
            add_mount(builder, IPB_MOUNT_TMPFS, NULL, rule->path, rule->read_reason)->size_bytes =
                SCRATCH_SIZE_BYTES;
        break;
    case IPB_VIEW_SYSTEM:
        break;
    }
}

static void
add_aliases(const Builder *builder)
{
    for (guint i = 0; i < builder->paths->aliases->len; i++) {
        const IpbPathAlias *alias = g_ptr_array_index(builder->paths->aliases, i);
        add_mount(builder, IPB_MOUNT_READ_ONLY, alias->real, alias->path,
                  "programs in the sandbox need it, by this name");
    }
}

/* If later mounts have targets below a hidden directory, it needs a file system that can hold
 * them. */
static void
size_hidden_directories(GPtrArray *mounts)
{
    for (guint i = 0; i < mounts->len; i++) {
        IpbMount *hidden = g_ptr_array_index(mounts, i);
        for (guint j = i + 1; j < mounts->len && hidden->kind == IPB_MOUNT_HIDE_DIR; j++) {
            const IpbMount *later = g_ptr_array_index(mounts, j);
            if (!ipb_path_is_below(later->target, hidden->target))
                continue;
            hidden->size_bytes = HIDDEN_SIZE_BYTES;
            break;
        }
    }
}

GPtrArray *
ipb_mount_list_new(const IpbSandboxPlan *plan, bool judges_names, GError **error)
{
    g_autoptr(GPtrArray) mounts = g_ptr_array_new_with_free_func((GDestroyNotify) free_mount);
    const Builder builder = {
        .paths = plan->paths,
        .mounts = mounts,
        .workspace = plan->workspace,
        .layer = plan->layer,
        .is_root_mapped = ipb_sandbox_user_choose().is_root_mapped,
        .judges_names = judges_names,
    };
    for (guint i = 0; i < plan->paths->sorted->len; i++)
        add_mounts(&builder, i);
    add_aliases(&builder);
    size_hidden_directories(mounts);
    if (mounts->len <= MAX_MOUNTS)
        return g_steal_pointer(&mounts);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "the sandbox would need %u mounts, more than %d: name directories instead of the "
                "files in them",
                mounts->len, MAX_MOUNTS);
    return NULL;
}
