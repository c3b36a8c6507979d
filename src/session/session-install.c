/* SPDX-License-Identifier: Apache-2.0
 *
 * Installing packages: one at a time for a session, asked for by the application, or in a sandboxed session by a cell (`!pip install`), as
 * a tool call that needs approval like any other. The other tools of our own are here, too: those of shell commands.
 */
#include <string.h>

#include "base/error.h"
#include "json/writer.h"
#include "session/session-private.h"

#define INSTALL_TOOL "install_package"

static void
on_install_line(const char *line, void *data)
{
    IpbSession *session = data;
    if (session->on_install_output != NULL)
        session->on_install_output(line, session->install_data);
}

static void
on_install_done(const char *output, const GError *error, void *data)
{
    IpbSession *session = data;
    IpbInstall *install = g_steal_pointer(&session->install);
    session->on_installed(output, error, session->install_data);
    ipb_install_free(install);
    if (session->is_closing)
        ipb_session_part_closed(session);
}

bool
ipb_session_install(IpbSession *session, const char *package, IpbInstallOutputFunc on_output,
                    IpbInstallFunc func, void *data, GError **error)
{
    if (session->is_closing || session->install != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            session->is_closing
                                ? "the session is closed"
                                : "another installation is under way: wait for its end");
        return false;
    }
    session->on_install_output = on_output;
    session->on_installed = func;
    session->install_data = data;
    IpbInstallOptions options = {
        .python = ipb_runtime_python(session->runtime),
        .host_directory = ipb_runtime_host_directory(session->runtime),
        .workspace = session->workspace,
        .sandboxing = session->sandboxing,
        .allows_builds = session->allows_builds,
        .overlay = session->overlay,
        .package = package,
        .env = (const char *const *) session->env,
        .on_line = on_install_line,
        .on_done = on_install_done,
        .data = session,
    };
    session->install = ipb_install_new(session->loop, &options, error);
    return session->install != NULL;
}

void
ipb_session_cancel_install(IpbSession *session)
{
    if (session->install != NULL)
        ipb_install_cancel(session->install);
}

/* --- asked for by a cell ----------------------------------------------------------------------- */

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
    uint64_t call = session->own_install_call;
    session->own_install_call = 0;
    ipb_tool_host_answer(session->tool_host, call, result, error);
}

/* The package in {"package": "…"}. Caller frees the document. */
static const char *
find_package(const char *arguments, size_t size, IpbJsonDoc **ret_document, GError **error)
{
    *ret_document = ipb_json_parse(arguments, size, &IPB_JSON_LIMITS_SMALL, error);
    if (*ret_document == NULL)
        return NULL;
    const char *package = ipb_json_get_string(ipb_json_root(*ret_document), "package");
    if (package == NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            INSTALL_TOOL ": {\"package\": a string}");
    return package;
}

/* Whose approval is all: the kernel runs the command. */
static bool
is_shell_tool(const char *tool_name)
{
    return g_str_equal(tool_name, "shell") || g_str_equal(tool_name, "shell_magic");
}

void
ipb_session_on_own_call(uint64_t call, const char *tool_name, const char *arguments, size_t size,
                        void *data)
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
    if (session->sandboxing == NULL || !g_str_equal(tool_name, INSTALL_TOOL))
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "ipybox has no tool \"%s\"",
                    tool_name);
    else
        package = find_package(arguments, size, &document, &error);
    if (package != NULL &&
        ipb_session_install(session, package, NULL, on_own_installed, session, &error))
        session->own_install_call = call;
    else
        ipb_tool_host_answer(session->tool_host, call, NULL, error);
}

void
ipb_session_on_own_cancel(uint64_t call, void *data)
{
    IpbSession *session = data;
    if (session->own_install_call == call)
        ipb_session_cancel_install(session);
}
