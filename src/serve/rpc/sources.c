/* SPDX-License-Identifier: Apache-2.0
 *
 * sources.generate: the package of an MCP server, without a session. What a client has generated, all of its sessions may call,
 * wherever the package is: the client is the application, and the one who registers.
 *
 * Ownership: the server owns the jobs. A job is gone when its MCP server is, which is after its answer.
 */
#include "base/error.h"
#include "serve/rpc/private.h"
#include "session/environment.h"
#include "session/register.h"
#include "session/sandbox-paths.h"

/* Each is a child process. */
#define MAX_JOBS 64
/* Kept for sessions that are opened later. */
#define MAX_REGISTRATIONS 10000

typedef struct {
    IpbRpcServer *server;
    IpbRegistering *registering;
    IpbRpcWork *work; /* NULL once it is answered */
} Job;

struct IpbRpcSources {
    IpbRpcServer *server;
    IpbRegistry *registry;
    IpbMcpEras *eras;
    GPtrArray *jobs;
    GPtrArray *registrations; /* IpbRegistration */
};

static void
free_job(void *data)
{
    Job *job = data;
    ipb_registering_free(job->registering);
    g_free(job);
}

IpbRpcSources *
ipb_rpc_sources_new(IpbRpcServer *server)
{
    IpbRpcSources *sources = g_new0(IpbRpcSources, 1);
    sources->server = server;
    sources->registry = ipb_registry_new(NULL);
    sources->eras = ipb_mcp_eras_new();
    sources->jobs = g_ptr_array_new_with_free_func(free_job);
    sources->registrations = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_registration_free);
    return sources;
}

void
ipb_rpc_sources_free(IpbRpcSources *sources)
{
    g_ptr_array_unref(sources->jobs);
    g_ptr_array_unref(sources->registrations);
    ipb_mcp_eras_unref(sources->eras);
    ipb_registry_free(sources->registry);
    g_free(sources);
}

IpbMcpEras *
ipb_rpc_sources_eras(IpbRpcSources *sources)
{
    return sources->eras;
}

void
ipb_rpc_sources_allow(const IpbRpcSources *sources, IpbSession *core)
{
    for (guint i = 0; i < sources->registrations->len; i++)
        ipb_session_allow(core, g_ptr_array_index(sources->registrations, i));
}

static void
remember(IpbRpcSources *sources, const IpbRegistration *registration)
{
    for (guint i = 0; i < sources->registrations->len; i++) {
        const IpbRegistration *other = g_ptr_array_index(sources->registrations, i);
        if (!g_str_equal(other->id, registration->id))
            continue;
        g_ptr_array_remove_index(sources->registrations, i);
        break;
    }
    if (sources->registrations->len < MAX_REGISTRATIONS)
        g_ptr_array_add(sources->registrations, ipb_registration_copy(registration));
    GHashTableIter iter;
    void *session;
    g_hash_table_iter_init(&iter, sources->server->sessions);
    while (g_hash_table_iter_next(&iter, NULL, &session))
        ipb_session_allow(((IpbRpcSession *) session)->core, registration);
}

static void
on_done(const char *const *modules, const IpbRegistration *registration, const GError *error,
        void *data)
{
    Job *job = data;
    IpbRpcWork *work = g_steal_pointer(&job->work);
    if (registration != NULL)
        remember(job->server->sources, registration);
    if (work == NULL)
        return;
    if (error != NULL)
        ipb_rpc_work_fail(work, error);
    else
        ipb_rpc_packages_reply_tools(work, modules);
}

static void
on_closed(IpbRegistering *registering, void *data)
{
    Job *job = data;
    IpbRpcServer *server = job->server;
    g_ptr_array_remove(server->sources->jobs, job);
    ipb_rpc_server_part_closed(server);
}

static void
on_log(const char *server_name, const char *level, const char *text, void *data)
{
    Job *job = data;
    g_autofree char *line = g_strdup_printf("%s: %s", server_name, text);
    ipb_rpc_server_log(job->server, level, line, NULL);
}

static void
cancel_job(IpbRpcWork *work)
{
    Job *job = work->data;
    ipb_registering_cancel(job->registering);
}

static void
start_job(IpbRpcServer *server, IpbRpcRequest *request, IpbRegisteringOptions *options)
{
    IpbRpcSources *sources = server->sources;
    g_autoptr(GError) error = NULL;
    if (sources->jobs->len >= MAX_JOBS) {
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "%d packages are being generated: wait for one to end", MAX_JOBS);
        ipb_rpc_server_fail(request, error);
        return;
    }
    Job *job = g_new0(Job, 1);
    job->server = server;
    options->registry = sources->registry;
    options->eras = sources->eras;
    options->on_log = on_log;
    options->on_done = on_done;
    options->on_closed = on_closed;
    options->data = job;
    job->registering = ipb_registering_new(server->loop, options, &error);
    if (job->registering == NULL) {
        free_job(job);
        ipb_rpc_server_fail(request, error);
        return;
    }
    g_ptr_array_add(sources->jobs, job);
    job->work = ipb_rpc_work_new(server, NULL, request);
    job->work->data = job;
    job->work->cancel = cancel_job;
}

void
ipb_rpc_sources_generate(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    g_autofree char *here = g_get_current_dir();
    g_auto(GStrv) given = ipb_rpc_params_environment(params, "env");
    const char *workspace = ipb_rpc_params_path(params, "workspace");
    const char *python = ipb_rpc_params_string(params, "python");
    IpbRegisteringOptions options = {
        .name = ipb_rpc_params_need_string(params, "server_name"),
        .params = ipb_rpc_params_need_object(params, "server_params"),
        .root_dir = ipb_rpc_params_path(params, "root_dir"),
        .async_api = ipb_rpc_params_bool(params, "async_api", false),
        .cwd = workspace != NULL ? workspace : here,
        .connect_timeout_ms = (unsigned) ipb_rpc_params_ms(params, "connect_timeout", 0),
    };
    if (options.root_dir == NULL)
        ipb_rpc_params_refuse(params, "root_dir", "an absolute path");
    if (!ipb_rpc_server_check(request, params))
        return;
    g_auto(GStrv) env = ipb_environment_application((const char *const *) given, options.cwd,
                                                    ipb_rpc_server_log_warning, server);
    g_auto(GStrv) keep_out = ipb_sandbox_paths_kept_out_alone(python, NULL, NULL);
    options.env = (const char *const *) env;
    options.keep_out = (const char *const *) keep_out;
    start_job(server, request, &options);
}

unsigned
ipb_rpc_sources_close(IpbRpcSources *sources)
{
    for (guint i = 0; i < sources->jobs->len; i++) {
        Job *job = g_ptr_array_index(sources->jobs, i);
        ipb_registering_cancel(job->registering);
    }
    return sources->jobs->len;
}
