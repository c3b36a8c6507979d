/* SPDX-License-Identifier: Apache-2.0
 *
 * Generating packages without a session; see the header.
 */
#include "serve/rpc/package-generator.h"

#include "base/error.h"
#include "session/environment.h"
#include "session/registering.h"
#include "session/installation-paths.h"

/* Each is a child process. */
#define MAX_JOBS 64

struct IpbRpcPackageGenerator {
    IpbRpcPackageGeneratorOptions options;
    IpbRegistry *registry;
    GPtrArray *jobs;
    void (*closed)(void *data); /* NULL: not closing */
    void *closed_data;
};

typedef struct {
    IpbRpcPackageGenerator *generator;
    IpbRegistering *registering;
    IpbRpcPending *pending; /* NULL once it is answered */
} Job;

static void
free_job(void *data)
{
    Job *job = data;
    ipb_registering_free(job->registering);
    g_free(job);
}

/* --- a job ----------------------------------------------------------------------------------- */

static void
on_done(const char *const *modules, const IpbRegistration *registration, const GError *error,
        void *data)
{
    Job *job = data;
    const IpbRpcPackageGeneratorOptions *options = &job->generator->options;
    IpbRpcPending *pending = g_steal_pointer(&job->pending);
    if (registration != NULL)
        options->on_generated(registration, options->data);
    if (pending == NULL)
        return;
    if (error != NULL)
        ipb_rpc_pending_fail(pending, error);
    else
        ipb_rpc_pending_reply_tools(pending, modules);
}

static void
report_if_closed(IpbRpcPackageGenerator *generator)
{
    if (generator->closed != NULL && generator->jobs->len == 0)
        g_steal_pointer (&generator->closed)(generator->closed_data);
}

static void
on_closed(IpbRegistering *registering, void *data)
{
    Job *job = data;
    IpbRpcPackageGenerator *generator = job->generator;
    g_ptr_array_remove(generator->jobs, job); /* frees it */
    report_if_closed(generator);
}

static void
on_log(const char *server_name, const char *level, const char *text, void *data)
{
    const Job *job = data;
    g_autofree char *line = g_strdup_printf("%s: %s", server_name, text);
    ipb_rpc_client_log(job->generator->options.client, level, line, NULL);
}

static void
cancel_job(IpbRpcPending *pending)
{
    const Job *job = pending->data;
    ipb_registering_cancel(job->registering);
}

/* --- sources.generate ------------------------------------------------------------------------ */

static void
start_job(IpbRpcPackageGenerator *generator, IpbRpcRequest *request, IpbRegisteringOptions *options)
{
    g_autoptr(GError) error = NULL;
    if (generator->jobs->len >= MAX_JOBS) {
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "%d packages are being generated: wait for one to end", MAX_JOBS);
        ipb_rpc_reply_error(request, error);
        return;
    }
    Job *job = g_new0(Job, 1);
    job->generator = generator;
    options->registry = generator->registry;
    options->legacy_servers = generator->options.legacy_servers;
    options->on_log = on_log;
    options->on_done = on_done;
    options->on_closed = on_closed;
    options->data = job;
    job->registering = ipb_registering_new(generator->options.loop, options, &error);
    if (job->registering == NULL) {
        free_job(job);
        ipb_rpc_reply_error(request, error);
        return;
    }
    g_ptr_array_add(generator->jobs, job);
    job->pending = ipb_rpc_pending_new(generator->options.client, NULL, request);
    job->pending->data = job;
    job->pending->cancel = cancel_job;
}

static void
sources_generate(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcPackageGenerator *generator = group;
    g_autofree char *current_dir = g_get_current_dir();
    g_auto(GStrv) given = ipb_rpc_params_environment(params, "env");
    const char *workspace = ipb_rpc_params_path(params, "workspace");
    const char *python = ipb_rpc_params_string(params, "python");
    IpbRegisteringOptions options = {
        .name = ipb_rpc_params_need_string(params, "server_name"),
        .params = ipb_rpc_params_need_object(params, "server_params"),
        .root_dir = ipb_rpc_params_path(params, "root_dir"),
        .async_api = ipb_rpc_params_bool(params, "async_api", false),
        .cwd = workspace != NULL ? workspace : current_dir,
        .base = workspace != NULL ? workspace : current_dir,
        .connect_timeout_ms = (unsigned) ipb_rpc_params_ms(params, "connect_timeout", 0),
    };
    if (options.root_dir == NULL)
        ipb_rpc_params_refuse(params, "root_dir", "an absolute path");
    if (!ipb_rpc_params_check(params, request))
        return;
    g_auto(GStrv) env = ipb_environment_application(
        (const char *const *) given, options.cwd, /* is_sandboxed= */ false,
        ipb_rpc_client_log_warning, generator->options.client);
    g_auto(GStrv) keep_out =
        ipb_installation_paths_protected_from_servers(python, NULL, NULL, NULL);
    options.env = (const char *const *) env;
    options.keep_out = (const char *const *) keep_out;
    start_job(generator, request, &options);
}

const IpbRpcMethod IPB_RPC_PACKAGE_METHODS[] = {
    {"sources.generate", sources_generate},
};
const size_t IPB_RPC_N_PACKAGE_METHODS = G_N_ELEMENTS(IPB_RPC_PACKAGE_METHODS);

/* --- life ------------------------------------------------------------------------------------ */

IpbRpcPackageGenerator *
ipb_rpc_package_generator_new(const IpbRpcPackageGeneratorOptions *options)
{
    IpbRpcPackageGenerator *generator = g_new0(IpbRpcPackageGenerator, 1);
    generator->options = *options;
    generator->registry = ipb_registry_new(NULL);
    generator->jobs = g_ptr_array_new_with_free_func(free_job);
    return generator;
}

void
ipb_rpc_package_generator_close(IpbRpcPackageGenerator *generator, void (*done)(void *data),
                                void *data)
{
    generator->closed = done;
    generator->closed_data = data;
    for (guint i = 0; i < generator->jobs->len; i++) {
        const Job *job = g_ptr_array_index(generator->jobs, i);
        ipb_registering_cancel(job->registering);
    }
    report_if_closed(generator);
}

void
ipb_rpc_package_generator_free(IpbRpcPackageGenerator *generator)
{
    g_ptr_array_unref(generator->jobs);
    ipb_registry_free(generator->registry);
    g_free(generator);
}
