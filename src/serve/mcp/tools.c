/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools; see the header.
 */
#include "serve/mcp/tools.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/spelling.h"
#include "serve/mcp-tools-json.h"
#include "serve/mcp/changes-tools.h"
#include "serve/mcp/checkpoint-tools.h"
#include "serve/mcp/session-tools.h"
#include "serve/mcp/tool-listing.h"
#include "serve/mcp/variables.h"
#include "session/cell-text.h"

#define DEFAULT_TIMEOUT_S 120
#define DEFAULT_MAX_OUTPUT_CHARS 5000
#define MAX_CALLS 1000
#define MAX_ARGUMENTS 3
/* Cells that the tool undo can undo. */
#define UNDO_CELLS 20
/* Characters of an argument's name in an error. */
#define MAX_SHOWN_NAME 100
/* The beginning of its name in clientInfo. */
#define GEMINI_CLI "gemini-cli-mcp-client"

struct IpbMcpTools {
    IpbMcpToolsOptions options;
    /* NULL: the client does not say who it is, or says it with each request */
    char *client_name;
    /* NULL: calls that name no session start one */
    IpbNamedSession *default_session;
    /* IpbServedCall, those of no session */
    GPtrArray *calls;
};

/* --- arguments -------------------------------------------------------------------------------- */

/* A number, or a string that is one: models write both. */
static bool
read_number(const IpbJson *arguments, const char *name, double fallback, double *ret_value)
{
    const IpbJson *value = ipb_json_get(arguments, name);
    const char *text = ipb_json_string(value, NULL);
    if (value == NULL || ipb_json_is(value, IPB_JSON_NULL)) {
        *ret_value = fallback;
        return true;
    }
    if (text == NULL)
        return ipb_json_double(value, ret_value);
    char *end;
    *ret_value = g_ascii_strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*ret_value);
}

/* --- execute_ipython_cell --------------------------------------------------------------------- */

static void
append_images(GString *out, const GPtrArray *images)
{
    if (images->len == 0)
        return;
    g_string_append(out, "\n\nGenerated images:\n\n");
    for (guint i = 0; i < images->len; i++) {
        const char *path = g_ptr_array_index(images, i);
        g_autofree char *stem = g_path_get_basename(path);
        *strrchr(stem, '.') = '\0';
        g_string_append_printf(out, "- [%s](%s)\n", stem, path);
    }
}

/* Appends the output, the note that it was truncated, and the images, whose links are never
 * truncated. */
static void
append_output(GString *out, const IpbServedCall *call)
{
    g_autofree char *output = ipb_cell_text_get(call->text);
    g_string_append(out, output);
    if (ipb_cell_text_is_truncated(call->text))
        g_string_append_printf(out, "\n\n[Output truncated: exceeded %zu character limit]",
                               call->max_output_chars);
    if (call->images != IPB_MCP_IMAGES_CONTENT)
        append_images(out, ipb_cell_text_images(call->text));
}

/* The notices come last, because the output can be understood without them. */
static void
append_notices(GString *out, const IpbServedCall *call)
{
    const GPtrArray *notices = ipb_cell_text_notices(call->text);
    const char *left_out = call->shown != NULL ? ipb_answer_images_note(call->shown) : NULL;
    if ((notices->len > 0 || left_out != NULL) && out->len > 0)
        g_string_append(out, g_str_has_suffix(out->str, "\n") ? "\n" : "\n\n");
    if (left_out != NULL)
        g_string_append_printf(out, "%s%s", left_out, notices->len > 0 ? "\n" : "");
    for (guint i = 0; i < notices->len; i++)
        g_string_append_printf(out, "%s%s", i > 0 ? "\n" : "",
                               (const char *) g_ptr_array_index(notices, i));
}

/* The text of a failed cell begins with the error, as in ipybox 0.9; the output before it
 * follows. */
static void
finish_cell(IpbServedCall *call, const IpbEvent *event)
{
    bool is_error = event->status != IPB_CELL_OK;
    g_autoptr(GString) output = g_string_new(NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    append_output(output, call);
    if (is_error) {
        const char *error = ipb_cell_text_error(call->text);
        const char *reason = event->text != NULL ? event->text : error != NULL ? error : "";
        g_string_append_printf(text, IPB_TOOL_ERROR_PREFIX "execute_ipython_cell: ");
        if (call->named->is_closing && call->named->expiry != NULL)
            g_string_append_printf(text,
                                   "the session %s, while the cell ran: ", call->named->expiry);
        g_string_append(text, reason);
        if (output->len > 0)
            g_string_append(text, "\n\nOutput before the error:\n\n");
    }
    g_string_append_len(text, output->str, (gssize) output->len);
    append_notices(text, call);
    if (call->cell != NULL)
        call->structured = ipb_structured_cell_finish(call->cell, event, call->text);
    if (call->results != NULL)
        ipb_cell_results_finish(call->results, call->number, text->str, is_error);
    ipb_named_session_touch(call->named);
    if (call->is_cancelled) /* there will be no response */
        ipb_session_keep_notices(call->session, ipb_cell_text_notices(call->text));
    ipb_served_call_finish(call, text->str, is_error);
}

static void
withdraw_input(IpbServedCall *call)
{
    if (call->input != 0)
        ipb_elicitation_withdraw_input(call->elicitation, call->input);
    call->input = 0;
}

static void
on_cell_event(const IpbEvent *event, void *data)
{
    IpbServedCall *call = data;
    ipb_cell_text_add(call->text, event);
    if (call->cell != NULL)
        ipb_structured_cell_add(call->cell, event);
    switch (event->type) {
    case IPB_EVENT_STDOUT:
    case IPB_EVENT_STDERR:
    case IPB_EVENT_LATE_OUTPUT:
    case IPB_EVENT_TOOL_PROGRESS:
        ipb_served_call_add_news(call, event->text);
        break;
    case IPB_EVENT_INPUT_REQUEST:
        ipb_served_call_send_news(call);
        call->input = event->input;
        ipb_elicitation_ask_input(call->elicitation, call->request, event);
        break;
    case IPB_EVENT_INPUT_WITHDRAWN:
        withdraw_input(call);
        break;
    case IPB_EVENT_DONE:
        withdraw_input(call);
        ipb_served_call_send_news(call);
        finish_cell(call, event);
        break;
    case IPB_EVENT_STARTED:
        ipb_served_call_stop_waiting(call);
        break;
    case IPB_EVENT_DISPLAY:
    case IPB_EVENT_UPDATE:
    case IPB_EVENT_RESULT:
        if (call->shown != NULL)
            ipb_answer_images_add(call->shown, event->data, event->image_path);
        break;
    case IPB_EVENT_CLEAR_OUTPUT:
    case IPB_EVENT_ERROR:
    case IPB_EVENT_NOTICE:
    case IPB_EVENT_READY:
    case IPB_EVENT_START_FAILED:
    case IPB_EVENT_DIED:
    case IPB_EVENT_COMM:
        break;
    }
}

static void
cancel_cell(IpbServedCall *call)
{
    ipb_session_cancel(call->session, call->number);
}

/* Whether another cell of the session runs or waits. */
static bool
is_cell_before(const IpbServedCall *call)
{
    for (guint i = 0; i < call->calls->len; i++) {
        const IpbServedCall *other = g_ptr_array_index(call->calls, i);
        if (other != call && other->text != NULL)
            return true;
    }
    return false;
}

static void
call_execute(IpbServedCall *call, const IpbJson *arguments)
{
    double timeout_s, max_chars;
    const char *code = ipb_json_get_string(arguments, "code");
    if (code == NULL) {
        ipb_served_call_refuse(call, "code", "a string (without NUL)");
        return;
    }
    if (!read_number(arguments, "timeout", DEFAULT_TIMEOUT_S, &timeout_s) || timeout_s <= 0) {
        ipb_served_call_refuse(call, "timeout", "a number of seconds above 0");
        return;
    }
    if (!read_number(arguments, "max_output_chars", DEFAULT_MAX_OUTPUT_CHARS, &max_chars) ||
        max_chars < 0 || max_chars > INT32_MAX || max_chars != floor(max_chars)) {
        ipb_served_call_refuse(call, "max_output_chars", "an integer from 0 to 2147483647");
        return;
    }
    if (call->named->expiry != NULL) {
        ipb_served_call_fail(call, "the session has reached its maximum lifetime, and ends with "
                                   "the cell that still runs. Use session_id \"new\" to start "
                                   "another one");
        return;
    }
    call->max_output_chars = call->max_output_chars > 0
                                 ? MIN((size_t) max_chars, call->max_output_chars)
                                 : (size_t) max_chars;
    call->text = ipb_cell_text_new(call->max_output_chars);
    ipb_cell_text_mark_late(call->text);
    call->shown = call->images != IPB_MCP_IMAGES_PATH ? ipb_answer_images_new() : NULL;
    call->cell = call->is_structured ? ipb_structured_cell_new(call->max_output_chars) : NULL;
    call->cancel = cancel_cell;
    g_autoptr(GError) error = NULL;
    const IpbCellOptions options = {
        .timeout_ms = (unsigned) MIN(ceil(timeout_s * 1000), INT32_MAX),
        .stores_history = true,
        .allows_input = ipb_mcp_request_offers_forms(call->request),
    };
    call->number =
        ipb_session_execute_with(call->session, code, &options, on_cell_event, call, &error);
    if (call->number == 0) {
        ipb_served_call_fail(call, error->message);
        return;
    }
    call->named->n_cells++;
    ipb_served_call_start_waiting(call, is_cell_before(call));
    if (call->results != NULL) {
        call->cell_id = call->number;
        ipb_cell_results_begin(call->results, call->cell_id);
    }
}

static void
call_get_cell_result(IpbServedCall *call, const IpbJson *arguments)
{
    double cell;
    if (!read_number(arguments, "cell_id", 0, &cell) || cell < 0 || cell > INT32_MAX ||
        cell != floor(cell))
        ipb_served_call_refuse(call, "cell_id", "the number of a cell");
    else
        ipb_cell_results_get(call->results, call, (uint64_t) cell);
}

/* --- the others ------------------------------------------------------------------------------- */

static void
on_registered(const char *const *modules, const GError *error, void *data)
{
    IpbServedCall *call = data;
    if (error != NULL) {
        ipb_served_call_fail(call, error->message);
        return;
    }
    ipb_tool_listing_finish_register(call, modules, call->offers_describe);
}

static void
cancel_register(IpbServedCall *call)
{
    ipb_session_cancel_register(call->session, call->number);
}

static void
call_register(IpbServedCall *call, const IpbJson *arguments)
{
    IpbRegisterOptions options = {
        .name = ipb_json_get_string(arguments, "server_name"),
        .params = ipb_json_get(arguments, "server_params"),
        .listing = IPB_APIGEN_NAMED_SIGNATURES,
        .is_of_client = true,
    };
    if (options.name == NULL) {
        ipb_served_call_refuse(call, "server_name", "a string");
        return;
    }
    /* Some models write the object as a string that holds it. */
    size_t size;
    const char *text = ipb_json_string(options.params, &size);
    g_autoptr(IpbJsonDoc) doc =
        text != NULL ? ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL) : NULL;
    if (doc != NULL)
        options.params = ipb_json_root(doc);
    if (!ipb_json_is(options.params, IPB_JSON_OBJECT)) {
        ipb_served_call_refuse(call, "server_params", "an object");
        return;
    }
    call->cancel = cancel_register;
    g_autoptr(GError) error = NULL;
    call->number = ipb_session_register(call->session, &options, on_registered, call, &error);
    if (call->number == 0)
        ipb_served_call_fail(call, error->message);
}

static void
on_install_line(const char *line, void *data)
{
    g_autofree char *text = g_strconcat(line, "\n", NULL);
    ipb_served_call_add_news(data, text);
}

static void on_installed(const char *output, const GError *error, void *data);

/* The session installs one package at a time. Some clients ask for several at once. */
static void
start_next_install(GQueue *installs)
{
    IpbServedCall *call;
    while ((call = g_queue_peek_head(installs)) != NULL) {
        g_autoptr(GError) error = NULL;
        if (ipb_session_install(call->session, call->package, on_install_line, on_installed, call,
                                &error))
            return;
        g_queue_pop_head(installs);
        ipb_served_call_fail(call, error->message);
    }
}

static void
on_installed(const char *output, const GError *error, void *data)
{
    IpbServedCall *call = data;
    GQueue *installs = call->installs;
    g_queue_remove(installs, call);
    ipb_served_call_send_news(call);
    if (error != NULL)
        ipb_served_call_fail(call, error->message);
    else
        ipb_served_call_finish_named(call, "output", output);
    start_next_install(installs);
}

static void
cancel_install(IpbServedCall *call)
{
    if (call == g_queue_peek_head(call->installs)) {
        ipb_session_cancel_install(call->session);
        return;
    }
    g_queue_remove(call->installs, call);
    ipb_served_call_fail(call, "cancelled before it began");
}

static void
call_install(IpbServedCall *call, const IpbJson *arguments)
{
    const char *package = ipb_json_get_string(arguments, "package_name");
    if (package == NULL) {
        ipb_served_call_refuse(call, "package_name", "a string");
        return;
    }
    call->cancel = cancel_install;
    call->package = g_strdup(package);
    call->installs = &call->named->installs;
    g_queue_push_tail(call->installs, call);
    if (g_queue_get_length(call->installs) == 1)
        start_next_install(call->installs);
}

static void
on_reset(void *data)
{
    ipb_served_call_finish_named(
        data, "message",
        "The kernel was reset: variables, imports and definitions are gone, and MCP servers were "
        "stopped (they start again when called). Installed packages and generated APIs are kept.");
}

static void
call_reset(IpbServedCall *call, const IpbJson *arguments)
{
    ipb_session_reset(call->session, on_reset, call);
}

/* --- dispatch --------------------------------------------------------------------------------- */

typedef enum {
    STARTS_SESSION, /* if none is named and there is no default session */
    USES_SESSION,   /* an error, if none is named and there is no default session */
    SEES_SESSION,   /* works without one */
    NO_SESSION,     /* has no argument for one */
} SessionUse;

typedef struct {
    const char *name;
    /* What tools/list says: schemas, title, annotations; from tools.json */
    const char *json;
    void (*call)(IpbServedCall *call, const IpbJson *arguments);
    SessionUse session;
    /* Of ipybox 0.9, whose tools have no structured results */
    bool is_original;
    /* Their names, beside session_id */
    const char *arguments[MAX_ARGUMENTS + 1];
    /* Offered only if the user names it */
    bool is_optional;
    /* Only if workspaces are staged */
    bool is_of_staged;
} Tool;

static const Tool TOOLS[] = {
    {"register_mcp_server",
     IPB_TOOL_REGISTER_MCP_SERVER_JSON,
     call_register,
     STARTS_SESSION,
     true,
     {"server_name", "server_params"}},
    {"install_package",
     IPB_TOOL_INSTALL_PACKAGE_JSON,
     call_install,
     STARTS_SESSION,
     true,
     {"package_name"}},
    {"execute_ipython_cell",
     IPB_TOOL_EXECUTE_IPYTHON_CELL_JSON,
     call_execute,
     STARTS_SESSION,
     true,
     {"code", "timeout", "max_output_chars"}},
    {"reset", IPB_TOOL_RESET_JSON, call_reset, USES_SESSION, true, {NULL}},
    {"describe_tools",
     IPB_TOOL_DESCRIBE_TOOLS_JSON,
     ipb_tool_listing_describe,
     SEES_SESSION,
     false,
     {"query", "names", "detail"}},
    {"list_variables",
     IPB_TOOL_LIST_VARIABLES_JSON,
     ipb_variables_list,
     USES_SESSION,
     false,
     {NULL}},
    {"get_cell_result",
     IPB_TOOL_GET_CELL_RESULT_JSON,
     call_get_cell_result,
     USES_SESSION,
     false,
     {"cell_id"}},
    {"list_sessions",
     IPB_TOOL_LIST_SESSIONS_JSON,
     ipb_mcp_session_tools_list,
     NO_SESSION,
     false,
     {NULL}},
    {"close_session",
     IPB_TOOL_CLOSE_SESSION_JSON,
     ipb_mcp_session_tools_close,
     NO_SESSION,
     false,
     {"session_id"}},
    {"checkpoint",
     IPB_TOOL_CHECKPOINT_JSON,
     ipb_mcp_checkpoint_tools_make,
     USES_SESSION,
     false,
     {"name", "drop"},
     true},
    {"restore",
     IPB_TOOL_RESTORE_JSON,
     ipb_mcp_checkpoint_tools_restore,
     USES_SESSION,
     false,
     {"name", "files"},
     true},
    {"undo",
     IPB_TOOL_UNDO_JSON,
     ipb_mcp_checkpoint_tools_undo,
     USES_SESSION,
     false,
     {"cells", "files"},
     true},
    {"branch",
     IPB_TOOL_BRANCH_JSON,
     ipb_mcp_checkpoint_tools_branch,
     USES_SESSION,
     false,
     {"checkpoint"},
     true},
    {"list_changes",
     IPB_TOOL_LIST_CHANGES_JSON,
     ipb_mcp_changes_tools_list,
     USES_SESSION,
     false,
     {"paths", "diffs"},
     .is_of_staged = true},
    {"commit_changes",
     IPB_TOOL_COMMIT_CHANGES_JSON,
     ipb_mcp_changes_tools_commit,
     USES_SESSION,
     false,
     {"paths"},
     .is_of_staged = true},
    {"discard_changes",
     IPB_TOOL_DISCARD_CHANGES_JSON,
     ipb_mcp_changes_tools_discard,
     USES_SESSION,
     false,
     {"paths"},
     .is_of_staged = true},
};

static const Tool *
find_tool(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(TOOLS); i++)
        if (g_str_equal(TOOLS[i].name, name))
            return &TOOLS[i];
    return NULL;
}

static bool
is_offered(const IpbMcpTools *tools, const Tool *tool)
{
    const char *const *names = tools->options.tools.names;
    return (names == NULL ? !tool->is_optional : g_strv_contains(names, tool->name)) &&
           (tools->options.tools.is_staged || !tool->is_of_staged) &&
           (tools->options.offers_register || tool->call != call_register) &&
           (tools->options.keeps_results || tool->call != call_get_cell_result);
}

/* Gemini CLI takes a text that is JSON for structured content, and then fails if it is no object,
 * such as the result 42. */
static bool
is_structured(const IpbMcpTools *tools, const Tool *tool)
{
    return !tool->is_original || tools->options.tools.is_structured ||
           (tools->client_name != NULL && g_str_has_prefix(tools->client_name, GEMINI_CLI));
}

bool
ipb_mcp_tools_offers(const IpbMcpTools *tools, const char *name)
{
    const Tool *tool = find_tool(name);
    return tool != NULL && is_offered(tools, tool);
}

unsigned
ipb_mcp_tools_undo(const IpbMcpToolOptions *options)
{
    return options->names != NULL && g_strv_contains(options->names, "undo") ? UNDO_CELLS : 0;
}

static void
set_unknown_tool(const char *name, GError **error)
{
    g_autoptr(GString) all = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(TOOLS); i++)
        g_string_append_printf(all, "%s%s", i > 0 ? ", " : "", TOOLS[i].name);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "there is no tool %s; the tools are %s",
                name, all->str);
}

bool
ipb_mcp_tools_check(const IpbMcpToolOptions *options, GError **error)
{
    for (const char *const *name = options->names; name != NULL && *name != NULL; name++) {
        const Tool *tool = find_tool(*name);
        if (tool != NULL && (options->is_staged || !tool->is_of_staged))
            continue;
        if (tool == NULL)
            set_unknown_tool(*name, error);
        else
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "%s is about the changes of a staged workspace: it needs --staged", *name);
        return false;
    }
    return true;
}

static IpbMcpImages
choose_images(const IpbMcpTools *tools, const IpbMcpRequest *request)
{
    const IpbMcpEnvelope *envelope = ipb_mcp_request_envelope(request);
    return ipb_answer_images_choose(tools->options.tools.images,
                                    envelope != NULL ? envelope->client_name : tools->client_name);
}

/* The client gets the id of the session if it may need it: the session can be used from another
 * connection, or is not the default. The first answer says so in a text for the model, which begins
 * with an empty line, because some hosts join the texts of an answer. */
static void
tell_session(const IpbMcpTools *tools, IpbServedCall *call)
{
    IpbNamedSession *named = call->named;
    if (!tools->options.keeps_results && named == tools->default_session)
        return;
    call->session_id = g_strdup(named->id);
    if (!named->is_told)
        call->note = g_strdup_printf("\n\n[session_id: %s. Pass it as session_id to continue with "
                                     "these variables, also from another connection]",
                                     named->id);
    named->is_told = true;
}

/* @named: NULL: no session */
static IpbServedCall *
new_call(IpbMcpTools *tools, IpbMcpRequest *request, const char *name, IpbNamedSession *named)
{
    IpbServedCall *call = ipb_served_call_new(
        tools->options.loop, named != NULL ? named->calls : tools->calls, request, name);
    call->session = tools->options.common;
    call->sessions = tools->options.sessions;
    call->default_session = tools->default_session;
    call->offers_describe = ipb_mcp_tools_offers(tools, "describe_tools");
    call->images = choose_images(tools, request);
    call->max_output_chars = tools->options.tools.max_output_chars;
    if (named == NULL)
        return call;
    ipb_named_session_touch(named);
    call->named = named;
    call->session = named->session;
    call->elicitation = named->elicitation;
    call->results = named->results;
    tell_session(tools, call);
    return call;
}

static char *
explain_unknown_argument(const Tool *tool, const char *name)
{
    const char *nearest = ipb_spelling_nearest(name, tool->arguments);
    g_autofree char *valid = g_utf8_make_valid(name, -1);
    g_autofree char *shown =
        g_utf8_substring(valid, 0, MIN(g_utf8_strlen(valid, -1), MAX_SHOWN_NAME));
    g_autofree char *all = g_strjoinv(", ", (char **) tool->arguments);
    g_autoptr(GString) text = g_string_new("there is no argument ");
    g_string_append(text, shown);
    if (nearest != NULL)
        g_string_append_printf(text, ", did you mean %s?", nearest);
    if (*all != '\0')
        g_string_append_printf(text, "%s The arguments are: %s", nearest != NULL ? "" : ".", all);
    else
        g_string_append(text, "; the tool takes none");
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* The error for an unknown argument; NULL if all are known. It is refused, because a call that
 * ignores it would not do what the client wants. Caller frees. */
static char *
find_unknown_argument(const Tool *tool, const IpbJson *arguments)
{
    IPB_JSON_FOREACH (argument, arguments) {
        const char *name = ipb_json_name(argument, NULL);
        bool is_session = tool->session != NO_SESSION && g_str_equal(name, "session_id");
        if (!is_session && !g_strv_contains(tool->arguments, name))
            return explain_unknown_argument(tool, name);
    }
    return NULL;
}

/* The session that a call is of. NULL with @error; NULL without: of none. */
static IpbNamedSession *
choose_session(IpbMcpTools *tools, const Tool *tool, const IpbJson *arguments, GError **error)
{
    const IpbJson *value = ipb_json_get(arguments, "session_id");
    const char *id = ipb_json_get_string(arguments, "session_id");
    if (tool->session == NO_SESSION)
        return NULL;
    if (value != NULL && id == NULL && !ipb_json_is(value, IPB_JSON_NULL)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "invalid argument: session_id must be a string (without NUL)");
        return NULL;
    }
    if (id != NULL && *id != '\0' && !g_str_equal(id, "new"))
        return ipb_named_sessions_find(tools->options.sessions, id, error);
    if (id != NULL && *id != '\0')
        return ipb_named_sessions_add(tools->options.sessions, error);
    if (tools->default_session != NULL && !tools->default_session->is_closing)
        return tools->default_session;
    if (tool->session == SEES_SESSION)
        return NULL;
    if (tool->session == STARTS_SESSION)
        return tools->options.get_default(tools->options.data, error);
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "there is no session: pass the session_id that execute_ipython_cell "
                        "returned");
    return NULL;
}

static void
call_tool(IpbMcpTools *tools, const Tool *tool, IpbMcpRequest *request, const IpbJson *arguments)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *problem = find_unknown_argument(tool, arguments);
    IpbNamedSession *named =
        problem == NULL ? choose_session(tools, tool, arguments, &error) : NULL;
    if (named != NULL && named->calls->len >= MAX_CALLS) {
        ipb_mcp_request_fail(request, IPB_RPC_INTERNAL_ERROR, "too many calls at once", NULL);
        return;
    }
    IpbServedCall *call = new_call(tools, request, tool->name, named);
    call->is_structured = is_structured(tools, tool);
    if (problem != NULL || error != NULL)
        ipb_served_call_fail(call, problem != NULL ? problem : error->message);
    else
        tool->call(call, arguments);
}

IpbMcpTools *
ipb_mcp_tools_new(const IpbMcpToolsOptions *options)
{
    IpbMcpTools *tools = g_new0(IpbMcpTools, 1);
    tools->options = *options;
    tools->calls = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_served_call_free);
    return tools;
}

void
ipb_mcp_tools_set_client(IpbMcpTools *tools, const char *name)
{
    g_free(tools->client_name);
    tools->client_name = g_strdup(name);
}

void
ipb_mcp_tools_set_default(IpbMcpTools *tools, IpbNamedSession *session)
{
    tools->default_session = session;
}

static void
describe(const IpbMcpTools *tools, const Tool *tool, IpbJsonWriter *writer)
{
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(tool->json, strlen(tool->json), &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (member, ipb_json_root(doc)) {
        const char *name = ipb_json_name(member, NULL);
        if (!g_str_equal(name, "outputSchema") || is_structured(tools, tool))
            ipb_json_member_value(writer, name, member);
    }
    ipb_json_end_object(writer);
}

void
ipb_mcp_tools_describe(const IpbMcpTools *tools, IpbJsonWriter *writer)
{
    ipb_json_begin_array(writer);
    for (size_t i = 0; i < G_N_ELEMENTS(TOOLS); i++)
        if (is_offered(tools, &TOOLS[i]))
            describe(tools, &TOOLS[i], writer);
    ipb_json_end_array(writer);
}

void
ipb_mcp_tools_call(IpbMcpTools *tools, IpbMcpRequest *request)
{
    const IpbJson *params = ipb_mcp_request_params(request);
    const char *name = ipb_json_get_string(params, "name");
    const IpbJson *arguments = ipb_json_get(params, "arguments");
    if (ipb_json_is(arguments, IPB_JSON_NULL)) /* some clients send it for no arguments */
        arguments = NULL;
    if (name == NULL || (arguments != NULL && !ipb_json_is(arguments, IPB_JSON_OBJECT))) {
        ipb_mcp_request_fail(request, IPB_RPC_INVALID_PARAMS,
                             "tools/call: params.name must be a string, params.arguments an object",
                             NULL);
        return;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(TOOLS); i++) {
        if (g_str_equal(name, TOOLS[i].name) && is_offered(tools, &TOOLS[i])) {
            call_tool(tools, &TOOLS[i], request, arguments);
            return;
        }
    }
    g_autofree char *message = g_strdup_printf("Unknown tool: %s", name);
    ipb_served_call_finish(new_call(tools, request, name, NULL), message, true);
}

void
ipb_mcp_tools_free(IpbMcpTools *tools)
{
    if (tools == NULL)
        return;
    g_ptr_array_unref(tools->calls);
    g_free(tools->client_name);
    g_free(tools);
}
