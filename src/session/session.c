/* SPDX-License-Identifier: Apache-2.0
 *
 * A session connects a kernel, cells, tools and approvals; see the header.
 */
#include "session/session.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "command/known-paths.h"
#include "json/writer.h"
#include "session/allowed-servers.h"
#include "session/approved-changes.h"
#include "session/environment.h"
#include "session/file-stamps.h"
#include "session/install-command.h"
#include "session/installation-paths.h"
#include "session/kept-options.h"
#include "tools/tool-channel.h"

struct IpbSession {
    IpbRuntime *runtime;
    IpbLoop *loop;
    char *workspace;
    char *working_dir;       /* or NULL */
    char *overlay;           /* see install-command.h; or NULL */
    char **env;              /* the application's */
    char **server_env;       /* what of it MCP servers get, and ${NAME} in their parameters */
    char **keep_out;         /* see installation-paths.h */
    IpbKeptOptions *options; /* for sessions that are forked from it */
    IpbFileStamps *read;     /* files that were read for it */
    bool approves_shell_cmds;
    bool allows_builds; /* see session.h */
    void (*on_log)(const char *level, const char *text, void *data);
    IpbApprovalAskFunc on_approval;
    IpbApprovalWithdrawnFunc on_approval_withdrawn;
    IpbApplicationCallFunc on_tool_call;
    IpbApplicationCancelFunc on_tool_cancelled;
    IpbEventFunc on_event;
    void *data;

    IpbKernelProvider *kernel_provider;
    IpbKernel *kernel;
    IpbRecord *record; /* or NULL */
    IpbCells *cells;
    IpbCheckpoints *checkpoints;
    IpbApprovals *approvals;
    IpbToolHost *tool_host;
    IpbToolChannel *tool_channel;
    IpbToolRelay *tool_relay;             /* or NULL */
    IpbSandboxing *sandboxing;            /* NULL: no sandbox */
    IpbStagedWorkspace *staged;           /* or NULL */
    IpbApprovedChanges *approved_changes; /* or NULL */
    IpbRegistrar *registrar;
    IpbInstaller *installer;
    uint64_t install_call; /* the tool call that installs a package; 0: none */
    /* Of a branch: */
    const char *branch_warning; /* or NULL */
    IpbBranchedFunc branched;
    void *branched_data;

    bool is_closing;
    unsigned n_closing; /* parts that are not closed yet */
    void (*closed)(void *data);
    void *closed_data;
};

static void
on_log(const char *level, const char *text, void *data)
{
    IpbSession *session = data;
    if (session->on_log != NULL)
        session->on_log(level, text, session->data);
}

static void
on_env_warning(const char *text, void *data)
{
    on_log("warning", text, data);
}

static void
on_server_log(const char *server_name, const char *level, const char *text, void *data)
{
    g_autofree char *line = g_strdup_printf("%s: %s", server_name, text);
    on_log(level, line, data);
}

static void
on_tool_progress(const char *server_name, const char *tool_name, const IpbMcpProgress *progress,
                 void *data)
{
    IpbSession *session = data;
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "%s.%s: %g", server_name, tool_name, progress->progress);
    if (progress->total > 0)
        g_string_append_printf(text, "/%g", progress->total);
    if (progress->message != NULL)
        g_string_append_printf(text, " %s", progress->message);
    if (session->cells != NULL)
        ipb_cells_report_progress(session->cells, text->str);
}

static void
on_event(const IpbEvent *event, void *data)
{
    IpbSession *session = data;
    if (session->on_event != NULL)
        session->on_event(event, session->data);
}

static void
on_approval_wait(bool is_waiting, void *data)
{
    IpbSession *session = data;
    if (session->cells != NULL)
        ipb_cells_set_awaiting_approval(session->cells, is_waiting);
}

/* The record reports one error, which ended it. Cells may be gone while the session is freed. */
static void
report_record_error(IpbSession *session, const GError *error)
{
    if (session->cells != NULL)
        ipb_cells_report_notice(session->cells, error->message);
}

static void
on_decision(const IpbDecision *decision, void *data)
{
    IpbSession *session = data;
    g_autoptr(GError) error = NULL;
    uint64_t cell = ipb_session_running_cell(session);
    if (!ipb_record_decision(session->record, cell, decision, &error))
        report_record_error(session, error);
}

static void
on_tool_end(uint64_t request, const GError *failure, void *data)
{
    IpbSession *session = data;
    g_autoptr(GError) error = NULL;
    if (!ipb_record_call_end(session->record, request, failure, &error))
        report_record_error(session, error);
}

static void
on_changes_done(bool is_discard, const IpbStagedResult *result, const GError *failure, void *data)
{
    IpbSession *session = data;
    g_autoptr(GError) error = NULL;
    const char *layer = ipb_staged_workspace_directory(session->staged);
    if (!ipb_record_changes(session->record, layer, is_discard, result, failure, &error))
        report_record_error(session, error);
}

static void
on_approval_ask(const IpbApprovalRequest *request, void *data)
{
    IpbSession *session = data;
    session->on_approval(request, session->data);
}

static void
on_approval_withdrawn(uint64_t request, void *data)
{
    IpbSession *session = data;
    session->on_approval_withdrawn(request, session->data);
}

/* --- tools of the application ----------------------------------------------------------------- */

static void
on_application_call(uint64_t id, const char *server_name, const char *tool_name,
                    const char *arguments, size_t size, void *data)
{
    IpbSession *session = data;
    const IpbApplicationCall call = {
        .id = id,
        .server_name = server_name,
        .tool_name = tool_name,
        .arguments_json = arguments,
        .arguments_size = size,
    };
    session->on_tool_call(&call, session->data);
}

static void
on_application_cancel(uint64_t call, void *data)
{
    IpbSession *session = data;
    session->on_tool_cancelled(call, session->data);
}

void
ipb_session_answer_tool(IpbSession *session, uint64_t call, const IpbJson *result,
                        IpbJsonDoc **document, const GError *error)
{
    ipb_tool_host_answer_application(session->tool_host, call, result, document, error);
}

/* --- tools ------------------------------------------------------------------------------------ */

bool
ipb_session_respond(IpbSession *session, uint64_t request, bool accept)
{
    return ipb_approvals_respond(session->approvals, request, accept);
}

bool
ipb_session_refuse(IpbSession *session, uint64_t request, const char *why)
{
    return ipb_approvals_refuse(session->approvals, request, why);
}

void
ipb_session_set_approval(IpbSession *session, IpbApprovalPolicy policy)
{
    ipb_approvals_set_policy(session->approvals, policy);
}

void
ipb_session_allow(IpbSession *session, const IpbRegistration *registration)
{
    ipb_tool_host_allow(session->tool_host, registration);
}

static bool
is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    while (size > 1 && directory[size - 1] == '/')
        size--;
    return strncmp(path, directory, size) == 0 &&
           (path[size] == '/' || path[size] == '\0' || size == 1);
}

bool
ipb_session_allow_below(IpbSession *session, const char *directory, GError **error)
{
    if (directory == NULL)
        directory = session->workspace;
    g_autoptr(GPtrArray) all = ipb_registry_list(ipb_runtime_registry(session->runtime), error);
    if (all == NULL)
        return false;
    for (guint i = 0; i < all->len; i++) {
        const IpbRegistration *registration = g_ptr_array_index(all, i);
        for (char **root = registration->roots; *root != NULL; root++) {
            if (is_below(*root, directory)) {
                ipb_session_allow(session, registration);
                break;
            }
        }
    }
    return true;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

char **
ipb_session_packages(IpbSession *session, GError **error)
{
    g_autoptr(GPtrArray) all = ipb_registry_list(ipb_runtime_registry(session->runtime), error);
    if (all == NULL)
        return NULL;
    g_autofree char *directory = g_build_filename(session->workspace, "mcptools", NULL);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < all->len; i++) {
        const IpbRegistration *registration = g_ptr_array_index(all, i);
        if (g_strv_contains((const char *const *) registration->roots, directory))
            g_ptr_array_add(names, g_strdup(registration->name));
    }
    g_ptr_array_sort(names, compare_names);
    g_ptr_array_add(names, NULL);
    return (char **) g_ptr_array_free(g_steal_pointer(&names), FALSE);
}

static void
drop_checkpoints(IpbSession *session)
{
    unsigned n = ipb_checkpoints_drop_all(session->checkpoints);
    if (n == 0)
        return;
    g_autofree char *notice = g_strdup_printf("the reset has dropped %u checkpoints", n);
    ipb_cells_report_notice(session->cells, notice);
}

void
ipb_session_reset(IpbSession *session, void (*done)(void *data), void *data)
{
    ipb_cells_reset(session->cells);
    drop_checkpoints(session);
    ipb_session_cancel_changes(session);
    ipb_approvals_cancel_all(session->approvals);
    ipb_kernel_reset(session->kernel);
    ipb_tool_host_reset(session->tool_host, done, data);
}

const char *
ipb_session_workspace(IpbSession *session)
{
    return session->workspace;
}

IpbSandboxPlan *
ipb_session_make_reading_plan(IpbSession *session, GError **error)
{
    g_autoptr(IpbSandboxPolicy) stock =
        session->sandboxing == NULL ? ipb_sandbox_policy_default() : NULL;
    const char *const hide[] = {ipb_runtime_state_dir(session->runtime), NULL};
    const IpbPlanOptions options = {
        .policy = stock != NULL ? stock : ipb_sandboxing_policy(session->sandboxing),
        .workspace = session->workspace,
        .home = g_get_home_dir(),
        .hide = hide,
        .limits = IPB_SANDBOX_LIMITS_DEFAULT,
    };
    return ipb_sandbox_plan_new(&options, error);
}

IpbSandboxPlan *
ipb_session_make_command_plan(IpbSession *session, GError **error)
{
    return ipb_sandboxing_make_command_plan(session->sandboxing, error);
}

unsigned
ipb_session_tool_port(IpbSession *session)
{
    return session->sandboxing == NULL ? ipb_tool_channel_port(session->tool_channel) : 0;
}

const char *
ipb_session_tool_token(IpbSession *session)
{
    return ipb_tool_channel_token(session->tool_channel);
}

static bool
make_approvals(IpbSession *session, const IpbSessionOptions *options, GError **error)
{
    g_autoptr(IpbApprovalRules) rules = NULL;
    /* Cells could have made a link in the workspace. */
    const char *base = options->is_sandboxed ? session->workspace : NULL;
    IpbAuditLog *audit_log = NULL;
    if (options->approval_rules != NULL) {
        rules = ipb_approval_rules_load(base, options->approval_rules, error);
        if (rules == NULL)
            return false;
    }
    if (options->audit_log != NULL) {
        audit_log = ipb_audit_log_open(base, options->audit_log, error);
        if (audit_log == NULL)
            return false;
    }
    IpbApprovalOptions approvals = {
        .policy = options->approval,
        .is_policy_default = options->is_approval_default,
        .rules = rules,
        .audit_log = audit_log,
        .timeout_ms = options->approval_timeout_ms,
        .ask = options->on_approval != NULL ? on_approval_ask : NULL,
        .on_withdrawn = options->on_approval_withdrawn != NULL ? on_approval_withdrawn : NULL,
        .on_wait = on_approval_wait,
        .on_decision = session->record != NULL ? on_decision : NULL,
        .data = session,
    };
    session->approvals = ipb_approvals_new(session->loop, &approvals);
    if (options->audit_log != NULL) {
        g_autofree char *path = g_canonicalize_filename(options->audit_log, NULL);
        ipb_file_stamps_add(session->read, path, true);
    }
    return true;
}

/* Before sandboxes are planned: a plan protects files that exist. */
static bool
open_record(IpbSession *session, const IpbSessionOptions *options, GError **error)
{
    const char *base = options->is_sandboxed ? session->workspace : NULL;
    if (options->record != NULL)
        session->record = ipb_record_open(base, options->record, error);
    if (session->record == NULL || options->application_tools == NULL)
        return options->record == NULL || session->record != NULL;
    g_autoptr(GPtrArray) names = ipb_application_tools_names(options->application_tools);
    return ipb_record_tools(session->record, names, error);
}

/* --- tools of ipybox itself ------------------------------------------------------------------- */

static void
on_own_installed(const char *output, const GError *error, void *data)
{
    IpbSession *session = data;
    g_autoptr(GBytes) result = NULL;
    if (error == NULL) {
        IpbJsonWriter *writer = ipb_json_writer_new();
        ipb_json_write_string(writer, output);
        size_t size;
        char *text = ipb_json_writer_finish(writer, &size);
        result = g_bytes_new_take(text, size);
    }
    uint64_t call = session->install_call;
    session->install_call = 0;
    ipb_tool_host_answer(session->tool_host, call, result, error);
}

/* The package in {"package": "…"}. The caller frees the document. */
static const char *
find_package(const char *arguments, size_t size, IpbJsonDoc **ret_document, GError **error)
{
    *ret_document = ipb_json_parse(arguments, size, &IPB_JSON_LIMITS_SMALL, error);
    if (*ret_document == NULL)
        return NULL;
    const char *package = ipb_json_get_string(ipb_json_root(*ret_document), "package");
    if (package == NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            IPB_INSTALL_TOOL ": {\"package\": a string}");
    return package;
}

/* Who answers a question about an installation sees where the package comes from, too. Nothing that
 * the cell sent but the package is shown. */
static char *
make_install_arguments(const char *arguments, size_t size, GError **error, void *data)
{
    const IpbSession *session = data;
    g_autoptr(IpbJsonDoc) document = NULL;
    const char *package = find_package(arguments, size, &document, error);
    if (package == NULL || !ipb_install_command_check_package(package, error))
        return NULL;
    g_autofree char *index = ipb_installer_describe_index(session->installer);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "package", package);
    ipb_json_member_string(writer, "index", index);
    ipb_json_member_bool(writer, "builds", session->allows_builds);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

/* A call of these tools only asks for approval: the kernel itself runs the command. */
static bool
is_shell_tool(const char *tool_name)
{
    return g_str_equal(tool_name, "shell") || g_str_equal(tool_name, "shell_magic");
}

static void
on_own_call(uint64_t call, const char *tool_name, const char *arguments, size_t size, void *data)
{
    IpbSession *session = data;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) document = NULL;
    const char *package = NULL;
    if (session->approves_shell_cmds && is_shell_tool(tool_name)) {
        g_autoptr(GBytes) nothing = g_bytes_new_static("null", strlen("null"));
        ipb_tool_host_answer(session->tool_host, call, nothing, NULL);
        return;
    }
    if (session->sandboxing == NULL || !g_str_equal(tool_name, IPB_INSTALL_TOOL))
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "ipybox has no tool \"%s\"",
                    tool_name);
    else
        package = find_package(arguments, size, &document, &error);
    if (package != NULL &&
        ipb_session_install(session, package, NULL, on_own_installed, session, &error))
        session->install_call = call;
    else
        ipb_tool_host_answer(session->tool_host, call, NULL, error);
}

static void
on_own_cancel(uint64_t call, void *data)
{
    IpbSession *session = data;
    if (session->install_call == call)
        ipb_session_cancel_install(session);
}

/* --- sandbox ---------------------------------------------------------------------------------- */

static void
on_violation(const char *text, void *data)
{
    IpbSession *session = data;
    ipb_cells_report_violation(session->cells, text);
}

/* @forerunner: a branch shares its layer; NULL: it is no branch. */
static bool
make_sandboxing(IpbSession *session, const IpbSessionOptions *options, const IpbSession *forerunner,
                GError **error)
{
    if (!options->is_sandboxed)
        return true;
    if (options->is_staged && forerunner != NULL) {
        session->staged = ipb_staged_workspace_share(forerunner->staged);
    } else if (options->is_staged) {
        g_autofree char *place = ipb_staged_workspace_place(
            options->staging_dir, ipb_runtime_state_dir(session->runtime));
        session->staged = ipb_staged_workspace_new(session->loop, place, session->workspace, error);
        if (session->staged == NULL ||
            !ipb_record_layer(session->record, ipb_staged_workspace_directory(session->staged),
                              error))
            return false;
        ipb_staged_workspace_watch(session->staged, on_changes_done, session);
    }
    session->sandboxing =
        ipb_sandboxing_new(session->loop,
                           &(IpbSandboxingOptions){
                               .config = options->sandbox_config,
                               .allowed_domains = options->allowed_domains,
                               .limits = options->limits,
                               .workspace = session->workspace,
                               .makes_packages = options->makes_packages,
                               .python = ipb_runtime_python(session->runtime),
                               .host_directory = ipb_runtime_host_directory(session->runtime),
                               .registry = ipb_runtime_registry(session->runtime),
                               .state_dir = ipb_runtime_state_dir(session->runtime),
                               .keep_out = (const char *const *) session->keep_out,
                               .tool_channel = session->tool_channel,
                               .staged = session->staged,
                               .on_log = on_log,
                               .on_violation = on_violation,
                               .data = session,
                           },
                           error);
    return session->sandboxing != NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

static bool
knows_socket(uint64_t inode, void *data)
{
    const IpbSession *session = data;
    return session->kernel != NULL && ipb_kernel_has_socket(session->kernel, inode);
}

/* A sandboxed kernel reaches the channel by a listener of its sandbox. */
static bool
make_tools(IpbSession *session, const IpbSessionOptions *options, GError **error)
{
    session->tool_host = ipb_tool_host_new(
        session->loop,
        &(IpbToolHostOptions){
            .approvals = session->approvals,
            .cwd = session->workspace,
            .state_dir = ipb_runtime_state_dir(session->runtime),
            .keep_out = (const char *const *) session->keep_out,
            .env = (const char *const *) session->server_env,
            .connect_timeout_ms = options->connect_timeout_ms,
            .legacy_servers = ipb_runtime_legacy_servers(session->runtime),
            .takes_params = !options->is_sandboxed,
            .on_log = on_server_log,
            .on_progress = on_tool_progress,
            .on_end = on_tool_end,
            .on_own_call =
                options->is_sandboxed || options->approves_shell_cmds ? on_own_call : NULL,
            .on_own_cancel = on_own_cancel,
            .application_tools = options->application_tools,
            .on_application_call = on_application_call,
            .on_application_cancel = on_application_cancel,
            .make_install_arguments = options->is_sandboxed ? make_install_arguments : NULL,
            .data = session,
        });
    session->tool_channel = ipb_tool_channel_new(session->loop, session->tool_host);
    if (options->tool_server_host != NULL) {
        session->tool_relay =
            ipb_tool_relay_new(session->loop, options->tool_server_host, options->tool_server_port,
                               options->tool_server_token);
        ipb_tool_channel_set_relay(session->tool_channel, session->tool_relay);
    }
    if (options->allowed_servers != NULL &&
        !ipb_allowed_servers_apply(options->allowed_servers, session->tool_host, error))
        return false;
    return options->is_sandboxed ||
           ipb_tool_channel_listen(session->tool_channel, knows_socket, session, error);
}

/* Where modules are looked for beside the installation: a forked Python does not read PYTHONPATH
 * any more. Caller frees. */
static char **
make_import_path(const IpbSession *session, const char *const *kernel_env)
{
    g_autoptr(GStrvBuilder) path = g_strv_builder_new();
    if (session->overlay != NULL)
        g_strv_builder_add(path, session->overlay);
    const char *wished = g_environ_getenv((char **) kernel_env, "PYTHONPATH");
    g_auto(GStrv) directories = wished != NULL ? g_strsplit(wished, ":", -1) : NULL;
    for (char **directory = directories; directory != NULL && *directory != NULL; directory++)
        if (**directory != '\0')
            g_strv_builder_add(path, *directory);
    if (session->working_dir != NULL) /* else it is the kernel's own */
        g_strv_builder_add(path, session->workspace);
    return g_strv_builder_end(path);
}

static IpbKernel *
make_kernel(IpbSession *session, const IpbSessionOptions *options, IpbEventFunc on_kernel_event,
            void *data, GError **error)
{
    g_auto(GStrv) env = ipb_environment_kernel(&(IpbKernelEnvironment){
        .python = ipb_runtime_python(session->runtime),
        .workspace = session->workspace,
        .is_sandboxed = options->is_sandboxed,
        .has_rich_client = options->has_rich_client,
        .can_install = options->tool_server_host == NULL, /* else calls do not come to us */
        .overlay = session->overlay,
        .application = (const char *const *) session->env,
        .kernel_env = options->kernel_env,
        .tool_port = session->sandboxing != NULL ? IPB_SANDBOX_TOOL_PORT
                                                 : ipb_tool_channel_port(session->tool_channel),
        .tool_token = ipb_tool_channel_token(session->tool_channel),
    });
    g_auto(GStrv) path = make_import_path(session, options->kernel_env);
    IpbKernelOptions kernel = {
        .env = (const char *const *) env,
        .cwd = session->working_dir != NULL ? session->working_dir : session->workspace,
        .path = (const char *const *) path,
        .packages = options->application_tools != NULL
                        ? ipb_application_tools_packages(options->application_tools)
                        : NULL,
        .seed = options->seed,
        .has_seed = options->has_seed,
        .rules = {.approves_shell_cmds = options->approves_shell_cmds,
                  .requires_shell_escape = options->requires_shell_escape,
                  .returns_to_cwd = session->working_dir != NULL,
                  .has_rich_client = options->has_rich_client},
        .init_timeout_ms = options->kernel_init_timeout_ms,
    };
    IpbKernelSandboxFuncs sandbox;
    if (session->sandboxing != NULL) {
        sandbox = ipb_sandboxing_of_kernel(session->sandboxing);
        kernel.sandbox = &sandbox;
    }
    return ipb_kernel_provider_make_kernel(session->kernel_provider, &kernel, on_kernel_event, data,
                                           error);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static bool check_fork(const IpbSession *session, bool is_before_cell, GError **error);

static bool
check_checkpoint(bool is_before_cell, void *data, GError **error)
{
    return check_fork(data, is_before_cell, error);
}

static IpbKernel *
make_other_kernel(IpbEventFunc on_kernel_event, void *event_data, void *data, GError **error)
{
    IpbSession *session = data;
    return make_kernel(session, ipb_kept_options_get(session->options), on_kernel_event, event_data,
                       error);
}

/* If the copy becomes a branch, the calls of both come through one door. */
static const char *
get_token(void *data, GError **error)
{
    const IpbSession *session = data;
    if (session->sandboxing == NULL || session->tool_relay != NULL ||
        !ipb_tool_channel_make_token(session->tool_channel, error))
        return NULL;
    return ipb_tool_channel_token(session->tool_channel);
}

static void
make_checkpoints(IpbSession *session, const IpbSessionOptions *options)
{
    session->checkpoints = ipb_checkpoints_new(
        session->loop, &(IpbCheckpointsOptions){
                           .undo = options->undo,
                           .totals = ipb_runtime_checkpoint_totals(session->runtime),
                           .kernel = session->kernel,
                           .cells = session->cells,
                           .staged = session->staged,
                           .workspace = session->workspace,
                           .make_kernel = make_other_kernel,
                           .check = check_checkpoint,
                           .get_token = get_token,
                           .data = session,
                       });
    ipb_cells_set_undo(session->cells, &IPB_CHECKPOINTS_CELL_FUNCS, session->checkpoints);
}

bool
ipb_session_checkpoint(IpbSession *session, const char *name, IpbCheckpointMadeFunc func,
                       void *data, GError **error)
{
    return ipb_checkpoints_make(session->checkpoints, name, func, data, error);
}

bool
ipb_session_restore(IpbSession *session, uint64_t checkpoint, bool with_files, IpbRestoredFunc func,
                    void *data, GError **error)
{
    return ipb_checkpoints_restore(session->checkpoints, checkpoint, with_files, func, data, error);
}

bool
ipb_session_undo(IpbSession *session, unsigned n, bool with_files, IpbRestoredFunc func, void *data,
                 GError **error)
{
    return ipb_checkpoints_undo(session->checkpoints, n, with_files, func, data, error);
}

IpbCheckpoints *
ipb_session_checkpoints(IpbSession *session)
{
    return session->checkpoints;
}

static void
make_cells(IpbSession *session, const IpbSessionOptions *options)
{
    g_autofree char *images_dir = g_canonicalize_filename(
        options->images_dir != NULL ? options->images_dir : "images", session->workspace);
    session->cells =
        ipb_cells_new(session->loop, &(IpbCellsOptions){
                                         .approvals = session->approvals,
                                         .sandboxing = session->sandboxing,
                                         .record = session->record,
                                         .staged = session->staged,
                                         .workspace = session->workspace,
                                         .images_dir = options->saves_images ? images_dir : NULL,
                                         .working_dir = session->working_dir,
                                         .has_rich_client = options->has_rich_client,
                                         .on_event = on_event,
                                         .on_log = on_log,
                                         .data = session,
                                     });
}

static IpbSandboxPlan *
make_commit_plan(void *data, GError **error)
{
    const IpbSession *session = data;
    return ipb_sandboxing_commit_plan(session->sandboxing, error);
}

static void
make_approved_changes(IpbSession *session)
{
    if (session->staged != NULL)
        session->approved_changes = ipb_approved_changes_new(&(IpbApprovedChangesOptions){
            .approvals = session->approvals,
            .cells = session->cells,
            .staged = session->staged,
            .workspace = session->workspace,
            .make_plan = make_commit_plan,
            .data = session,
        });
}

static void
make_registrar(IpbSession *session, const IpbSessionOptions *options)
{
    session->registrar = ipb_registrar_new(
        session->loop, &(IpbRegistrarOptions){
                           .registry = ipb_runtime_registry(session->runtime),
                           .tool_host = session->tool_host,
                           .sandboxing = session->sandboxing,
                           .legacy_servers = ipb_runtime_legacy_servers(session->runtime),
                           .workspace = session->workspace,
                           .state_dir = ipb_runtime_state_dir(session->runtime),
                           .keep_out = (const char *const *) session->keep_out,
                           .env = (const char *const *) session->server_env,
                           .connect_timeout_ms = options->connect_timeout_ms,
                           .allows_unsandboxed_servers = options->allows_unsandboxed_servers,
                           .on_log = on_log,
                           .data = session,
                       });
}

static void
make_installer(IpbSession *session, const IpbSessionOptions *options)
{
    session->installer = ipb_installer_new(
        session->loop, &(IpbInstallerOptions){
                           .python = ipb_runtime_python(session->runtime),
                           .host_directory = ipb_runtime_host_directory(session->runtime),
                           .workspace = session->workspace,
                           .overlay = session->overlay,
                           .sandboxing = session->sandboxing,
                           .allows_builds = options->allows_builds,
                           .env = (const char *const *) session->env,
                       });
}

static IpbKernelProvider *
find_provider(IpbRuntime *runtime, const IpbSessionOptions *options)
{
    return options->kernel_provider != NULL ? options->kernel_provider
                                            : ipb_runtime_kernel_provider(runtime);
}

/* What only a kernel could do is refused by the provider; see make_kernel(). */
static bool
check_options(const IpbSessionOptions *options, const IpbKernelProvider *provider, GError **error)
{
    const char *problem = NULL;
    bool needs_tools = options->allowed_servers != NULL || options->tool_server_host != NULL ||
                       options->application_tools != NULL;
    if (needs_tools &&
        !ipb_kernel_provider_check(provider, IPB_KERNEL_HAS_TOOL_STUBS, "call tools", error))
        return false;
    if (options->requires_shell_escape && !options->approves_shell_cmds)
        problem = "require_shell_escape needs approve_shell_cmds";
    else if (options->is_staged && !options->is_sandboxed)
        problem = "a staged workspace needs a sandbox";
    else if (options->staging_dir != NULL && !options->is_staged)
        problem = "staging_dir is of a staged workspace: it needs workspace_mode \"staged\"";
    else if (options->application_tools != NULL && options->tool_server_host != NULL)
        problem = "application_tools: the session's calls go to another program's tool server";
    else if (options->limits != NULL && !options->is_sandboxed)
        problem = "limits are those of a sandbox: they need one";
    else if (options->undo > IPB_MAX_UNDO)
        problem = "undo: " G_STRINGIFY(IPB_MAX_UNDO) " cells at most can be undone";
    else if (options->undo > 0 && options->record != NULL)
        problem = "undo: a session that is recorded cannot be undone: a record has no way back";
    if (options->undo > 0 &&
        !ipb_kernel_provider_check(provider, IPB_KERNEL_CAN_BE_FORKED, "be undone", error))
        return false;
    if (problem != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, problem);
    return problem == NULL;
}

/* The canonical path; NULL with NOT_FOUND if no directory is there. */
static char *
find_directory(const char *path, const char *what, GError **error)
{
    if (!g_path_is_absolute(path) && !ipb_file_check_current_directory(error))
        return NULL;
    g_autofree char *directory = g_canonicalize_filename(path, NULL);
    if (g_file_test(directory, G_FILE_TEST_IS_DIR))
        return g_steal_pointer(&directory);
    bool is_there = g_file_test(directory, G_FILE_TEST_EXISTS);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "the %s is not a directory: %s%s",
                what, directory, is_there ? "" : " does not exist; create it first");
    return NULL;
}

/* Before they are read: a change while they are read is noticed, too. */
static IpbFileStamps *
stamp_files(IpbRuntime *runtime, const IpbSessionOptions *options, const char *workspace)
{
    const char *state_dir = ipb_runtime_state_dir(runtime);
    g_autofree char *dotenv = g_build_filename(workspace, ".env", NULL);
    g_autofree char *registry = g_build_filename(state_dir, IPB_REGISTRY_FILE, NULL);
    g_autofree char *environments = g_build_filename(state_dir, IPB_KNOWN_ENVIRONMENTS_FILE, NULL);
    const char *const names[] = {dotenv, registry, environments, options->sandbox_config,
                                 options->approval_rules};
    IpbFileStamps *stamps = ipb_file_stamps_new();
    ipb_file_stamps_add(stamps, workspace, true);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = names[i] != NULL ? g_canonicalize_filename(names[i], NULL) : NULL;
        if (path != NULL)
            ipb_file_stamps_add(stamps, path, false);
    }
    return stamps;
}

bool
ipb_session_is_current(const IpbSession *session)
{
    return ipb_file_stamps_are_current(session->read);
}

void
ipb_session_hand_over(IpbSession *session, const IpbSessionOptions *options)
{
    session->on_event = options->on_event;
    session->on_log = options->on_log;
    session->on_approval = options->on_approval;
    session->on_approval_withdrawn = options->on_approval_withdrawn;
    session->on_tool_call = options->on_tool_call;
    session->on_tool_cancelled = options->on_tool_cancelled;
    session->data = options->data;
}

/* @forerunner: its kernel begins in the sandbox of this one's; or NULL. */
static IpbSession *
new_session(IpbRuntime *runtime, const IpbSessionOptions *options, const IpbSession *forerunner,
            GError **error)
{
    IpbKernelProvider *provider = find_provider(runtime, options);
    if (!check_options(options, provider, error))
        return NULL;
    g_autofree char *workspace =
        find_directory(options->workspace != NULL ? options->workspace : ".", "workspace", error);
    if (workspace == NULL)
        return NULL;
    g_autofree char *working_dir = NULL;
    if (options->working_dir != NULL &&
        (working_dir = find_directory(options->working_dir, "working_dir", error)) == NULL)
        return NULL;
    IpbSession *session = g_new0(IpbSession, 1);
    session->runtime = ipb_runtime_ref(runtime);
    session->loop = ipb_loop_ref(ipb_runtime_loop(runtime));
    session->kernel_provider = ipb_kernel_provider_ref(provider);
    session->on_event = options->on_event;
    session->on_log = options->on_log;
    session->on_approval = options->on_approval;
    session->on_approval_withdrawn = options->on_approval_withdrawn;
    session->on_tool_call = options->on_tool_call;
    session->on_tool_cancelled = options->on_tool_cancelled;
    session->data = options->data;
    session->approves_shell_cmds = options->approves_shell_cmds;
    session->allows_builds = options->allows_builds;
    session->working_dir = g_steal_pointer(&working_dir);
    session->read = stamp_files(runtime, options, workspace);
    session->overlay = ipb_install_command_overlay(ipb_runtime_python(runtime), workspace,
                                                   /* is_sandboxed= */ options->is_sandboxed);
    session->workspace = g_steal_pointer(&workspace);
    session->env = ipb_environment_application(options->env, session->workspace,
                                               options->is_sandboxed, on_env_warning, session);
    session->server_env =
        ipb_environment_servers((const char *const *) session->env, options->server_variables);
    if (ipb_runtime_warning(runtime) != NULL)
        on_log("warning", ipb_runtime_warning(runtime), session);
    session->keep_out = ipb_installation_paths_protected(runtime, options, session->workspace);
    session->options = ipb_kept_options_new(options);
    if (!ipb_known_paths_add_python(ipb_runtime_state_dir(runtime), ipb_runtime_python(runtime),
                                    error) ||
        !open_record(session, options, error) || !make_approvals(session, options, error) ||
        !make_tools(session, options, error) ||
        (forerunner != NULL && !ipb_tool_channel_make_token(session->tool_channel, error)) ||
        !make_sandboxing(session, options, forerunner, error)) {
        ipb_session_free(session);
        return NULL;
    }
    make_cells(session, options);
    make_approved_changes(session);
    make_registrar(session, options);
    make_installer(session, options);
    session->kernel =
        make_kernel(session, options, ipb_cells_on_kernel_event, session->cells, error);
    if (session->kernel == NULL) {
        ipb_session_free(session);
        return NULL;
    }
    ipb_cells_set_kernel(session->cells, session->kernel);
    make_checkpoints(session, options);
    return session;
}

IpbSession *
ipb_session_new(IpbRuntime *runtime, const IpbSessionOptions *options, GError **error)
{
    return new_session(runtime, options, /* forerunner= */ NULL, error);
}

/* Whether a copy of the kernel or of a checkpoint may become a session. */
static bool
check_branch(const IpbSession *session, GError **error)
{
    const char *problem = NULL;
    if (session->staged != NULL && ipb_checkpoints_is_busy(session->checkpoints)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "a checkpoint is being made or restored, with files that the branch "
                            "would share: wait until that has ended");
        return false;
    }
    if (session->sandboxing != NULL && session->tool_relay != NULL)
        problem = "a session in a sandbox that calls the tools of another program's tool server "
                  "cannot be forked";
    if (problem != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, problem);
    return problem == NULL;
}

/* Whether the kernel may be copied or replaced now. */
static bool
check_fork(const IpbSession *session, bool is_before_cell, GError **error)
{
    const char *problem = NULL;
    IpyboxError code = IPYBOX_ERROR_INVALID;
    if (!ipb_kernel_provider_check(session->kernel_provider, IPB_KERNEL_CAN_BE_FORKED, "be forked",
                                   error))
        return false;
    if (session->is_closing) {
        problem = "the session is closed";
    } else if (session->record != NULL) {
        problem = "a session that is recorded cannot be forked or restored: a record is of one "
                  "session, and has no way back";
    } else if (!is_before_cell && !ipb_cells_is_idle(session->cells)) {
        code = IPYBOX_ERROR_BUSY;
        problem = "a cell runs or waits: a session can be forked between cells only";
    } else if (ipb_checkpoints_is_busy(session->checkpoints)) {
        code = IPYBOX_ERROR_BUSY;
        problem = "a checkpoint is being made or restored: wait until that has ended";
    } else if (!ipb_tool_host_is_idle(session->tool_host)) {
        code = IPYBOX_ERROR_BUSY;
        problem = "code in the background calls a tool: wait until the call has ended";
    }
    if (problem != NULL)
        g_set_error_literal(error, IPYBOX_ERROR, (int) code, problem);
    return problem == NULL;
}

static void
on_branched(const char *const *warnings, const GError *error, void *data)
{
    IpbSession *session = data;
    g_autoptr(GStrvBuilder) texts = g_strv_builder_new();
    if (session->branch_warning != NULL)
        g_strv_builder_add(texts, session->branch_warning);
    if (warnings != NULL)
        g_strv_builder_addv(texts, (const char **) warnings);
    g_auto(GStrv) all = g_strv_builder_end(texts);
    session->branched(error == NULL ? (const char *const *) all : NULL, error,
                      session->branched_data);
}

/* What users of a staged session may not expect. */
static const char *
find_branch_warning(const IpbSession *session, bool is_of_checkpoint)
{
    if (session->staged == NULL)
        return NULL;
    return is_of_checkpoint
               ? "files are those of now, not of the checkpoint, and they are shared: what each of "
                 "the sessions writes, commits or discards is seen by all"
               : "files are shared: what each of the sessions writes, commits or discards is seen "
                 "by all";
}

IpbSession *
ipb_session_fork(IpbSession *forerunner, const IpbSessionForkOptions *fork, IpbBranchedFunc func,
                 void *func_data, GError **error)
{
    IpbKernel *kernel = forerunner->kernel;
    if (!check_branch(forerunner, error))
        return NULL;
    if (fork->checkpoint != 0)
        kernel = ipb_checkpoints_kernel(forerunner->checkpoints, fork->checkpoint, error);
    else if (!check_fork(forerunner, /* is_before_cell= */ false, error))
        kernel = NULL;
    if (kernel == NULL)
        return NULL;
    IpbSessionOptions options = *ipb_kept_options_get(forerunner->options);
    options.env = (const char *const *) forerunner->env;
    options.workspace = forerunner->workspace;
    options.on_approval = fork->on_approval;
    options.on_approval_withdrawn = fork->on_approval_withdrawn;
    options.on_tool_call = fork->on_tool_call;
    options.on_tool_cancelled = fork->on_tool_cancelled;
    options.on_event = fork->on_event;
    options.on_log = fork->on_log;
    options.data = fork->data;
    g_autoptr(IpbSession) session = new_session(forerunner->runtime, &options, forerunner, error);
    if (session == NULL)
        return NULL;
    ipb_tool_host_allow_like(session->tool_host, forerunner->tool_host);
    ipb_cells_continue(session->cells, forerunner->cells);
    IpbBranchOptions branch = {.seed = fork->seed, .has_seed = fork->has_seed};
    /* From now on the calls of both come through one door. With a checkpoint, the kernel has its
     * token already. */
    if (forerunner->sandboxing != NULL && fork->checkpoint == 0) {
        if (!ipb_tool_channel_make_token(forerunner->tool_channel, error))
            return NULL;
        branch.token = ipb_tool_channel_token(forerunner->tool_channel);
    }
    session->branch_warning = find_branch_warning(session, fork->checkpoint != 0);
    session->branched = func;
    session->branched_data = func_data;
    if (!ipb_kernel_fork(kernel, session->kernel, &branch, on_branched, session, error))
        return NULL;
    return g_steal_pointer(&session);
}

void
ipb_session_start(IpbSession *session, bool rehearses)
{
    ipb_kernel_start(session->kernel, rehearses);
}

static void
on_part_closed(void *data)
{
    IpbSession *session = data;
    if (--session->n_closing > 0)
        return;
    if (session->sandboxing != NULL)
        ipb_sandboxing_report_denials(session->sandboxing);
    session->closed(session->closed_data); /* may free the session */
}

void
ipb_session_close(IpbSession *session, void (*done)(void *data), void *data)
{
    g_return_if_fail(!session->is_closing);
    session->is_closing = true;
    session->closed = done;
    session->closed_data = data;
    session->n_closing = 5;
    if (session->staged != NULL)
        ipb_staged_workspace_leave(session->staged);
    ipb_cells_close(session->cells);
    ipb_checkpoints_drop_all(session->checkpoints);
    if (session->approved_changes != NULL)
        ipb_approved_changes_end(session->approved_changes, on_part_closed, session);
    else
        session->n_closing--;
    ipb_approvals_cancel_all(session->approvals);
    ipb_registrar_close(session->registrar, on_part_closed, session);
    ipb_installer_close(session->installer, on_part_closed, session);
    ipb_tool_host_reset(session->tool_host, on_part_closed, session);
    ipb_kernel_stop(session->kernel, on_part_closed, session);
}

void
ipb_session_free(IpbSession *session)
{
    if (session == NULL)
        return;
    session->is_closing = true;
    ipb_approved_changes_close(session->approved_changes);
    g_clear_pointer(&session->checkpoints, ipb_checkpoints_free);
    g_clear_pointer(&session->kernel, ipb_kernel_free);
    g_clear_pointer(&session->cells, ipb_cells_free);
    g_clear_pointer(&session->sandboxing, ipb_sandboxing_free);
    g_clear_pointer(&session->staged, ipb_staged_workspace_free);
    g_clear_pointer(&session->tool_channel, ipb_tool_channel_free);
    g_clear_pointer(&session->tool_relay, ipb_tool_relay_free);
    g_clear_pointer(&session->tool_host, ipb_tool_host_free);
    g_clear_pointer(&session->approvals, ipb_approvals_free);
    g_clear_pointer(&session->approved_changes, ipb_approved_changes_free);
    g_clear_pointer(&session->record, ipb_record_free);
    g_clear_pointer(&session->registrar, ipb_registrar_free);
    g_clear_pointer(&session->installer, ipb_installer_free);
    g_clear_pointer(&session->read, ipb_file_stamps_free);
    g_strfreev(session->env);
    g_strfreev(session->server_env);
    g_strfreev(session->keep_out);
    g_clear_pointer(&session->options, ipb_kept_options_free);
    g_free(session->overlay);
    g_free(session->working_dir);
    g_free(session->workspace);
    ipb_kernel_provider_unref(session->kernel_provider);
    ipb_loop_unref(session->loop);
    ipb_runtime_unref(session->runtime);
    g_free(session);
}

/* --- cells ------------------------------------------------------------------------------------ */

void
ipb_session_watch_late_output(IpbSession *session, IpbEventFunc func, void *data)
{
    ipb_cells_watch_late_output(session->cells, func, data);
}

void
ipb_session_report_late_output(IpbSession *session)
{
    ipb_cells_report_late_output(session->cells);
}

uint64_t
ipb_session_execute(IpbSession *session, const char *code, unsigned timeout_ms,
                    IpbEventFunc on_cell_event, void *data, GError **error)
{
    IpbCellOptions options = {.timeout_ms = timeout_ms, .stores_history = true};
    return ipb_session_execute_with(session, code, &options, on_cell_event, data, error);
}

uint64_t
ipb_session_execute_with(IpbSession *session, const char *code, const IpbCellOptions *options,
                         IpbEventFunc on_cell_event, void *data, GError **error)
{
    return ipb_cells_execute(session->cells, code, options, on_cell_event, data, error);
}

/* --- a staged workspace ----------------------------------------------------------------------- */

const char *
ipb_session_layer(const IpbSession *session)
{
    return session->staged != NULL ? ipb_staged_workspace_directory(session->staged) : NULL;
}

bool
ipb_session_is_last_of_layer(const IpbSession *session)
{
    return session->staged != NULL && ipb_staged_workspace_is_last(session->staged);
}

static bool
check_staged(const IpbSession *session, GError **error)
{
    if (session->staged != NULL && !session->is_closing)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        session->is_closing ? "the session is closed"
                                            : "the session's workspace is not staged");
    return false;
}

bool
ipb_session_request_changes(IpbSession *session, bool is_discard, const char *const *paths,
                            IpbStagedFunc func, void *data, GError **error)
{
    return check_staged(session, error) &&
           ipb_approved_changes_start(session->approved_changes, is_discard, paths, func, data,
                                      error);
}

void
ipb_session_cancel_changes(IpbSession *session)
{
    if (session->approved_changes != NULL)
        ipb_approved_changes_cancel(session->approved_changes);
}

bool
ipb_session_work_on_changes(IpbSession *session, IpbStagedAction action, const char *const *paths,
                            IpbStagedFunc func, void *data, GError **error)
{
    if (!check_staged(session, error))
        return false;
    bool writes = action != IPB_STAGED_LIST && action != IPB_STAGED_LIST_DIFFS;
    if (writes && !ipb_cells_is_idle(session->cells)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "a cell runs or waits: changes are committed and discarded between "
                            "cells only");
        return false;
    }
    g_autoptr(IpbSandboxPlan) plan = ipb_sandboxing_commit_plan(session->sandboxing, error);
    return plan != NULL &&
           ipb_staged_workspace_start(session->staged, action, paths, plan, func, data, error);
}

bool
ipb_session_cancel(IpbSession *session, uint64_t cell)
{
    return ipb_cells_cancel(session->cells, cell);
}

bool
ipb_session_answer_input(IpbSession *session, uint64_t input, const char *value, const char *why,
                         GError **error)
{
    return ipb_cells_answer_input(session->cells, input, value, why, error);
}

uint64_t
ipb_session_running_cell(const IpbSession *session)
{
    return session->cells != NULL ? ipb_cells_running(session->cells) : 0;
}

void
ipb_session_interrupt(IpbSession *session)
{
    ipb_cells_interrupt(session->cells);
}

void
ipb_session_keep_notices(IpbSession *session, const GPtrArray *notices)
{
    ipb_cells_keep_notices(session->cells, notices);
}

void
ipb_session_hold_cells(IpbSession *session, bool is_held)
{
    ipb_cells_hold(session->cells, is_held);
}

bool
ipb_session_request(IpbSession *session, const char *method, const char *params,
                    IpbKernelReplyFunc func, void *data, GError **error)
{
    if (session->is_closing) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the session is closed");
        return false;
    }
    return ipb_kernel_request(session->kernel, method, params, func, data, error);
}

uint64_t
ipb_session_run_command(IpbSession *session, const IpbCommandOptions *options, IpbCommandFunc func,
                        void *data, GError **error)
{
    if (session->is_closing) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the session is closed");
        return 0;
    }
    return ipb_kernel_run_command(session->kernel, options, func, data, error);
}

IpbCommands *
ipb_session_commands(IpbSession *session)
{
    return ipb_kernel_commands(session->kernel);
}

void
ipb_session_set_paused(IpbSession *session, bool paused)
{
    ipb_kernel_set_paused(session->kernel, paused);
}

/* --- registrations and installations ---------------------------------------------------------- */

uint64_t
ipb_session_register(IpbSession *session, const IpbRegisterOptions *options, IpbRegisterFunc func,
                     void *data, GError **error)
{
    if (!ipb_kernel_provider_check(session->kernel_provider, IPB_KERNEL_HAS_TOOL_STUBS,
                                   "call tools", error))
        return 0;
    return ipb_registrar_register(session->registrar, options, func, data, error);
}

void
ipb_session_cancel_register(IpbSession *session, uint64_t number)
{
    ipb_registrar_cancel(session->registrar, number);
}

bool
ipb_session_install(IpbSession *session, const char *package, IpbInstallLineFunc on_line,
                    IpbInstallDoneFunc on_done, void *data, GError **error)
{
    return ipb_installer_install(session->installer, package, on_line, on_done, data, error);
}

void
ipb_session_cancel_install(IpbSession *session)
{
    ipb_installer_cancel(session->installer);
}
