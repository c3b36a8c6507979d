/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session does beside running cells: registering MCP servers. Installing is in session-install.c.
 */
#include "base/error.h"
#include "session/boxed-params.h"
#include "session/register.h"
#include "session/session-private.h"

/* Registrations under way at once; each is a child process. */
#define MAX_JOBS 64

struct IpbSessionJob {
    uint64_t number;
    IpbSession *session;
    IpbRegistering *registering;
    char *name;
    IpbJsonDoc
        *asked; /* the parameters that were asked for, where the server gets others; or NULL */
    IpbRegisterFunc func;
    void *data;
};

void
ipb_session_job_free(IpbSessionJob *job)
{
    ipb_registering_free(job->registering);
    ipb_json_doc_free(job->asked);
    g_free(job->name);
    g_free(job);
}

static void
on_registered(const char *const *modules, const IpbRegistration *registration, const GError *error,
              void *data)
{
    IpbSessionJob *job = data;
    if (registration != NULL) {
        ipb_session_allow(job->session, registration);
        /* Packages that mcpygen made have the parameters that were asked for: they call the server in its sandbox. */
        if (job->asked != NULL)
            ipb_tool_host_add_alias(job->session->tool_host, job->name, ipb_json_root(job->asked),
                                    registration->id);
    }
    job->func(modules, error, job->data);
}

static void
on_registering_closed(IpbRegistering *registering, void *data)
{
    IpbSessionJob *job = data;
    IpbSession *session = job->session;
    g_ptr_array_remove(session->jobs, job);
    if (session->is_closing)
        ipb_session_part_closed(session);
}

static void
on_registering_log(const char *server_name, const char *level, const char *text, void *data)
{
    IpbSessionJob *job = data;
    g_autofree char *line = g_strdup_printf("%s: %s", server_name, text);
    ipb_session_log(job->session, level, line);
}

uint64_t
ipb_session_register(IpbSession *session, const IpbRegisterOptions *options, IpbRegisterFunc func,
                     void *data, GError **error)
{
    if (session->is_closing || session->jobs->len >= MAX_JOBS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    session->is_closing ? "the session is closed"
                                        : "%d registrations are under way: wait for one to end",
                    MAX_JOBS);
        return 0;
    }
    if (!ipb_kernel_provider_check(session->kernel_provider, IPB_KERNEL_HAS_TOOL_STUBS,
                                   "call tools", error))
        return 0;
    g_autoptr(IpbJsonDoc) boxed = NULL, asked = NULL;
    bool must_box = options->is_of_client && session->sandboxing != NULL && !session->frees_servers;
    if (must_box) {
        boxed = ipb_boxed_params_make(options->params, ipb_sandboxing_policy(session->sandboxing),
                                      error);
        if (boxed == NULL)
            return 0;
        IpbSpan text = ipb_json_raw(options->params);
        asked = ipb_json_parse(text.start, text.size, &IPB_JSON_LIMITS_SMALL, error);
        if (asked == NULL)
            return 0;
    }
    g_autofree char *root_dir = g_canonicalize_filename(
        options->root_dir != NULL ? options->root_dir : "mcptools", session->workspace);
    IpbSessionJob *job = g_new0(IpbSessionJob, 1);
    job->number = ++session->last_job;
    job->session = session;
    job->name = g_strdup(options->name);
    job->asked = g_steal_pointer(&asked);
    job->func = func;
    job->data = data;
    IpbRegisteringOptions registering = {
        .registry = ipb_runtime_registry(session->runtime),
        .name = options->name,
        .params = must_box ? ipb_json_root(boxed) : options->params,
        .root_dir = root_dir,
        .async_api = options->async_api,
        .listing = options->listing,
        .cwd = session->workspace,
        .state_dir = ipb_runtime_state_dir(session->runtime),
        .keep_out = (const char *const *) session->keep_out,
        .env = (const char *const *) session->server_env,
        .connect_timeout_ms = session->connect_timeout_ms,
        .legacy_servers = ipb_runtime_legacy_servers(session->runtime),
        .on_log = on_registering_log,
        .on_done = on_registered,
        .on_closed = on_registering_closed,
        .data = job,
    };
    job->registering = ipb_registering_new(session->loop, &registering, error);
    if (job->registering == NULL) {
        ipb_session_job_free(job);
        return 0;
    }
    g_ptr_array_add(session->jobs, job);
    return job->number;
}

void
ipb_session_cancel_register(IpbSession *session, uint64_t number)
{
    for (guint i = 0; i < session->jobs->len; i++) {
        IpbSessionJob *job = g_ptr_array_index(session->jobs, i);
        if (job->number == number) {
            ipb_registering_cancel(job->registering);
            return;
        }
    }
}

/* --- the end ----------------------------------------------------------------------------------- */

void
ipb_session_close_jobs(IpbSession *session)
{
    session->n_closing += session->jobs->len + (session->install != NULL ? 1 : 0);
    ipb_session_cancel_install(session);
    for (guint i = 0; i < session->jobs->len; i++) {
        IpbSessionJob *job = g_ptr_array_index(session->jobs, i);
        ipb_registering_cancel(job->registering);
    }
}
