/* SPDX-License-Identifier: Apache-2.0
 *
 * Sandboxed sessions; see the header.
 */
#include "session/sandboxing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/display-text.h"
#include "command/known-paths.h"
#include "egress/egress.h"
#include "json/writer.h"
#include "sandbox/denials.h"
#include "sandbox/path.h"
#include "session/installation-paths.h"
#include "tools/tool-door.h"

struct IpbSandboxing {
    IpbLoop *loop;
    IpbSandboxPolicy *policy;
    char *workspace;
    bool makes_packages;
    char **keep;     /* what a kernel needs to read */
    char **keep_out; /* what would let a cell change its next sandbox */
    char *hidden;    /* the registry: parameters of servers may contain secrets */
    IpbRegistry *registry;
    IpbToolChannel *tool_channel;
    IpbStagedWorkspace *staged; /* or NULL */
    void (*on_log)(const char *level, const char *text, void *data);
    void (*on_violation)(const char *text, void *data);
    void *data;
    IpbSandboxPlan *plan; /* of the sandbox that exists, or is being made */
    struct Reach *reach;  /* of the sandbox that exists; or NULL */
    IpbDenials *denials;  /* NULL: no plan was made yet */
    bool has_warned, has_warned_unnamed;
};

/* What serves the code in one sandbox. The sessions whose kernels are in it share it: one session,
 * and those that were forked from it. It ends with the sandbox, maybe after some of them. */
typedef struct Reach {
    IpbSandboxPlan *plan;
    IpbEgress *egress; /* or NULL */
    IpbToolDoor *door; /* or NULL */
    GPtrArray *owners; /* IpbSandboxing, borrowed: the first one gets what is reported */
} Reach;

static void
warn(const IpbSandboxing *sandboxing, const char *text)
{
    g_autofree char *line = g_strconcat("sandbox: ", text, NULL);
    if (sandboxing->on_log != NULL)
        sandboxing->on_log("warning", line, sandboxing->data);
}

/* A named file that does not exist is an error: the default may allow what the file would deny. */
static IpbSandboxPolicy *
load_policy(const char *path, const char *workspace, GError **error)
{
    if (path == NULL)
        return ipb_sandbox_policy_default();
    g_autoptr(GError) cause = NULL;
    IpbSandboxPolicy *policy = ipb_sandbox_policy_load(workspace, path, &cause);
    if (g_error_matches(cause, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "the sandbox configuration %s does not exist: create it, or leave the option "
                    "out for the "
                    "default",
                    path);
    else if (cause != NULL)
        g_propagate_error(error, g_steal_pointer(&cause));
    return policy;
}

IpbSandboxing *
ipb_sandboxing_new(IpbLoop *loop, const IpbSandboxingOptions *options, GError **error)
{
    IpbSandboxing *sandboxing = g_new0(IpbSandboxing, 1);
    *sandboxing = (IpbSandboxing){
        .loop = ipb_loop_ref(loop),
        .workspace = g_strdup(options->workspace),
        .makes_packages = options->makes_packages,
        .keep = ipb_installation_paths_needed(options->python, options->host_directory),
        .keep_out = g_strdupv((char **) options->keep_out),
        .hidden = g_strdup(options->state_dir),
        .registry = options->registry,
        .tool_channel = options->tool_channel,
        .staged = options->staged,
        .on_log = options->on_log,
        .on_violation = options->on_violation,
        .data = options->data,
    };
    sandboxing->policy = load_policy(options->config, options->workspace, error);
    if (sandboxing->policy == NULL ||
        (options->limits != NULL &&
         !ipb_sandbox_policy_set_limits(sandboxing->policy, options->limits, error)) ||
        (options->allowed_domains != NULL &&
         !ipb_sandbox_policy_allow_domains(sandboxing->policy, options->allowed_domains, error)))
        g_clear_pointer(&sandboxing, ipb_sandboxing_free);
    return sandboxing;
}

/* Once for a session: the warnings of the next kernel are the same. */
static void
show_warnings(IpbSandboxing *sandboxing, const IpbSandboxPlan *plan)
{
    for (guint i = 0; !sandboxing->has_warned && i < plan->warnings->len; i++)
        warn(sandboxing, g_ptr_array_index(plan->warnings, i));
    sandboxing->has_warned = true;
}

static void
on_denials(const IpbDenialReport *report, void *data)
{
    const IpbSandboxing *sandboxing = data;
    g_autofree char *text = g_strconcat("operation not permitted: ", report->text, NULL);
    sandboxing->on_violation(text, sandboxing->data);
}

/* A link in place of the directory is not followed. Then servers cannot be registered, which fails
 * with the same words, but cells may run. */
static bool
make_packages(const IpbSandboxing *sandboxing, const char *path, GError **error)
{
    g_autoptr(GError) failure = NULL;
    g_autoptr(IpbBeneath) packages =
        ipb_beneath_open_in(sandboxing->workspace, path, 0755, &failure);
    if (packages != NULL)
        return true;
    if (g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED)) {
        warn(sandboxing, failure->message);
        return true;
    }
    g_propagate_error(error, g_steal_pointer(&failure));
    return false;
}

/* Before code inside runs, which may put something into an environment. */
static void
note_writable(const IpbSandboxing *sandboxing, const IpbSandboxPlan *plan)
{
    g_autoptr(GError) error = NULL;
    if (ipb_known_paths_add_plan(sandboxing->hidden, plan, &error))
        return;
    g_autofree char *text =
        g_strdup_printf("later sessions do not know what cells can write: %s", error->message);
    warn(sandboxing, text);
}

static IpbSandboxPlan *
make_plan_with(IpbSandboxing *sandboxing, bool has_tools, GError **error)
{
    g_autofree char *tools = g_build_filename(sandboxing->workspace, "mcptools", NULL);
    if (sandboxing->makes_packages && !make_packages(sandboxing, tools, error))
        return NULL;
    /* The plan protects what exists. A directory that is created later would be treated as the
     * cell's. If we cannot create it, a cell cannot either. */
    ipb_file_make_directories(sandboxing->hidden, 0700, NULL);
    const char *layer =
        sandboxing->staged != NULL ? ipb_staged_workspace_directory(sandboxing->staged) : NULL;
    if (layer != NULL)
        ipb_staged_workspace_prepare(sandboxing->staged);
    g_autofree char *place = layer != NULL ? g_path_get_dirname(layer) : NULL;
    const char *const hide[] = {sandboxing->hidden, place, NULL};
    /* Other sessions may have made packages, and used environments, since the last kernel. */
    g_auto(GStrv) packages =
        ipb_installation_paths_packages(sandboxing->registry, sandboxing->workspace, error);
    g_auto(GStrv) environments =
        packages != NULL
            ? ipb_known_paths_environments(sandboxing->hidden, sandboxing->workspace, error)
            : NULL;
    if (environments == NULL)
        return NULL;
    IpbPlanOptions options = {
        .policy = sandboxing->policy,
        .workspace = sandboxing->workspace,
        .home = g_get_home_dir(),
        .keep = (const char *const *) sandboxing->keep,
        .keep_out = (const char *const *) sandboxing->keep_out,
        .hide = hide,
        .packages = (const char *const *) packages,
        .environments = (const char *const *) environments,
        .layer = layer,
        .has_tools = has_tools,
        .tool_port = IPB_SANDBOX_TOOL_PORT,
        .limits = IPB_SANDBOX_LIMITS_DEFAULT,
    };
    IpbSandboxPlan *plan = ipb_sandbox_plan_new(&options, error);
    if (plan == NULL)
        return NULL;
    show_warnings(sandboxing, plan);
    note_writable(sandboxing, plan);
    g_clear_pointer(&sandboxing->plan, ipb_sandbox_plan_unref);
    sandboxing->plan = ipb_sandbox_plan_ref(plan);
    if (sandboxing->denials == NULL)
        sandboxing->denials =
            ipb_denials_new(sandboxing->loop, plan->workspace, on_denials, sandboxing);
    return plan;
}

static IpbSandboxPlan *
make_plan(void *data, GError **error)
{
    return make_plan_with(data, /* has_tools= */ true, error);
}

IpbSandboxPlan *
ipb_sandboxing_make_command_plan(IpbSandboxing *sandboxing, GError **error)
{
    return make_plan_with(sandboxing, /* has_tools= */ false, error);
}

static void
write_list(IpbJsonWriter *writer, const char *key, const char *const *texts)
{
    ipb_json_key(writer, key);
    ipb_json_begin_array(writer);
    for (; *texts != NULL; texts++)
        ipb_json_write_string(writer, *texts);
    ipb_json_end_array(writer);
}

static IpbSandboxPolicy *
make_install_policy(const IpbSandboxing *sandboxing, const char *directory,
                    const char *const *hosts, GError **error)
{
    const char *const nothing[] = {NULL}, *const directories[] = {directory, NULL};
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "network");
    ipb_json_begin_object(writer);
    write_list(writer, "allowedDomains", hosts);
    write_list(writer, "deniedDomains", nothing);
    ipb_json_end_object(writer);
    ipb_json_key(writer, "filesystem");
    ipb_json_begin_object(writer);
    write_list(writer, "denyRead", (const char *const *) sandboxing->policy->deny_read);
    write_list(writer, "allowRead", (const char *const *) sandboxing->policy->allow_read);
    write_list(writer, "allowWrite", directories);
    write_list(writer, "allowNames", (const char *const *) sandboxing->policy->allow_names);
    write_list(writer, "denyWrite", nothing);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    return ipb_sandbox_policy_parse(text, size, NULL, error);
}

/* A running cell may have replaced a part of the path to @directory by a link. */
static bool
writes_in_workspace_only(const IpbSandboxPlan *plan, const char *directory, GError **error)
{
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        if (rule->access.view != IPB_VIEW_HOST || !rule->access.is_writable ||
            ipb_path_is_below(rule->path, plan->workspace))
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "a symbolic link leads from %s to %s: remove it", directory, rule->path);
        return false;
    }
    return true;
}

IpbSandboxPlan *
ipb_sandboxing_make_install_plan(const IpbSandboxing *sandboxing, const char *directory,
                                 const char *const *readable, const char *const *hosts,
                                 GError **error)
{
    g_autoptr(IpbSandboxPolicy) policy = make_install_policy(sandboxing, directory, hosts, error);
    if (policy == NULL)
        return NULL;
    g_autoptr(GStrvBuilder) keep = g_strv_builder_new();
    g_strv_builder_addv(keep, (const char **) sandboxing->keep);
    g_strv_builder_addv(keep, (const char **) readable);
    g_auto(GStrv) kept = g_strv_builder_end(keep);
    g_autoptr(IpbSandboxPlan) plan = ipb_sandbox_plan_new(
        &(IpbPlanOptions){
            .policy = policy,
            .workspace = sandboxing->workspace,
            .home = g_get_home_dir(),
            .keep = (const char *const *) kept,
            .keep_out = (const char *const *) sandboxing->keep_out,
            .hide = (const char *const[]){sandboxing->hidden, NULL},
            .limits = IPB_SANDBOX_LIMITS_DEFAULT,
        },
        error);
    return plan != NULL && writes_in_workspace_only(plan, directory, error) ? g_steal_pointer(&plan)
                                                                            : NULL;
}

/* --- violations ---------------------------------------------------------------------- */

void
ipb_sandboxing_report_denials(IpbSandboxing *sandboxing)
{
    if (sandboxing->reach != NULL && sandboxing->reach->egress != NULL)
        ipb_egress_flush(sandboxing->reach->egress);
    if (sandboxing->denials != NULL)
        ipb_denials_flush(sandboxing->denials);
}

/* The path after @mark in "[Errno 13] Permission denied: 'old' -> 'new'", made absolute; NULL if
 * there is none. */
static char *
find_path(const IpbSandboxPlan *plan, const char *evalue, const char *mark)
{
    const char *found = strstr(evalue, mark);
    const char *start = found != NULL ? found + strlen(mark) : NULL;
    const char *end = start != NULL ? strchr(start, '\'') : NULL;
    if (end == NULL)
        return NULL;
    g_autofree char *path = g_strndup(start, (size_t) (end - start));
    return g_canonicalize_filename(path, plan->workspace);
}

static bool
has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    g_autofree char *directory = g_strndup(path, directory_size);
    g_autofree char *entry = g_build_filename(directory, name, NULL);
    struct stat status;
    return lstat(entry, &status) == 0;
}

static IpbNameKind
kind_of(mode_t mode)
{
    return S_ISDIR(mode)   ? IPB_NAME_DIRECTORY
           : S_ISLNK(mode) ? IPB_NAME_LINK
           : S_ISREG(mode) ? IPB_NAME_FILE
                           : IPB_NAME_SPECIAL;
}

/* What a rule for names says about @path. The call is not known, so all of them are tried. */
static char *
explain_name(const IpbSandboxPlan *plan, const char *path)
{
    static const IpbNameAction ACTIONS[] = {IPB_NAME_READ, IPB_NAME_CREATE, IPB_NAME_WRITE,
                                            IPB_NAME_PUT, IPB_NAME_REMOVE};
    IpbPlanAccess access = ipb_sandbox_plan_access(plan, path);
    struct stat status;
    bool is_there = lstat(path, &status) == 0;
    if (!access.is_writable || access.is_own)
        return NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(ACTIONS); i++) {
        const IpbNameQuestion question = {
            .action = ACTIONS[i],
            .kind = is_there ? kind_of(status.st_mode) : IPB_NAME_FILE,
            .path = path,
            .root_size = access.root_size,
            .has_entry = has_entry,
        };
        bool is_possible = is_there ? ACTIONS[i] != IPB_NAME_CREATE
                                    : ACTIONS[i] == IPB_NAME_CREATE || ACTIONS[i] == IPB_NAME_PUT;
        IpbNameJudgement judgement = ipb_name_rules_judge(plan->names, &question);
        if (!is_possible || judgement.verdict != IPB_NAME_REFUSED)
            continue;
        const IpbSandboxDenial denial = {
            .kind = IPB_DENIED_NAME,
            .path = path,
            .action = ACTIONS[i],
            .rule = judgement.rule,
        };
        g_autofree char *text = ipb_denial_to_text(&denial, plan->workspace);
        return g_strconcat("operation not permitted: ", text, NULL);
    }
    return NULL;
}

static bool
has_network(const IpbSandboxPlan *plan)
{
    for (guint i = 0; i < plan->listeners->len; i++)
        if (g_array_index(plan->listeners, IpbPlanListener, i).kind != IPB_LISTENER_TOOLS)
            return true;
    return false;
}

/* Without a network nothing of ours sees the attempt. Libraries wrap the error, but keep its words,
 * which are those of the C library. */
static bool
is_network_error(const char *evalue)
{
    static const char *const SIGNS[] = {"Temporary failure in name resolution",
                                        "Name or service not known", "Network is unreachable"};
    for (size_t i = 0; i < G_N_ELEMENTS(SIGNS); i++)
        if (strstr(evalue, SIGNS[i]) != NULL)
            return true;
    return false;
}

char *
ipb_sandboxing_explain_error(const IpbSandboxing *sandboxing, const char *ename, const char *evalue)
{
    static const char *const ERRORS[] = {"PermissionError", "OSError", "FileNotFoundError", NULL};
    const IpbSandboxPlan *plan = sandboxing->plan;
    if (plan == NULL)
        return NULL;
    if (is_network_error(evalue) && !has_network(plan))
        return g_strdup("operation not permitted: the sandbox has no network; "
                        "network.allowedDomains can allow domains");
    if (!g_strv_contains(ERRORS, ename))
        return NULL;
    g_autofree char *path = find_path(plan, evalue, ": '");
    g_autofree char *target = find_path(plan, evalue, "' -> '");
    /* The denial itself is reported, too, and says more. */
    if (path == NULL || ipb_denials_has_name(sandboxing->denials, path) ||
        (target != NULL && ipb_denials_has_name(sandboxing->denials, target)))
        return NULL;
    const IpbPathRule *rule = ipb_sandbox_plan_find_rule(plan, path);
    g_autofree char *printable = ipb_display_text_printable(path);
    if (ipb_path_rule_hides(rule))
        return g_strdup_printf("operation not permitted: the sandbox hides %s (%s)", printable,
                               rule->access.reason);
    /* Sandboxes of root run as another user, so a file that is closed to other users fails with
     * EACCES before it can fail as read-only. */
    bool is_eacces = g_str_has_prefix(evalue, "[Errno 13]");
    bool is_closed = geteuid() == 0 && is_eacces;
    if (is_eacces && rule->access.is_writable) {
        char *text = explain_name(plan, path);
        return text == NULL && target != NULL ? explain_name(plan, target) : text;
    }
    if (rule->access.view != IPB_VIEW_HOST || rule->access.is_writable ||
        !(is_closed || g_str_has_prefix(evalue, "[Errno 30]")))
        return NULL;
    return g_strdup_printf("operation not permitted: the sandbox does not write %s%s (%s); "
                           "filesystem.allowWrite can allow it",
                           is_closed ? "or read what is closed to other users than root: " : "",
                           printable, rule->access.reason);
}

/* --- what the kernel can reach ---------------------------------------------------------------- */

/* NULL: the sessions have ended, and their sandbox is about to. */
static IpbSandboxing *
reporter_of(const Reach *reach)
{
    return reach->owners->len > 0 ? g_ptr_array_index(reach->owners, 0) : NULL;
}

static void
on_egress_violation(const IpbViolation *violation, void *data)
{
    const IpbSandboxing *sandboxing = reporter_of(data);
    if (sandboxing == NULL)
        return;
    g_autofree char *text = ipb_violation_to_text(violation);
    sandboxing->on_violation(text, sandboxing->data);
}

static void
on_denied(const IpbSandboxDenial *denial, void *data)
{
    const IpbSandboxing *sandboxing = reporter_of(data);
    if (sandboxing != NULL)
        ipb_denials_add(sandboxing->denials, denial);
}

/* Once for a session: it is the same for the next kernel. */
static void
on_unnamed(const char *why, void *data)
{
    IpbSandboxing *sandboxing = reporter_of(data);
    if (sandboxing == NULL)
        return;
    if (!sandboxing->has_warned_unnamed)
        warn(sandboxing, why);
    sandboxing->has_warned_unnamed = true;
}

/* Its kernel is in another sandbox now, or has ended. */
static void
leave_reach(IpbSandboxing *sandboxing)
{
    Reach *reach = g_steal_pointer(&sandboxing->reach);
    if (reach == NULL)
        return;
    g_ptr_array_remove(reach->owners, sandboxing);
    if (reach->door != NULL)
        ipb_tool_door_remove(reach->door, sandboxing->tool_channel);
}

static void
free_reach(void *data)
{
    Reach *reach = data;
    for (guint i = 0; i < reach->owners->len; i++) {
        IpbSandboxing *owner = g_ptr_array_index(reach->owners, i);
        owner->reach = NULL;
        if (owner->staged != NULL)
            ipb_staged_workspace_set_inside(owner->staged, -1, NULL);
    }
    ipb_egress_free(reach->egress);
    ipb_tool_door_free(reach->door);
    ipb_sandbox_plan_unref(reach->plan);
    g_ptr_array_unref(reach->owners);
    g_free(reach);
}

/* A listener that could not be taken is closed, which refuses its connections. */
static void *
take_listeners(const int *listeners, size_t n_listeners, void *data)
{
    IpbSandboxing *sandboxing = data;
    g_autoptr(GError) tools_error = NULL, egress_error = NULL;
    IpbSandboxPlan *plan = sandboxing->plan;
    leave_reach(sandboxing);
    Reach *reach = sandboxing->reach = g_new0(Reach, 1);
    reach->plan = ipb_sandbox_plan_ref(plan);
    reach->owners = g_ptr_array_new();
    g_ptr_array_add(reach->owners, sandboxing);
    for (size_t i = 0; i < n_listeners; i++) {
        const IpbPlanListener *planned = &g_array_index(plan->listeners, IpbPlanListener, i);
        if (planned->kind != IPB_LISTENER_TOOLS)
            continue;
        reach->door = ipb_tool_door_new(sandboxing->loop, sandboxing->tool_channel, listeners[i],
                                        planned->port, &tools_error);
        if (reach->door == NULL)
            warn(sandboxing, tools_error->message);
    }
    IpbEgressOptions options = {
        .plan = plan,
        .listeners = listeners,
        .on_violation = on_egress_violation,
        .data = reach,
    };
    reach->egress = ipb_egress_new(sandboxing->loop, &options, &egress_error);
    if (reach->egress == NULL)
        warn(sandboxing, egress_error->message);
    return reach;
}

static void
take_workspace(int workspace, const IpbLayerUser *user, void *data)
{
    const IpbSandboxing *sandboxing = reporter_of(data);
    if (sandboxing != NULL && sandboxing->staged != NULL)
        ipb_staged_workspace_set_inside(sandboxing->staged, workspace, user);
    else
        ipb_fd_close(&workspace);
}

static void
join(void *data, void *owner)
{
    Reach *reach = data;
    IpbSandboxing *sandboxing = owner;
    if (sandboxing->reach == reach)
        return;
    leave_reach(sandboxing); /* of the kernel whose place it takes */
    g_ptr_array_add(reach->owners, sandboxing);
    sandboxing->reach = reach;
    g_clear_pointer(&sandboxing->plan, ipb_sandbox_plan_unref);
    sandboxing->plan = ipb_sandbox_plan_ref(reach->plan);
    if (sandboxing->denials == NULL)
        sandboxing->denials =
            ipb_denials_new(sandboxing->loop, reach->plan->workspace, on_denials, sandboxing);
    if (reach->door != NULL)
        ipb_tool_door_share(reach->door, sandboxing->tool_channel);
}

/* Before the sandbox of a staged session. */
static void *
wait_for_layer(void (*ready)(void *data), void *ready_data, void *data)
{
    const IpbSandboxing *sandboxing = data;
    return ipb_staged_wait_new(sandboxing->staged, ready, ready_data);
}

static void
free_wait(void *wait)
{
    ipb_staged_wait_free(wait);
}

IpbKernelSandboxFuncs
ipb_sandboxing_of_kernel(IpbSandboxing *sandboxing)
{
    return (IpbKernelSandboxFuncs){
        .walls = sandboxing->staged != NULL ? ipb_staged_workspace_walls(sandboxing->staged) : NULL,
        .wait = sandboxing->staged != NULL ? wait_for_layer : NULL,
        .free_wait = free_wait,
        .make_plan = make_plan,
        .take_listeners = take_listeners,
        .take_workspace = sandboxing->staged != NULL ? take_workspace : NULL,
        .free_reach = free_reach,
        .join = join,
        .on_denied = on_denied,
        .on_unnamed = on_unnamed,
        .data = sandboxing,
    };
}

IpbSandboxPlan *
ipb_sandboxing_commit_plan(IpbSandboxing *sandboxing, GError **error)
{
    return sandboxing->plan != NULL ? ipb_sandbox_plan_ref(sandboxing->plan)
                                    : make_plan(sandboxing, error);
}

const IpbSandboxPolicy *
ipb_sandboxing_policy(const IpbSandboxing *sandboxing)
{
    return sandboxing->policy;
}

char *
ipb_sandboxing_find_base(const IpbSandboxing *sandboxing, const char *path)
{
    g_autofree char *base = g_strdup(sandboxing->workspace);
    if (ipb_path_is_in(path, base))
        return g_steal_pointer(&base);
    for (char **text = sandboxing->policy->allow_write; *text != NULL; text++) {
        g_autofree char *writable = ipb_path_expand(*text, sandboxing->workspace, g_get_home_dir());
        if (ipb_path_is_in(path, base) ? !ipb_path_is_below(base, writable)
                                       : !ipb_path_is_in(path, writable))
            continue;
        g_free(base);
        base = g_steal_pointer(&writable);
    }
    return g_steal_pointer(&base);
}

void
ipb_sandboxing_free(IpbSandboxing *sandboxing)
{
    if (sandboxing == NULL)
        return;
    leave_reach(sandboxing);
    ipb_denials_free(sandboxing->denials);
    ipb_sandbox_plan_unref(sandboxing->plan);
    ipb_sandbox_policy_unref(sandboxing->policy);
    g_strfreev(sandboxing->keep);
    g_strfreev(sandboxing->keep_out);
    g_free(sandboxing->hidden);
    g_free(sandboxing->workspace);
    ipb_loop_unref(sandboxing->loop);
    g_free(sandboxing);
}
