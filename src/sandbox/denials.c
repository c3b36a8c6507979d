/* SPDX-License-Identifier: Apache-2.0
 *
 * Denials in groups; see the header. Time is divided into periods. Groups last for one period,
 * what is known about paths until the next flush.
 */
#include "sandbox/denials.h"

#include <string.h>

#include "base/display-text.h"
#include "sandbox/path.h"

/* From the first denial of a period to its reports: at first, and while denials continue. */
#define MIN_PERIOD_MS 1000
#define MAX_PERIOD_MS 64000
/* Groups of one period. Denials that belong to no group are counted. */
#define MAX_GROUPS 32
/* Paths that a report names. The others are counted. */
#define MAX_SHOWN_PATHS 3
/* Paths that are recognized when they are denied again. If there are more, all are forgotten. */
#define MAX_KNOWN_PATHS 4096
/* Bytes of a path that are shown: its end. */
#define MAX_PATH_SIZE 200
#define MAX_REASON_SIZE 300

/* What was tried. */
typedef enum { DEED_READ, DEED_WRITE, DEED_CREATE, DEED_PUT, DEED_REMOVE, DEED_CONNECT } Deed;

typedef struct {
    const IpbNameRule *rule;
    char *given_reason; /* of the denials, as it is */
    Deed deed;          /* of the first denial */
    int pid;            /* likewise */
    char *process;      /* likewise, for people; NULL: not known */
    bool has_others;    /* further processes */
    GPtrArray *shown;   /* char *, for people */
    unsigned n_more;
} Group;

struct IpbDenials {
    IpbLoop *loop;
    char *workspace;
    void (*on_report)(const IpbDenialReport *report, void *data);
    void *data;
    GQueue groups;           /* Group */
    unsigned n_ungrouped;    /* of this period */
    GHashTable *known_paths; /* hashes of paths, with the kind of the action */
    GHashTable *known_names; /* hashes of their last components */
    unsigned period_ms;
    int64_t last_report; /* monotonic time */
    IpbTimer *timer;
};

/* --- texts ------------------------------------------------------------------------------------ */

static const struct {
    const char *what, *verb;
    const char *no_rule; /* the reason if there is no rule, which may be followed by another */
    const char *key;     /* that can allow it then */
} DEEDS[] = {
    [DEED_READ] = {"file-read", "read", "the sandbox hides it", "filesystem.allowRead"},
    [DEED_WRITE] = {"file-write", "write", "the sandbox does not write there",
                    "filesystem.allowWrite"},
    [DEED_CREATE] = {"file-create", "create", "the sandbox does not write there",
                     "filesystem.allowWrite"},
    [DEED_PUT] = {"file-create", "create or replace", "the sandbox does not write there",
                  "filesystem.allowWrite"},
    [DEED_REMOVE] = {"file-remove", "remove or rename", "the sandbox does not write there",
                     "filesystem.allowWrite"},
    [DEED_CONNECT] = {"unix-connect", "connect to the socket",
                      "sockets of the host cannot be reached", "network.allowUnixSockets"},
};

static Deed
deed_of(const IpbSandboxDenial *denial)
{
    static const Deed OF_NAMES[] = {
        [IPB_NAME_READ] = DEED_READ,     [IPB_NAME_WRITE] = DEED_WRITE,
        [IPB_NAME_CREATE] = DEED_CREATE, [IPB_NAME_PUT] = DEED_PUT,
        [IPB_NAME_REMOVE] = DEED_REMOVE,
    };
    return denial->kind == IPB_DENIED_SOCKET ? DEED_CONNECT : OF_NAMES[denial->action];
}

/* Different deeds that belong to one group have the same class. */
static Deed
class_of(Deed deed)
{
    return deed == DEED_READ || deed == DEED_CONNECT ? deed : DEED_WRITE;
}

/* Is it clear where @text begins and ends in a sentence, and does it look like what it is? */
static bool
is_plain(const char *text, const char *quoted)
{
    size_t size = strlen(text);
    return size > 0 && strlen(quoted) == size + 2 && memcmp(quoted + 1, text, size) == 0 &&
           strpbrk(text, " ,:;()'") == NULL;
}

/* @text: hostile. Quotes it only if needed: paths are read more easily without. */
static void
append_hostile(GString *out, const char *text)
{
    g_autoptr(GString) quoted = g_string_new(NULL);
    ipb_display_text_quote(quoted, text, strlen(text));
    g_string_append(out, is_plain(text, quoted->str) ? text : quoted->str);
}

/* The end of @path, because it says more than the beginning. */
static const char *
cut(const char *path)
{
    size_t size = strlen(path);
    if (size <= MAX_PATH_SIZE)
        return path;
    const char *end = path + size - MAX_PATH_SIZE;
    while (((unsigned char) *end & 0xc0) == 0x80)
        end++;
    return end;
}

static char *
describe_path(const char *path, const char *workspace)
{
    if (ipb_path_is_below(path, workspace) && !g_str_equal(workspace, "/"))
        path += strlen(workspace) + 1;
    const char *shown = cut(path);
    GString *text = g_string_new(shown != path ? "…" : NULL);
    append_hostile(text, shown);
    return g_string_free(text, FALSE);
}

static char *
describe_process(const IpbSandboxDenial *denial)
{
    if (denial->process[0] == '\0')
        return denial->pid > 0 ? g_strdup_printf("process %d", denial->pid) : NULL;
    GString *text = g_string_new(NULL);
    append_hostile(text, denial->process);
    if (denial->pid > 0)
        g_string_append_printf(text, " (process %d)", denial->pid);
    return g_string_free(text, FALSE);
}

/* @given is ours, but may quote code inside. */
static void
append_given(GString *text, const char *given)
{
    g_autofree char *valid = g_utf8_make_valid(given, -1);
    g_autofree char *printable = ipb_display_text_printable(valid);
    for (char *c = printable; *c != '\0'; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    g_string_append(text, printable);
    if (text->len > MAX_REASON_SIZE) {
        size_t end = MAX_REASON_SIZE;
        while (((unsigned char) text->str[end] & 0xc0) == 0x80)
            end--;
        g_string_truncate(text, end);
        g_string_append(text, "…");
    }
}

static char *
describe_reason(const Group *group)
{
    const IpbNameRule *rule = group->rule;
    GString *text = g_string_new(NULL);
    if (rule == NULL) {
        g_string_append(text, DEEDS[group->deed].no_rule);
        if (*group->given_reason != '\0') {
            g_string_append(text, " (");
            append_given(text, group->given_reason);
            g_string_append_c(text, ')');
        }
        g_string_append_printf(text, "; %s can allow it", DEEDS[group->deed].key);
        return g_string_free(text, FALSE);
    }
    g_string_append_printf(text, "%s (rule \"%s\")", rule->who, rule->pattern);
    if (*group->given_reason != '\0') {
        g_string_append(text, ": ");
        append_given(text, group->given_reason);
    }
    if (rule->key != NULL && *rule->key != '\0')
        g_string_append_printf(text, "; filesystem.%s can allow it", rule->key);
    return g_string_free(text, FALSE);
}

static char *
describe_targets(const Group *group)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < group->shown->len; i++) {
        bool is_last = i > 0 && i + 1 == group->shown->len && group->n_more == 0;
        g_string_append(text, i == 0 ? "" : is_last ? " and " : ", ");
        g_string_append(text, g_ptr_array_index(group->shown, i));
    }
    if (group->n_more > 0)
        g_string_append_printf(text, " and %u more", group->n_more);
    return g_string_free(text, FALSE);
}

static char *
describe_group(const Group *group, const char *targets, const char *reason)
{
    return g_strdup_printf(
        "%s%s may not %s %s: %s", group->process != NULL ? group->process : "code inside",
        group->has_others ? " and others" : "", DEEDS[group->deed].verb, targets, reason);
}

/* --- groups ----------------------------------------------------------------------------------- */

static void
free_group(Group *group)
{
    g_ptr_array_unref(group->shown);
    g_free(group->process);
    g_free(group->given_reason);
    g_free(group);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Group, free_group)

static bool
belongs(const Group *group, const IpbSandboxDenial *denial)
{
    return group->rule == denial->rule && class_of(group->deed) == class_of(deed_of(denial)) &&
           g_str_equal(group->given_reason, denial->reason);
}

static Group *
make_group(const IpbSandboxDenial *denial)
{
    Group *group = g_new0(Group, 1);
    *group = (Group){
        .rule = denial->rule,
        .given_reason = g_strdup(denial->reason),
        .deed = deed_of(denial),
        .pid = denial->pid,
        .process = describe_process(denial),
        .shown = g_ptr_array_new_with_free_func(g_free),
    };
    return group;
}

static void
add_to_group(Group *group, const IpbSandboxDenial *denial, const char *workspace)
{
    if (denial->pid != group->pid)
        group->has_others = true;
    if (group->shown->len < MAX_SHOWN_PATHS)
        g_ptr_array_add(group->shown, describe_path(denial->path, workspace));
    else
        group->n_more++;
}

/* NULL: there are too many. */
static Group *
find_group(IpbDenials *denials, const IpbSandboxDenial *denial)
{
    for (GList *item = denials->groups.head; item != NULL; item = item->next)
        if (belongs(item->data, denial))
            return item->data;
    if (denials->groups.length >= MAX_GROUPS)
        return NULL;
    Group *group = make_group(denial);
    g_queue_push_tail(&denials->groups, group);
    return group;
}

char *
ipb_denial_to_text(const IpbSandboxDenial *denial, const char *workspace)
{
    g_autoptr(Group) group = make_group(denial);
    add_to_group(group, denial, workspace);
    g_autofree char *targets = describe_targets(group);
    g_autofree char *reason = describe_reason(group);
    return describe_group(group, targets, reason);
}

/* --- reports ---------------------------------------------------------------------------------- */

static void
report_group(IpbDenials *denials, const Group *group)
{
    g_autofree char *targets = describe_targets(group);
    g_autofree char *reason = describe_reason(group);
    g_autofree char *text = describe_group(group, targets, reason);
    const IpbDenialReport report = {
        .what = DEEDS[group->deed].what,
        .process = group->process,
        .targets = targets,
        .reason = reason,
        .text = text,
    };
    denials->on_report(&report, denials->data);
}

static void
report_ungrouped(IpbDenials *denials)
{
    g_autofree char *text =
        g_strdup_printf("%u more calls were refused, for too many different reasons to report",
                        denials->n_ungrouped);
    denials->n_ungrouped = 0;
    const IpbDenialReport report = {
        .what = "file-write",
        .targets = "(several)",
        .reason = text,
        .text = text,
    };
    denials->on_report(&report, denials->data);
}

static bool
has_report(const IpbDenials *denials)
{
    return denials->groups.length > 0 || denials->n_ungrouped > 0;
}

static void
report_next(IpbDenials *denials)
{
    g_autoptr(Group) group = g_queue_pop_head(&denials->groups);
    if (group != NULL)
        report_group(denials, group);
    else
        report_ungrouped(denials);
}

/* One at a time, because on_report may free the object. */
static void
on_timer(void *data)
{
    IpbDenials *denials = data;
    g_clear_pointer(&denials->timer, ipb_timer_free);
    denials->last_report = g_get_monotonic_time();
    if (denials->groups.length + (denials->n_ungrouped > 0) > 1)
        denials->timer = ipb_timer_new(denials->loop, 0, on_timer, denials);
    report_next(denials);
}

static void
start_period(IpbDenials *denials)
{
    int64_t quiet = (g_get_monotonic_time() - denials->last_report) / 1000;
    bool is_flood = denials->last_report > 0 && quiet < denials->period_ms;
    denials->period_ms = is_flood ? MIN(denials->period_ms * 2, MAX_PERIOD_MS) : MIN_PERIOD_MS;
    denials->timer = ipb_timer_new(denials->loop, denials->period_ms, on_timer, denials);
}

void
ipb_denials_flush(IpbDenials *denials)
{
    g_clear_pointer(&denials->timer, ipb_timer_free);
    while (has_report(denials))
        report_next(denials);
    g_hash_table_remove_all(denials->known_paths);
    g_hash_table_remove_all(denials->known_names);
    denials->last_report = 0;
}

/* --- what is known ---------------------------------------------------------------------------- */

static void *
hash_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return GUINT_TO_POINTER(g_str_hash(slash != NULL ? slash + 1 : path));
}

/* Is it new? */
static bool
remember(IpbDenials *denials, const IpbSandboxDenial *denial)
{
    /* A file may be refused for several reasons, one after the other. */
    g_autofree char *key =
        g_strdup_printf("%d %s %s", class_of(deed_of(denial)), denial->reason, denial->path);
    guint hash = g_str_hash(key);
    if (g_hash_table_contains(denials->known_paths, GUINT_TO_POINTER(hash)))
        return false;
    if (g_hash_table_size(denials->known_paths) >= MAX_KNOWN_PATHS) {
        g_hash_table_remove_all(denials->known_paths);
        g_hash_table_remove_all(denials->known_names);
    }
    g_hash_table_add(denials->known_paths, GUINT_TO_POINTER(hash));
    g_hash_table_add(denials->known_names, hash_name(denial->path));
    return true;
}

bool
ipb_denials_has_name(const IpbDenials *denials, const char *path)
{
    return g_hash_table_contains(denials->known_names, hash_name(path));
}

void
ipb_denials_add(IpbDenials *denials, const IpbSandboxDenial *denial)
{
    if (!remember(denials, denial))
        return;
    if (denials->timer == NULL)
        start_period(denials);
    Group *group = find_group(denials, denial);
    if (group != NULL)
        add_to_group(group, denial, denials->workspace);
    else
        denials->n_ungrouped++;
}

/* --- life ------------------------------------------------------------------------------------- */

IpbDenials *
ipb_denials_new(IpbLoop *loop, const char *workspace,
                void (*on_report)(const IpbDenialReport *report, void *data), void *data)
{
    IpbDenials *denials = g_new0(IpbDenials, 1);
    denials->loop = ipb_loop_ref(loop);
    denials->workspace = g_strdup(workspace);
    denials->on_report = on_report;
    denials->data = data;
    g_queue_init(&denials->groups);
    denials->known_paths = g_hash_table_new(NULL, NULL);
    denials->known_names = g_hash_table_new(NULL, NULL);
    return denials;
}

void
ipb_denials_free(IpbDenials *denials)
{
    if (denials == NULL)
        return;
    ipb_timer_free(denials->timer);
    g_queue_clear_full(&denials->groups, (GDestroyNotify) free_group);
    g_hash_table_unref(denials->known_paths);
    g_hash_table_unref(denials->known_names);
    g_free(denials->workspace);
    ipb_loop_unref(denials->loop);
    g_free(denials);
}
