/* SPDX-License-Identifier: Apache-2.0
 *
 * From rules to mounts. The rules are walked in the order of their paths, directories before what is in them; each path has a state that
 * follows from its rule and the state of the directory above. Where the state differs from what the mounts so far give, there is a mount.
 * So nothing is more open than its rules: a mount that opens something is always followed by those that close parts of it.
 */
#include <string.h>

#include "base/error.h"
#include "sandbox/identity.h"
#include "sandbox/plan-private.h"

/* Of a hidden directory in which something is bound back: directories and empty files only. */
#define HIDDEN_SIZE_BYTES (1024 * 1024)
/* Of a hidden directory that may be written. */
#define SCRATCH_SIZE_BYTES (16 * 1024 * 1024)

typedef enum {
    VIEW_HOST,   /* what the host has there */
    VIEW_HIDDEN, /* nothing */
    VIEW_OWN,    /* a file system of the sandbox: what the host has there is not seen */
    VIEW_KERNEL, /* /dev and /proc: likewise, and nothing of the host can come in */
} View;

typedef struct {
    View view;
    bool is_total;
    bool is_write_allowed, is_write_denied;
    /* What runs here needs it: read-only, unless something below is writable by name */
    bool is_kept;
    const char *read_reason, *write_reason;
} State;

typedef struct {
    IpbPlanner *planner;
    GPtrArray *rules;   /* sorted */
    GHashTable *states; /* path → State */
    bool is_root_mapped;
} Builder;

static bool
is_writable(const State *state)
{
    return state->is_write_allowed && !state->is_write_denied && !state->is_kept;
}

/* --- states ------------------------------------------------------------------------------------ */

static void
derive_write(State *state, const IpbPlanRule *rule)
{
    if (rule->allow_write) {
        state->is_write_allowed = true;
        state->is_kept = false;
    }
    if (rule->keep)
        state->is_kept = true;
    if (rule->deny_write)
        state->is_write_denied = true;
    if (rule->write_reason != NULL && (rule->deny_write || !state->is_write_denied))
        state->write_reason = rule->write_reason;
}

static View
view_of_fixed(const IpbPlanRule *rule)
{
    IpbMountKind kind = rule->fixed->kind;
    return kind == IPB_MOUNT_PROC || kind == IPB_MOUNT_DEV || kind == IPB_MOUNT_DEVPTS ? VIEW_KERNEL
                                                                                       : VIEW_OWN;
}

static void
derive_view(State *state, const State *above, const IpbPlanRule *rule)
{
    bool is_open = !above->is_total && above->view != VIEW_KERNEL;
    if (rule->fixed != NULL && !(rule->fixed->kind == IPB_MOUNT_TMPFS && is_open &&
                                 rule->allow_write && is_writable(state))) {
        state->view = view_of_fixed(rule);
        state->is_total = false;
    } else if (rule->keep || (rule->allow_read && is_open)) {
        state->view = VIEW_HOST;
        state->is_total = false;
    } else if (rule->deny_read && above->view != VIEW_OWN && above->view != VIEW_KERNEL) {
        state->view = VIEW_HIDDEN;
        state->is_total |= rule->is_total;
    } else if ((rule->expose || rule->allow_write) && is_open && !rule->deny_read) {
        state->view = VIEW_HOST;
    } else if (rule->is_private && state->view == VIEW_HOST && !is_writable(state)) {
        state->view = VIEW_OWN;
    }
    if (rule->read_reason != NULL)
        state->read_reason = rule->read_reason;
}

static State
derive(const State *above, const IpbPlanRule *rule)
{
    State state = *above;
    derive_write(&state, rule);
    derive_view(&state, above, rule);
    return state;
}

/* Of the nearest directory above @path, or @path itself, that has a rule. */
static const State *
find_state(const Builder *builder, const char *path)
{
    g_autofree char *copy = g_strdup(path);
    for (;;) {
        const State *state = g_hash_table_lookup(builder->states, copy);
        char *slash = strrchr(copy, '/');
        if (state != NULL || slash == NULL || copy[1] == '\0')
            return state;
        slash[slash == copy ? 1 : 0] = '\0';
    }
}

static const State *
find_state_above(const Builder *builder, const char *path)
{
    g_autofree char *directory = g_path_get_dirname(path);
    return find_state(builder, directory);
}

/* --- mounts ------------------------------------------------------------------------------------ */

static IpbPlanMount *
add_mount(const Builder *builder, IpbMountKind kind, const char *source, const char *target,
          const char *reason)
{
    IpbPlanMount *mount = ipb_plan_mount_new(kind, source, target, reason);
    g_ptr_array_add(builder->planner->plan->mounts, mount);
    return mount;
}

/* The directories between @root and what is protected or hidden in it, each once. Moved aside, what is hidden would lie where the next
 * sandbox sees it. */
static void
add_pins(const Builder *builder, guint index)
{
    static const char REASON[] = "cannot be renamed: something in it is protected or hidden";
    const char *root = ((IpbPlanRule *) g_ptr_array_index(builder->rules, index))->path;
    g_autoptr(GHashTable) pinned = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    bool is_first = true;
    for (guint i = index + 1; i < builder->rules->len; i++) {
        const IpbPlanRule *rule = g_ptr_array_index(builder->rules, i);
        if (!ipb_path_is_below(rule->path, root))
            break;
        if (!rule->deny_write && !rule->deny_read && !rule->keep)
            continue;
        for (const char *slash = strchr(rule->path + strlen(root) + 1, '/'); slash != NULL;
             slash = strchr(slash + 1, '/')) {
            g_autofree char *path = g_strndup(rule->path, (size_t) (slash - rule->path));
            if (g_hash_table_contains(pinned, path))
                continue;
            /* What is pinned has to be seen while it is pinned. */
            if (is_first)
                add_mount(builder, IPB_MOUNT_READ_ONLY, root, root, "so that parts can be pinned");
            is_first = false;
            add_mount(builder, IPB_MOUNT_READ_ONLY, path, path, REASON);
            g_hash_table_add(pinned, g_steal_pointer(&path));
        }
    }
}

static void
add_bind(const Builder *builder, guint index, const State *state)
{
    const IpbPlanRule *rule = g_ptr_array_index(builder->rules, index);
    if (!is_writable(state)) {
        bool is_for_writing = state->is_write_allowed && state->write_reason != NULL;
        add_mount(builder, IPB_MOUNT_READ_ONLY, rule->path, rule->path,
                  is_for_writing ? state->write_reason : state->read_reason)
            ->is_denial = rule->deny_write && !rule->keep && !rule->allow_read && !rule->expose &&
                          !rule->allow_write;
        return;
    }
    if (rule->is_directory)
        add_pins(builder, index);
    add_mount(builder, IPB_MOUNT_WRITABLE, rule->path, rule->path, state->write_reason);
}

static void
add_hiding(const Builder *builder, const IpbPlanRule *rule, const State *state)
{
    if (!rule->is_directory)
        add_mount(builder, IPB_MOUNT_HIDE_FILE, NULL, rule->path, state->read_reason);
    else if (is_writable(state))
        add_mount(builder, IPB_MOUNT_TMPFS, NULL, rule->path, state->read_reason)->size_bytes =
            SCRATCH_SIZE_BYTES;
    else
        add_mount(builder, IPB_MOUNT_HIDE_DIR, NULL, rule->path, state->read_reason);
}

static void
add_fixed(const Builder *builder, const IpbPlanRule *rule)
{
    const IpbPlanMount *fixed = rule->fixed;
    IpbPlanMount *mount = add_mount(builder, fixed->kind, fixed->source, rule->path, fixed->reason);
    mount->content = g_strdup(fixed->content);
    mount->size_bytes = fixed->size_bytes;
}

/* Root's sandboxes run as somebody else, who cannot enter root's directories: what is to be seen there has to be mounted. */
static bool
is_closed_to_others(const Builder *builder, const IpbPlanRule *rule)
{
    return builder->is_root_mapped && (rule->keep || rule->allow_read || rule->expose);
}

static void
add_mounts(const Builder *builder, guint index, const State *above, const State *state)
{
    const IpbPlanRule *rule = g_ptr_array_index(builder->rules, index);
    bool is_host_tmp = rule->fixed != NULL && state->view == VIEW_HOST;
    if (rule->fixed != NULL && !is_host_tmp) {
        add_fixed(builder, rule);
        if (rule->deny_read && rule->fixed->kind == IPB_MOUNT_PROC)
            add_mount(builder, IPB_MOUNT_HIDE_DIR, NULL, rule->path, rule->read_reason);
        return;
    }
    switch (state->view) {
    case VIEW_HOST:
        if (above->view != VIEW_HOST || is_writable(above) != is_writable(state) ||
            is_closed_to_others(builder, rule))
            add_bind(builder, index, state);
        break;
    case VIEW_HIDDEN:
        if (above->view != VIEW_HIDDEN)
            add_hiding(builder, rule, state);
        break;
    case VIEW_OWN:
        if (above->view == VIEW_HOST)
            add_mount(builder, IPB_MOUNT_TMPFS, NULL, rule->path, rule->read_reason)->size_bytes =
                SCRATCH_SIZE_BYTES;
        break;
    case VIEW_KERNEL:
        break;
    }
}

/* --- what people should know ------------------------------------------------------------------- */

static void
warn_about(const Builder *builder, const IpbPlanRule *rule, const State *above, const State *state)
{
    if (rule->allow_write && state->view == VIEW_KERNEL)
        ipb_plan_warn(builder->planner, "%s: without effect: the sandbox has a %s of its own",
                      rule->write_reason, rule->path);
    else if (rule->allow_write && state->view == VIEW_HIDDEN)
        ipb_plan_warn(builder->planner, "filesystem.allowWrite: %s stays hidden (%s)", rule->path,
                      state->read_reason);
    else if (rule->allow_write && state->view == VIEW_HOST && !is_writable(state))
        ipb_plan_warn(builder->planner, "filesystem.allowWrite: %s stays read-only (%s)",
                      rule->path, state->write_reason);
    if (rule->allow_read && state->view != VIEW_HOST)
        ipb_plan_warn(builder->planner, "filesystem.allowRead: %s %s", rule->path,
                      state->view == VIEW_HIDDEN ? "stays hidden" : "is the sandbox's own");
    if (rule->deny_write && rule->n_names > 1 && is_writable(above) && state->view == VIEW_HOST)
        ipb_plan_warn(builder->planner,
                      "%s has %lu names (hard links); those in writable directories can be written",
                      rule->path, rule->n_names);
}

static void
warn_about_root(const Builder *builder)
{
    const State *root = g_hash_table_lookup(builder->states, "/");
    if (is_writable(root))
        ipb_plan_warn(builder->planner,
                      "filesystem.allowWrite: /: protected and hidden files stay as they are, but "
                      "directories that they are in can be renamed");
}

/* --- the walk ---------------------------------------------------------------------------------- */

/* "/" sorts before every other byte, so that a directory is followed by what is in it. */
static int
compare_paths(const char *a, const char *b)
{
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    unsigned char left = (unsigned char) (*a == '/' ? 1 : *a);
    unsigned char right = (unsigned char) (*b == '/' ? 1 : *b);
    return (int) left - (int) right;
}

static int
compare_rules(const void *a, const void *b)
{
    return compare_paths((*(IpbPlanRule *const *) a)->path, (*(IpbPlanRule *const *) b)->path);
}

static void
add_root(const Builder *builder, const State *root)
{
    bool can_write = is_writable(root);
    add_mount(builder, can_write ? IPB_MOUNT_WRITABLE : IPB_MOUNT_READ_ONLY, "/", "/",
              can_write ? root->write_reason : "what is not said to be writable is not");
}

static void
walk_rules(const Builder *builder)
{
    for (guint i = 0; i < builder->rules->len; i++) {
        const IpbPlanRule *rule = g_ptr_array_index(builder->rules, i);
        bool is_root = strcmp(rule->path, "/") == 0;
        State above = is_root ? (State){.view = VIEW_HOST} : *find_state_above(builder, rule->path);
        State *state = g_new(State, 1);
        *state = derive(&above, rule);
        g_hash_table_insert(builder->states, rule->path, state);
        if (is_root)
            add_root(builder, state);
        else
            add_mounts(builder, i, &above, state);
        warn_about(builder, rule, &above, state);
    }
}

/* A Python that is reached through a link looks for its modules by the name of the link. Where that is hidden, what is needed is bound
 * there, too. */
static void
add_aliases(const Builder *builder)
{
    GHashTableIter iter;
    void *path, *real;
    g_hash_table_iter_init(&iter, builder->planner->aliases);
    while (g_hash_table_iter_next(&iter, &path, &real)) {
        const State *above = find_state_above(builder, path);
        if (above->view == VIEW_HIDDEN || above->view == VIEW_OWN)
            add_mount(builder, IPB_MOUNT_READ_ONLY, real, path,
                      "what runs in the sandbox needs it, by this name");
    }
}

/* Later mounts have targets below these: they need a file system that can hold them. */
static void
size_hidden_directories(GPtrArray *mounts)
{
    for (guint i = 0; i < mounts->len; i++) {
        IpbPlanMount *hidden = g_ptr_array_index(mounts, i);
        for (guint j = i + 1; j < mounts->len && hidden->kind == IPB_MOUNT_HIDE_DIR; j++) {
            const IpbPlanMount *later = g_ptr_array_index(mounts, j);
            if (!ipb_path_is_below(later->target, hidden->target))
                continue;
            hidden->size_bytes = HIDDEN_SIZE_BYTES;
            break;
        }
    }
}

static int
compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Those of @paths that something inside could make or change. */
static void
collect_writable(const Builder *builder, GHashTable *paths, GPtrArray *collected)
{
    GHashTableIter iter;
    void *path;
    g_hash_table_iter_init(&iter, paths);
    while (g_hash_table_iter_next(&iter, &path, NULL)) {
        const State *above = find_state_above(builder, path);
        if (above->view == VIEW_HOST && is_writable(above))
            g_ptr_array_add(collected, g_strdup(path));
    }
    g_ptr_array_sort(collected, compare_texts);
}

bool
ipb_plan_make_mounts(IpbPlanner *planner, GError **error)
{
    IpbSandboxPlan *plan = planner->plan;
    ipb_plan_rule_get(planner, "/", true);
    g_autoptr(GPtrArray) rules = g_ptr_array_new();
    GHashTableIter iter;
    void *rule;
    g_hash_table_iter_init(&iter, planner->rules);
    while (g_hash_table_iter_next(&iter, NULL, &rule))
        g_ptr_array_add(rules, rule);
    g_ptr_array_sort(rules, compare_rules);
    g_autoptr(GHashTable) states = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    Builder builder = {planner, rules, states, ipb_identity_choose().is_root_mapped};
    walk_rules(&builder);
    add_aliases(&builder);
    warn_about_root(&builder);
    size_hidden_directories(plan->mounts);
    collect_writable(&builder, planner->absent, plan->absent);
    collect_writable(&builder, planner->links, plan->links);
    if (plan->mounts->len <= IPB_PLAN_MAX_MOUNTS)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "the sandbox would need %u mounts, more than %d: name directories instead of the "
                "files in them",
                plan->mounts->len, IPB_PLAN_MAX_MOUNTS);
    return false;
}
