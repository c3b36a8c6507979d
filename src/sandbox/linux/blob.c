/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of the blob comes first. Tables and strings follow in any order, each table aligned to
 * 8.
 */
#include "sandbox/linux/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <linux/filter.h>

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/linux/init/protocol.h"
#include "sandbox/linux/mount-list.h"
#include "sandbox/linux/seccomp.h"

#define FEW_FILES 256
#define ALIGNMENT 8
#define HOST_NAME "ipybox"
#define OOM_SCORE 1000
/* Seconds between SIGXCPU, which a program may handle, and SIGKILL. */
#define CPU_GRACE_S 5

static void
align(GByteArray *blob)
{
    static const uint8_t ZEROS[ALIGNMENT];
    g_byte_array_append(blob, ZEROS, (ALIGNMENT - blob->len % ALIGNMENT) % ALIGNMENT);
}

static IpbBlobTable
add_table(GByteArray *blob, const void *rows, size_t row_size, size_t n)
{
    align(blob);
    IpbBlobTable table = {blob->len, (uint32_t) n};
    g_byte_array_append(blob, rows, (guint) (row_size * n));
    return table;
}

static uint32_t
add_string(GByteArray *blob, const char *text)
{
    if (text == NULL)
        return 0;
    uint32_t offset = blob->len;
    g_byte_array_append(blob, (const uint8_t *) text, (guint) strlen(text) + 1);
    return offset;
}

static IpbBlobTable
add_strings(GByteArray *blob, const char *const *strings)
{
    g_autoptr(GArray) offsets = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (; strings != NULL && *strings != NULL; strings++) {
        uint32_t offset = add_string(blob, *strings);
        g_array_append_val(offsets, offset);
    }
    return add_table(blob, offsets->data, sizeof(uint32_t), offsets->len);
}

static IpbBlobTable
add_mounts(GByteArray *blob, const GPtrArray *mounts)
{
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(IpbBlobMount));
    for (guint i = 0; i < mounts->len; i++) {
        const IpbMount *mount = g_ptr_array_index(mounts, i);
        IpbBlobMount row = {
            .kind = mount->kind,
            .source = add_string(blob, mount->source),
            .target = add_string(blob, mount->target),
            .content = add_string(blob, mount->content),
            .content_size = mount->content != NULL ? (uint32_t) strlen(mount->content) : 0,
            .is_denial = mount->is_denial,
            .size_bytes = mount->size_bytes,
        };
        g_array_append_val(rows, row);
    }
    return add_table(blob, rows->data, sizeof(IpbBlobMount), rows->len);
}

static IpbBlobTable
add_listeners(GByteArray *blob, const IpbSandboxPlan *plan, uint32_t *flags)
{
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(IpbBlobListener));
    for (guint i = 0; i < plan->listeners->len; i++) {
        const IpbPlanListener *listener = &g_array_index(plan->listeners, IpbPlanListener, i);
        IpbBlobListener row = {.is_udp = listener->kind == IPB_LISTENER_DNS_UDP,
                               .is_any_address = listener->is_any_address,
                               .port = listener->port};
        if (listener->is_any_address)
            *flags |= IPB_BLOB_ANY_ADDRESS;
        g_array_append_val(rows, row);
    }
    return add_table(blob, rows->data, sizeof(IpbBlobListener), rows->len);
}

/* What Linux counts for each user is limited to this part of what we may have, so that one sandbox
 * leaves most of it to others. */
#define PART_OF_OURS 4
/* At most this many, even if we may have far more. A watcher of files needs one instance, and one
 * watch for each directory. */
#define MAX_INOTIFY_INSTANCES 64
#define MAX_INOTIFY_WATCHES 65536
/* Queued signals and POSIX timers. Programs have few; Go has one timer for each thread that it
 * measures. */
#define MAX_PENDING_SIGNALS 1024
/* Memory that is never swapped out. Programs that keep secrets need at most this little. */
#define SMALL_MEMLOCK (UINT64_C(64) << 10)
#define MAX_MEMLOCK (UINT64_C(8) << 20)
#define MAX_MESSAGE_QUEUE_BYTES 819200 /* Linux' default for a user */

/* Returns a part of what the file in /proc says, but not more than @max. */
static uint32_t
part_of_sysctl(const char *path, uint32_t max)
{
    g_autofree char *text = NULL;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return max;
    return (uint32_t) MIN(g_ascii_strtoull(text, NULL, 10) / PART_OF_OURS, max);
}

static uint64_t
hard_limit(int resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 ? limit.rlim_max : RLIM_INFINITY;
}

static uint64_t
part_of_limit(int resource, uint64_t max)
{
    return CLAMP(hard_limit(resource) / PART_OF_OURS, 1, max);
}

static IpbBlobTable
add_counters(GByteArray *blob)
{
    /* Code inside can make no namespaces, see seccomp-table.c. This is a second wall. */
    static const char *const NONE[] = {
        "max_cgroup_namespaces", "max_ipc_namespaces",  "max_mnt_namespaces", "max_net_namespaces",
        "max_pid_namespaces",    "max_time_namespaces", "max_uts_namespaces", "max_user_namespaces",
        "max_fanotify_groups",   "max_fanotify_marks",
    };
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(IpbBlobCounter));
    for (size_t i = 0; i < G_N_ELEMENTS(NONE); i++)
        g_array_append_val(rows, ((IpbBlobCounter){add_string(blob, NONE[i]), 0}));
    const IpbBlobCounter inotify[] = {
        {add_string(blob, "max_inotify_instances"),
         part_of_sysctl("/proc/sys/fs/inotify/max_user_instances", MAX_INOTIFY_INSTANCES)},
        {add_string(blob, "max_inotify_watches"),
         part_of_sysctl("/proc/sys/fs/inotify/max_user_watches", MAX_INOTIFY_WATCHES)},
    };
    g_array_append_vals(rows, inotify, G_N_ELEMENTS(inotify));
    return add_table(blob, rows->data, sizeof(IpbBlobCounter), rows->len);
}

static void
add_limit(GArray *rows, int resource, uint64_t soft, uint64_t hard)
{
    IpbBlobLimit row = {.resource = (uint32_t) resource, .soft = soft, .hard = hard};
    if (soft > 0)
        g_array_append_val(rows, row);
}

static IpbBlobTable
add_limits(GByteArray *blob, const IpbSandboxLimits *limits, bool is_weaker)
{
    g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(IpbBlobLimit));
    /* Not RLIMIT_AS: runtimes reserve far more address space than they use. */
    add_limit(rows, RLIMIT_DATA, limits->memory_bytes, limits->memory_bytes);
    /* Linux counts them in the sandbox, and with the user's other processes, which get half. */
    uint64_t processes = MIN(limits->processes, hard_limit(RLIMIT_NPROC) / 2);
    /* Without a user namespace this would count processes that the user runs elsewhere. */
    if (!is_weaker)
        add_limit(rows, RLIMIT_NPROC, processes, processes);
    add_limit(rows, RLIMIT_CPU, limits->cpu_s, limits->cpu_s + CPU_GRACE_S);
    /* At most half of ours. Linux refuses to send descriptors if more of this user are in flight
     * than the sender may open: code inside cannot fill our half. Where we have few, programs
     * inside need them more. */
    uint64_t hard_files = hard_limit(RLIMIT_NOFILE);
    uint64_t open_files = MIN(limits->open_files, MAX(hard_files / 2, MIN(hard_files, FEW_FILES)));
    add_limit(rows, RLIMIT_NOFILE, open_files, open_files);
    add_limit(rows, RLIMIT_FSIZE, limits->file_bytes, limits->file_bytes);
    uint64_t signals = part_of_limit(RLIMIT_SIGPENDING, MAX_PENDING_SIGNALS);
    uint64_t queues = part_of_limit(RLIMIT_MSGQUEUE, MAX_MESSAGE_QUEUE_BYTES);
    uint64_t locked = MAX(part_of_limit(RLIMIT_MEMLOCK, MAX_MEMLOCK), SMALL_MEMLOCK);
    add_limit(rows, RLIMIT_SIGPENDING, signals, signals);
    add_limit(rows, RLIMIT_MSGQUEUE, queues, queues);
    add_limit(rows, RLIMIT_MEMLOCK, locked, locked);
    /* 1, not 0: if the host pipes core dumps to a program, a limit of 0 still starts that program,
     * with data that code inside chose. */
    add_limit(rows, RLIMIT_CORE, 1, 1);
    return add_table(blob, rows->data, sizeof(IpbBlobLimit), rows->len);
}

/* Is a variable with the name of @entry, "NAME=value", in @environment? */
static bool
is_set_in(const char *entry, char *const *environment)
{
    size_t size = strcspn(entry, "=");
    for (; environment != NULL && *environment != NULL; environment++)
        if (strncmp(entry, *environment, size) == 0 && (*environment)[size] == '=')
            return true;
    return false;
}

static bool
is_unset(const char *entry, char *const *names)
{
    size_t size = strcspn(entry, "=");
    for (; names != NULL && *names != NULL; names++)
        if (strncmp(entry, *names, size) == 0 && (*names)[size] == '\0')
            return true;
    return false;
}

/* Returns the command's environment without the variables that the plan unsets, and with those that
 * it sets. */
static char **
merge_environment(const char *const *env, const IpbSandboxPlan *plan)
{
    char *const *plan_env = plan->environment;
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (; env != NULL && *env != NULL; env++)
        if (!is_set_in(*env, plan_env) && !is_unset(*env, plan->unset))
            g_strv_builder_add(builder, *env);
    for (; plan_env != NULL && *plan_env != NULL; plan_env++)
        g_strv_builder_add(builder, *plan_env);
    return g_strv_builder_end(builder);
}

static IpbBlobTable
add_filter(GByteArray *blob, GBytes *filter)
{
    return add_table(blob, g_bytes_get_data(filter, NULL), sizeof(struct sock_filter),
                     g_bytes_get_size(filter) / sizeof(struct sock_filter));
}

static bool
add_filters(GByteArray *blob, IpbBlobHeader *header, bool denies_reading, GError **error)
{
    bool is_restricted = (header->flags & IPB_BLOB_CONNECT) != 0;
    bool has_network = (header->flags & IPB_BLOB_WEAKER) == 0;
    unsigned connect = is_restricted ? IPB_NOTIFY_CONNECT : 0;
    unsigned names = IPB_NOTIFY_NAMES | (denies_reading ? IPB_NOTIFY_READS : 0);
    g_autoptr(GBytes) filter = ipb_seccomp_filter(is_restricted, has_network, error);
    g_autoptr(GBytes) judged =
        filter != NULL ? ipb_seccomp_filter_notify(connect | names, error) : NULL;
    g_autoptr(GBytes) unnamed = judged != NULL ? ipb_seccomp_filter_notify(connect, error) : NULL;
    g_autoptr(GBytes) init = unnamed != NULL ? ipb_seccomp_filter_init(error) : NULL;
    if (init == NULL)
        return false;
    header->filter = add_filter(blob, filter);
    header->names_filter = add_filter(blob, judged);
    header->connect_filter = add_filter(blob, unnamed);
    header->init_filter = add_filter(blob, init);
    return true;
}

static void
set_user(IpbBlobHeader *header, const IpbSandboxUser *user)
{
    header->inner_uid = user->inner_uid;
    header->inner_gid = user->inner_gid;
    header->outer_uid = user->outer_uid;
    header->outer_gid = user->outer_gid;
    if (user->is_root_mapped)
        header->flags |= IPB_BLOB_MAP_ROOT;
}

static int
seal(const GByteArray *blob, GError **error)
{
    ipb_autofd fd = memfd_create("ipybox-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        ipb_error_set_errno(error, errno, "cannot make a memory file");
        return -1;
    }
    if (!ipb_fd_write_all(fd, blob->data, blob->len, error))
        return -1;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        ipb_error_set_errno(error, errno, "cannot seal the plan");
        return -1;
    }
    return ipb_fd_steal(&fd);
}

int
ipb_blob_new(const IpbSandboxOptions *options, const GPtrArray *mounts, const IpbSandboxUser *user,
             bool is_weaker, GError **error)
{
    const IpbSandboxPlan *plan = options->plan;
    IpbBlobHeader header = {.magic = IPB_BLOB_MAGIC, .oom_score_adj = OOM_SCORE};
    g_autoptr(GByteArray) blob = g_byte_array_new();
    g_byte_array_append(blob, (const uint8_t *) &header, sizeof header);
    g_auto(GStrv) env = merge_environment(options->env, plan);
    set_user(&header, user);
    if (options->is_group_kept)
        header.flags |= IPB_BLOB_KEEP_GROUP;
    if (!plan->policy->allow_all_unix_sockets)
        header.flags |= IPB_BLOB_CONNECT;
    header.flags |= is_weaker ? IPB_BLOB_WEAKER : IPB_BLOB_NAMES;
    header.hostname = add_string(blob, HOST_NAME);
    header.cwd = add_string(blob, options->cwd);
    header.argv = add_strings(blob, options->argv);
    header.env = add_strings(blob, (const char *const *) env);
    header.listeners = add_listeners(blob, plan, &header.flags);
    header.limits = add_limits(blob, &plan->limits, is_weaker);
    header.counters = add_counters(blob);
    header.mounts = add_mounts(blob, mounts);
    if (!add_filters(blob, &header, ipb_sandbox_plan_denies_reading(plan), error))
        return -1;
    g_byte_array_append(blob, (const uint8_t *) "", 1);
    header.size = blob->len;
    memcpy(blob->data, &header, sizeof header);
    if (blob->len > IPB_BLOB_MAX_SIZE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "command, environment and plan of the sandbox have %u bytes, more than %u",
                    blob->len, IPB_BLOB_MAX_SIZE);
        return -1;
    }
    return seal(blob, error);
}
