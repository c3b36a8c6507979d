/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a registration; see the header.
 */
#include "session/registering.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "apigen/apigen.h"
#include "apigen/generated-package.h"
#include "base/error.h"

struct IpbRegistering {
    IpbLoop *loop;
    IpbRegistry *registry;
    char *name;
    char *root_dir;
    char *base;
    IpbJsonDoc *params;
    bool async_api;
    IpbApigenListing listing;
    bool is_done;
    bool is_root_made; /* the root directory is new */
    IpbMcpClient *client;
    IpbRegisteringOptions options; /* only its functions and data are used after _new */
};

static void
on_client_closed(void *data)
{
    IpbRegistering *registering = data;
    registering->options.on_closed(registering, registering->options.data); /* may free it */
}

/* Ends the steps: reports the result, then disconnects. */
static void
finish(IpbRegistering *registering, const char *const *modules, const IpbRegistration *registration,
       const GError *error)
{
    if (registering->is_done)
        return;
    registering->is_done = true;
    registering->options.on_done(modules, registration, error, registering->options.data);
    ipb_mcp_client_close(registering->client, on_client_closed, registering);
}

static void
log_text(const IpbRegistering *registering, const char *level, const char *text)
{
    if (registering->options.on_log != NULL)
        registering->options.on_log(registering->name, level, text, registering->options.data);
}

typedef struct {
    IpbRegistering *registering;
    const IpbJson *tools;
    IpbRegistration *registration; /* NULL: not registered yet */
} Confirmation;

/* Keeps package and registry consistent: if one cannot be written, because the disk is full, both
 * stay as they were. */
static bool
add_to_registry(void *data, GError **error)
{
    Confirmation *confirmation = data;
    const IpbRegistering *registering = confirmation->registering;
    g_autofree char *digest = ipb_registry_digest_tools(confirmation->tools);
    confirmation->registration = ipb_registry_add_package(registering->registry, registering->name,
                                                          ipb_json_root(registering->params),
                                                          registering->root_dir, digest, error);
    return confirmation->registration != NULL;
}

static IpbRegistration *
write_package(IpbRegistering *registering, const IpbJson *tools, char ***ret_modules,
              GError **error)
{
    const IpbJson *params = ipb_json_root(registering->params);
    g_autofree char *id = ipb_registry_make_id(registering->name, params);
    IpbApigenOptions options = {registering->name, id, registering->async_api,
                                registering->listing};
    g_auto(GStrv) modules = NULL;
    g_autoptr(GPtrArray) files = ipb_apigen_generate(tools, &options, &modules, error);
    g_autofree char *note = NULL;
    Confirmation confirmation = {.registering = registering, .tools = tools};
    g_autoptr(IpbBeneath) root =
        files != NULL ? ipb_beneath_open_in(registering->base, registering->root_dir, 0777, error)
                      : NULL;
    if (root == NULL || !ipb_generated_package_write(files, root, registering->name,
                                                     add_to_registry, &confirmation, &note, error))
        return NULL;
    if (note != NULL)
        log_text(registering, "warning", note);
    *ret_modules = g_steal_pointer(&modules);
    return confirmation.registration;
}

static void
on_tools(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    IpbRegistering *registering = data;
    if (error != NULL) {
        finish(registering, NULL, NULL, error);
        return;
    }
    g_autoptr(GError) failure = NULL;
    g_auto(GStrv) modules = NULL;
    g_autoptr(IpbRegistration) registration =
        write_package(registering, ipb_json_get(result, "tools"), &modules, &failure);
    finish(registering, (const char *const *) modules, registration, failure);
}

static void
on_connected(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    IpbRegistering *registering = data;
    if (error != NULL)
        finish(registering, NULL, NULL, error);
    else if (!registering->is_done)
        ipb_mcp_client_list_tools(registering->client, on_tools, registering);
}

static void
on_server_log(const char *level, const char *text, void *data)
{
    log_text(data, level, text);
}

static const IpbMcpClientFuncs client_funcs = {.on_log = on_server_log};

/* A sandbox protects what exists when it starts. If the package root were created later, the server
 * could write it. */
static bool
make_root(IpbRegistering *registering, GError **error)
{
    const char *base = registering->base, *root_dir = registering->root_dir;
    g_autoptr(IpbBeneath) there = ipb_beneath_open_in(base, root_dir, 0, NULL);
    g_autoptr(IpbBeneath) root = ipb_beneath_open_in(base, root_dir, 0777, error);
    registering->is_root_made = there == NULL && root != NULL;
    return root != NULL;
}

/* Fails early if the package cannot be written. */
static bool
check_root(const IpbRegistering *registering, GError **error)
{
    g_autoptr(GError) failure = NULL;
    g_autoptr(IpbBeneath) root =
        ipb_beneath_open_in(registering->base, registering->root_dir, 0, &failure);
    if (root != NULL || !g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED))
        return true;
    g_propagate_error(error, g_steal_pointer(&failure));
    return false;
}

static void
remove_root(const IpbRegistering *registering)
{
    g_autofree char *parent = g_path_get_dirname(registering->root_dir);
    g_autofree char *name = g_path_get_basename(registering->root_dir);
    g_autoptr(IpbBeneath) directory = ipb_beneath_open_in(registering->base, parent, 0, NULL);
    if (directory != NULL)
        unlinkat(ipb_beneath_fd(directory), name, AT_REMOVEDIR); /* only if it is empty */
}

/* Does everything that can fail before the server is started. */
static bool
prepare(IpbRegistering *registering, const IpbRegisteringOptions *options, GError **error)
{
    if (!ipb_apigen_check_server_name(options->name, error))
        return false;
    g_autoptr(IpbServerParams) params = ipb_server_params_parse(options->params, error);
    if (params == NULL)
        return false;
    g_autoptr(IpbServerParams) expanded = ipb_server_params_expand(params, options->env, error);
    if (expanded == NULL)
        return false;
    IpbMcpClientOptions client = {
        .name = registering->name,
        .params = expanded,
        .cwd = options->cwd,
        .state_dir = options->state_dir,
        .keep_out = options->keep_out,
        .base_env = options->env,
        .connect_timeout_ms = options->connect_timeout_ms,
        .legacy_servers = options->legacy_servers,
        /* Listing tools takes no longer than connecting. */
        .call_timeout_ms = options->connect_timeout_ms > 0 ? options->connect_timeout_ms : 30000,
    };
    bool is_srt = expanded->command != NULL && strcmp(expanded->command, "srt") == 0;
    bool is_boxed = expanded->sandbox != NULL || is_srt;
    if (is_boxed ? !make_root(registering, error) : !check_root(registering, error))
        return false;
    registering->client =
        ipb_mcp_client_new(registering->loop, &client, &client_funcs, registering);
    return true;
}

IpbRegistering *
ipb_registering_new(IpbLoop *loop, const IpbRegisteringOptions *options, GError **error)
{
    IpbSpan raw = ipb_json_raw(options->params);
    g_autoptr(IpbJsonDoc) params =
        ipb_json_parse(raw.start, raw.size, &IPB_JSON_LIMITS_SMALL, error);
    if (params == NULL)
        return NULL;
    IpbRegistering *registering = g_new0(IpbRegistering, 1);
    registering->loop = ipb_loop_ref(loop);
    registering->registry = options->registry;
    registering->name = g_strdup(options->name);
    registering->root_dir = g_strdup(options->root_dir);
    registering->base = g_strdup(options->base);
    registering->params = g_steal_pointer(&params);
    registering->async_api = options->async_api;
    registering->listing = options->listing;
    registering->options = *options;
    if (!prepare(registering, options, error)) {
        ipb_registering_free(registering);
        return NULL;
    }
    ipb_mcp_client_connect(registering->client, on_connected, registering);
    return registering;
}

void
ipb_registering_cancel(IpbRegistering *registering)
{
    if (registering->is_done)
        return;
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the registration was cancelled");
    finish(registering, NULL, NULL, error);
}

void
ipb_registering_free(IpbRegistering *registering)
{
    if (registering == NULL)
        return;
    ipb_mcp_client_free(registering->client);
    if (registering->is_root_made)
        remove_root(registering);
    ipb_json_doc_free(registering->params);
    g_free(registering->name);
    g_free(registering->root_dir);
    g_free(registering->base);
    ipb_loop_unref(registering->loop);
    g_free(registering);
}
