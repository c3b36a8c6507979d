/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls that the tables do not name are allowed, up to the last one that was considered when
 * the tables were written. Newer calls do not exist inside. Other instruction sets (32-bit, x32) do
 * not exist either.
 */
#include "sandbox/linux/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/linux/init/protocol.h"
#include "sandbox/linux/seccomp-table.h"

/* Of Linux 6.18: file_setattr. Since 424 all architectures use the same numbers. */
#define LAST_KNOWN_CALL 469
/* The kernel itself refuses families above. */
#define MAX_FAMILY 63
#define MAX_NETLINK_PROTOCOL 63
#define ALL_32 UINT64_C(0xffffffff)
#define SOCK_TYPE_MASK 0xf
#define MAX_FILTER_BYTES (4096 * sizeof(struct sock_filter))

typedef struct {
    scmp_filter_ctx context;
    int failure; /* negative errno of the first rule that failed */
} Filter;

static void
add(Filter *filter, const char *name, int number, int errno_value, unsigned n,
    const struct scmp_arg_cmp *arguments)
{
    int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR && number > 0)
        call = number;
    if (call < 0) /* not on this architecture */
        return;
    int result =
        seccomp_rule_add_array(filter->context, SCMP_ACT_ERRNO(errno_value), call, n, arguments);
    if (result < 0 && filter->failure == 0)
        filter->failure = result;
}

static struct scmp_arg_cmp
equals(unsigned argument, uint64_t mask, uint64_t value)
{
    return (struct scmp_arg_cmp){argument, SCMP_CMP_MASKED_EQ, mask, value};
}

static void
deny_calls(Filter *filter)
{
    for (size_t i = 0; i < IPB_N_DENIED_CALLS; i++)
        add(filter, IPB_DENIED_CALLS[i].name, IPB_DENIED_CALLS[i].number,
            IPB_DENIED_CALLS[i].errno_value, 0, NULL);
}

static void
deny_arguments(Filter *filter)
{
    for (size_t i = 0; i < IPB_N_DENIED_ARGUMENTS; i++) {
        const IpbDeniedArgument *row = &IPB_DENIED_ARGUMENTS[i];
        const struct scmp_arg_cmp conditions[] = {
            equals(row->argument, row->mask, row->value),
            equals(row->other_argument, row->other_mask, row->other_value),
        };
        add(filter, row->name, row->number, row->errno_value, row->other_mask != 0 ? 2 : 1,
            conditions);
    }
}

static bool
is_allowed_family(int family)
{
    for (size_t i = 0; i < IPB_N_ALLOWED_FAMILIES; i++)
        if (IPB_ALLOWED_FAMILIES[i].family == family)
            return true;
    return false;
}

static void
deny_families(Filter *filter, bool has_network)
{
    for (int family = 0; family <= MAX_FAMILY; family++) {
        const struct scmp_arg_cmp is_family = equals(0, ALL_32, (uint64_t) family);
        if (has_network ? is_allowed_family(family) : family == AF_UNIX)
            continue;
        add(filter, "socket", 0, EAFNOSUPPORT, 1, &is_family);
        add(filter, "socketpair", 0, EAFNOSUPPORT, 1, &is_family);
    }
    for (int protocol = 0; protocol <= MAX_NETLINK_PROTOCOL; protocol++) {
        const struct scmp_arg_cmp conditions[] = {equals(0, ALL_32, AF_NETLINK),
                                                  equals(2, ALL_32, (uint64_t) protocol)};
        if (has_network && protocol != NETLINK_ROUTE)
            add(filter, "socket", 0, EPROTONOSUPPORT, 2, conditions);
    }
}

/* Programs send to a datagram socket without connect(), the only call about which the core is
 * asked. */
static void
deny_unix_datagrams(Filter *filter)
{
    for (int type = 0; type <= SOCK_TYPE_MASK; type++) {
        const struct scmp_arg_cmp conditions[] = {equals(0, ALL_32, AF_UNIX),
                                                  equals(1, SOCK_TYPE_MASK, (uint64_t) type)};
        if (type == SOCK_STREAM || type == SOCK_SEQPACKET)
            continue;
        add(filter, "socket", 0, EACCES, 2, conditions);
        add(filter, "socketpair", 0, EACCES, 2, conditions);
    }
}

/* Allowed are 0, a query (all bits set), and ADDR_NO_RANDOMIZE, which debuggers and `setarch -R`
 * set. Apart from that bit, all bits or none are set then. Every other value has a set bit whose
 * neighbour, in a ring, is not set. */
static void
deny_personalities(Filter *filter)
{
    int bits[32], n = 0;
    for (int bit = 0; bit < 32; bit++)
        if ((UINT64_C(1) << bit) != ADDR_NO_RANDOMIZE)
            bits[n++] = bit;
    for (int i = 0; i < n; i++) {
        uint64_t bit = UINT64_C(1) << bits[i], next = UINT64_C(1) << bits[(i + 1) % n];
        const struct scmp_arg_cmp condition = equals(0, bit | next, bit);
        add(filter, "personality", 0, EPERM, 1, &condition);
    }
    const struct scmp_arg_cmp all_but_one =
        equals(0, ALL_32, ALL_32 & ~(uint64_t) ADDR_NO_RANDOMIZE);
    add(filter, "personality", 0, EPERM, 1, &all_but_one);
}

/* Denies numbers above the last known one, which libseccomp cannot express. It comes first, before
 * the instruction set is checked; the answer is the same for all. */
static void
append_preamble(GByteArray *bytes)
{
    static const struct sock_filter PREAMBLE[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LAST_KNOWN_CALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    g_byte_array_append(bytes, (const uint8_t *) PREAMBLE, sizeof PREAMBLE);
}

static bool
append_export(GByteArray *bytes, scmp_filter_ctx context, GError **error)
{
    ipb_autofd fd = memfd_create("ipybox-filter", MFD_CLOEXEC);
    if (fd < 0)
        return ipb_error_set_errno(error, errno, "cannot make a memory file");
    IpbQuiet quiet;
    ipb_fd_begin_quiet(&quiet);
    int result = seccomp_export_bpf(context, fd);
    ipb_fd_end_quiet(&quiet, result < 0);
    if (result < 0)
        return ipb_error_set_errno(error, -result, "cannot make the seccomp filter");
    off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0 || (size_t) size + bytes->len > MAX_FILTER_BYTES)
        return ipb_error_set_errno(error, E2BIG, "the seccomp filter has %lld bytes",
                                   (long long) size);
    guint start = bytes->len;
    g_byte_array_set_size(bytes, start + (guint) size);
    if (pread(fd, bytes->data + start, (size_t) size, 0) != size)
        return ipb_error_set_errno(error, errno, "cannot read the seccomp filter");
    return true;
}

/* Takes @filter's context. */
static GBytes *
finish(Filter *filter, bool has_preamble, GError **error)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    if (has_preamble)
        append_preamble(bytes);
    bool ok = filter->failure == 0
                  ? append_export(bytes, filter->context, error)
                  : ipb_error_set_errno(error, -filter->failure, "cannot make the seccomp filter");
    seccomp_release(filter->context);
    return ok ? g_byte_array_free_to_bytes(g_steal_pointer(&bytes)) : NULL;
}

static bool
begin(Filter *filter, uint32_t action, GError **error)
{
    *filter = (Filter){.context = seccomp_init(action)};
    if (filter->context == NULL)
        return ipb_error_set_errno(error, ENOMEM, "cannot make the seccomp filter");
    filter->failure =
        seccomp_attr_set(filter->context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    /* A tree by number, instead of one row after the other: most calls match nothing. */
    if (filter->failure == 0)
        filter->failure = seccomp_attr_set(filter->context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return true;
}

static GBytes *
build(bool is_unix_restricted, bool has_network, GError **error)
{
    Filter filter;
    if (!begin(&filter, SCMP_ACT_ALLOW, error))
        return NULL;
    deny_calls(&filter);
    deny_arguments(&filter);
    deny_families(&filter, has_network);
    deny_personalities(&filter);
    if (is_unix_restricted)
        deny_unix_datagrams(&filter);
    return finish(&filter, true, error);
}

static void
notify(Filter *filter, const char *name, int number, unsigned n,
       const struct scmp_arg_cmp *arguments)
{
    int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR && number > 0)
        call = number;
    if (call < 0) /* not on this architecture */
        return;
    int result = seccomp_rule_add_array(filter->context, SCMP_ACT_NOTIFY, call, n, arguments);
    if (result < 0 && filter->failure == 0)
        filter->failure = result;
}

/* @argument: the index of the flags. */
static void
notify_open(Filter *filter, const char *name, unsigned argument, bool with_reads)
{
    static const uint64_t FLAGS[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE & ~O_DIRECTORY};
    for (size_t i = 0; i < G_N_ELEMENTS(FLAGS); i++) {
        /* With O_PATH all other flags mean nothing. */
        const struct scmp_arg_cmp condition = equals(argument, FLAGS[i] | O_PATH, FLAGS[i]);
        notify(filter, name, 0, 1, &condition);
    }
    /* To look a path up, or to list a directory, is not to read a file. */
    const struct scmp_arg_cmp is_read = equals(argument, O_PATH | O_DIRECTORY, 0);
    if (with_reads)
        notify(filter, name, 0, 1, &is_read);
}

/* Denies the ioctls of @type, except the numbers @allowed. They are in the low byte. The
 * rest of the command says how large its argument is. Halves the range until none of its numbers is
 * allowed. */
static void
deny_ioctls(Filter *filter, uint64_t type, const unsigned *allowed, size_t n_allowed,
            unsigned first, unsigned size)
{
    size_t n = 0;
    for (size_t i = 0; i < n_allowed; i++)
        n += allowed[i] >= first && allowed[i] < first + size ? 1 : 0;
    if (n == 0) {
        const struct scmp_arg_cmp condition =
            equals(1, 0xff00 | (0xff & ~(uint64_t) (size - 1)), type << 8 | first);
        add(filter, "ioctl", 0, EPERM, 1, &condition);
    } else if (size > 1) {
        deny_ioctls(filter, type, allowed, n_allowed, first, size / 2);
        deny_ioctls(filter, type, allowed, n_allowed, first + size / 2, size / 2);
    }
}

/* A program that restricts itself with Landlock would believe that it is restricted: but the
 * supervisor opens its files, and is not. Only a branch of a kernel makes a ruleset, which has no
 * rules for files, with a size that no other program uses. */
static void
deny_landlock(Filter *filter)
{
    const struct scmp_arg_cmp is_other = SCMP_A1(SCMP_CMP_NE, IPB_BRANCH_RULESET_SIZE);
    add(filter, "landlock_create_ruleset", 444, EOPNOTSUPP, 1, &is_other);
}

/* What makes or changes names without a call that could be judged. */
static void
deny_unjudged(Filter *filter)
{
    static const unsigned CLONES[] = {_IOC_NR(FICLONE), _IOC_NR(FICLONERANGE),
                                      _IOC_NR(FIDEDUPERANGE)};
    for (size_t i = 0; i < IPB_N_UNJUDGED_CALLS; i++)
        add(filter, IPB_UNJUDGED_CALLS[i].name, IPB_UNJUDGED_CALLS[i].number,
            IPB_UNJUDGED_CALLS[i].errno_value, 0, NULL);
    for (size_t i = 0; i < IPB_N_UNJUDGED_IOCTLS; i++) {
        const struct scmp_arg_cmp condition = equals(1, ALL_32, IPB_UNJUDGED_IOCTLS[i].command);
        add(filter, "ioctl", 0, EPERM, 1, &condition);
    }
    deny_landlock(filter);
    deny_ioctls(filter, IPB_IOCTL_TYPE_BTRFS, CLONES, G_N_ELEMENTS(CLONES), 0, 256);
    deny_ioctls(filter, IPB_IOCTL_TYPE_BCACHEFS, NULL, 0, 0, 256);
}

static GBytes *
build_notify(unsigned what, GError **error)
{
    Filter filter;
    if (!begin(&filter, SCMP_ACT_ALLOW, error))
        return NULL;
    if ((what & IPB_NOTIFY_CONNECT) != 0)
        notify(&filter, "connect", 0, 0, NULL);
    if ((what & IPB_NOTIFY_NAMES) != 0) {
        bool with_reads = (what & IPB_NOTIFY_READS) != 0;
        notify_open(&filter, "open", 1, with_reads);
        notify_open(&filter, "openat", 2, with_reads);
        for (size_t i = 0; i < IPB_N_JUDGED_CALLS; i++)
            notify(&filter, IPB_JUDGED_CALLS[i].name, IPB_JUDGED_CALLS[i].number, 0, NULL);
        deny_unjudged(&filter);
    }
    return finish(&filter, false, error);
}

static GBytes *
build_init(GError **error)
{
    Filter filter;
    if (!begin(&filter, SCMP_ACT_ERRNO(EPERM), error))
        return NULL;
    for (size_t i = 0; i < IPB_N_INIT_CALLS; i++) {
        int call = seccomp_syscall_resolve_name(IPB_INIT_CALLS[i]);
        if (call >= 0 && filter.failure == 0)
            filter.failure = seccomp_rule_add(filter.context, SCMP_ACT_ALLOW, call, 0);
    }
    return finish(&filter, false, error);
}

/* --- kept ------------------------------------------------------------------------------------- */

/* libseccomp needs most of a millisecond for a filter, which depends on its kind only. So each kind
 * is made once in a process, and never changes. */
static GMutex lock;
static GBytes *kept[4 + IPB_NOTIFY_ALL + 1 + 1];

enum {
    KIND_NOTIFY = 4, /* the kinds before it are those of ipb_seccomp_filter(), by its arguments */
    KIND_INIT = KIND_NOTIFY + IPB_NOTIFY_ALL + 1,
};

static GBytes *
make(unsigned kind, GError **error)
{
    if (kind == KIND_INIT)
        return build_init(error);
    return kind >= KIND_NOTIFY ? build_notify(kind - KIND_NOTIFY, error)
                               : build((kind & 1) != 0, (kind & 2) != 0, error);
}

static GBytes *
get(unsigned kind, GError **error)
{
    g_mutex_lock(&lock);
    if (kept[kind] == NULL)
        kept[kind] = make(kind, error);
    GBytes *filter = kept[kind] != NULL ? g_bytes_ref(kept[kind]) : NULL;
    g_mutex_unlock(&lock);
    return filter;
}

GBytes *
ipb_seccomp_filter(bool is_unix_restricted, bool has_network, GError **error)
{
    return get((is_unix_restricted ? 1 : 0) + (has_network ? 2 : 0), error);
}

GBytes *
ipb_seccomp_filter_notify(unsigned what, GError **error)
{
    return get(KIND_NOTIFY + what, error);
}

GBytes *
ipb_seccomp_filter_init(GError **error)
{
    return get(KIND_INIT, error);
}
