/* SPDX-License-Identifier: Apache-2.0
 *
 * The registrations of a session; see the header.
 */
#include "session/registrar.h"

#include <string.h>

#include "base/beneath.h"
#include "base/error.h"
#include "json/writer.h"
#include "session/registering.h"

/* Registrations at once; each is a child process. */
#define MAX_REGISTRATIONS 64
/* As policy.h has it. */
#define MAX_CONFIGURATION (1024 * 1024)

static const char SANDBOX[] = "sandbox";
static const char SANDBOX_NOTE[] =
    "The server was started in the session's sandbox. There, uvx and npx cannot download programs "
    "unless the sandbox allows their index and their cache. The user of ipybox can allow them with "
    "--sandbox-config, or run servers outside of the sandbox with --unsandboxed-servers.";

typedef struct {
    uint64_t number;
    IpbRegistrar *registrar;
    IpbRegistering *registering;
    char *name;
    IpbJsonDoc *given; /* the caller's parameters, if the server gets others; or NULL */
    IpbRegisterFunc func;
    void *data;
} Registration;

struct IpbRegistrar {
    IpbLoop *loop;
    IpbRegistrarOptions options;
    GPtrArray *registrations; /* Registration */
    uint64_t last_number;
    void (*closed)(void *data); /* NULL: not closed */
    void *closed_data;
};

/* --- parameters of a server that must run in a sandbox ---------------------------------------- */

static bool
is_named(const IpbJson *member, const char *name)
{
    size_t size;
    const char *text = ipb_json_name(member, &size);
    return size == strlen(name) && memcmp(text, name, size) == 0;
}

/* Writes the session's configuration itself and not its path, because a registration holds in later
 * sessions, too. */
static bool
write_sandbox(IpbJsonWriter *writer, const IpbSandboxPolicy *policy, const char *workspace,
              GError **error)
{
    const char *const *domains = (const char *const *) policy->added_domains;
    if (policy->origin == NULL) {
        if (*domains == NULL) {
            ipb_json_member_bool(writer, SANDBOX, true);
            return true;
        }
        ipb_json_key(writer, SANDBOX);
        ipb_sandbox_policy_write_with_domains(writer, NULL, domains);
        return true;
    }
    size_t size;
    g_autofree char *text = NULL;
    if (!ipb_beneath_read_in(workspace, policy->origin, MAX_CONFIGURATION, &text, &size, error))
        return false;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    if (document == NULL)
        return false;
    ipb_json_key(writer, SANDBOX);
    ipb_sandbox_policy_write_with_domains(writer, ipb_json_root(document), domains);
    return true;
}

/* The same parameters with a "sandbox". A server with a "url" runs elsewhere and gets none. */
static IpbJsonDoc *
add_sandbox(const IpbJson *params, const IpbSandboxPolicy *policy, const char *workspace,
            GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    bool is_program = ipb_json_is(ipb_json_get(params, "command"), IPB_JSON_STRING);
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (member, params) {
        size_t size;
        const char *name = ipb_json_name(member, &size);
        if (is_named(member, SANDBOX))
            continue;
        ipb_json_key_n(writer, name, size);
        ipb_json_write_value(writer, member);
    }
    if (is_program && !write_sandbox(writer, policy, workspace, error)) {
        ipb_json_writer_free(writer);
        return NULL;
    }
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    return ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
}

static IpbJsonDoc *
copy_params(const IpbJson *params, GError **error)
{
    IpbSpan text = ipb_json_raw(params);
    return ipb_json_parse(text.start, text.size, &IPB_JSON_LIMITS_SMALL, error);
}

/* --- a registration --------------------------------------------------------------------------- */

static void
free_registration(Registration *registration)
{
    ipb_registering_free(registration->registering);
    ipb_json_doc_free(registration->given);
    g_free(registration->name);
    g_free(registration);
}

/* @error with a note, if the server may have failed because it was put into a sandbox: programs do
 * not say so. Else a copy. */
static GError *
explain_failure(const Registration *registration, const GError *error)
{
    bool may_be_sandbox = registration->given != NULL &&
                          ipb_json_get(ipb_json_root(registration->given), "command") != NULL &&
                          (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_SERVER) ||
                           g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT));
    if (!may_be_sandbox)
        return g_error_copy(error);
    return g_error_new(error->domain, error->code, "%s\n%s", error->message, SANDBOX_NOTE);
}

static void
on_registered(const char *const *modules, const IpbRegistration *registered, const GError *error,
              void *data)
{
    Registration *registration = data;
    IpbToolHost *tool_host = registration->registrar->options.tool_host;
    if (registered != NULL) {
        ipb_tool_host_allow(tool_host, registered);
        /* Packages made by mcpygen send the caller's parameters: they call the server in its
         * sandbox. */
        if (registration->given != NULL)
            ipb_tool_host_add_alias(tool_host, registration->name,
                                    ipb_json_root(registration->given), registered->id);
    }
    g_autoptr(GError) explained = error != NULL ? explain_failure(registration, error) : NULL;
    registration->func(modules, explained, registration->data);
}

static void
on_registering_closed(IpbRegistering *registering, void *data)
{
    Registration *registration = data;
    IpbRegistrar *registrar = registration->registrar;
    g_ptr_array_remove(registrar->registrations, registration);
    if (registrar->closed != NULL && registrar->registrations->len == 0)
        registrar->closed(registrar->closed_data);
}

static void
on_registering_log(const char *server_name, const char *level, const char *text, void *data)
{
    const IpbRegistrarOptions *options = &((Registration *) data)->registrar->options;
    g_autofree char *line = g_strdup_printf("%s: %s", server_name, text);
    options->on_log(level, line, options->data);
}

/* @params: what the server gets. */
static bool
start(Registration *registration, const IpbRegisterOptions *given, const IpbJson *params,
      GError **error)
{
    IpbRegistrar *registrar = registration->registrar;
    const IpbRegistrarOptions *options = &registrar->options;
    g_autofree char *root_dir = g_canonicalize_filename(
        given->root_dir != NULL ? given->root_dir : "mcptools", options->workspace);
    g_autofree char *base = options->sandboxing != NULL
                                ? ipb_sandboxing_find_base(options->sandboxing, root_dir)
                                : g_strdup(options->workspace);
    IpbRegisteringOptions registering = {
        .registry = options->registry,
        .name = given->name,
        .params = params,
        .root_dir = root_dir,
        .base = base,
        .async_api = given->async_api,
        .listing = given->listing,
        .cwd = options->workspace,
        .state_dir = options->state_dir,
        .keep_out = options->keep_out,
        .env = options->env,
        .connect_timeout_ms = options->connect_timeout_ms,
        .legacy_servers = options->legacy_servers,
        .on_log = on_registering_log,
        .on_done = on_registered,
        .on_closed = on_registering_closed,
        .data = registration,
    };
    registration->registering = ipb_registering_new(registrar->loop, &registering, error);
    return registration->registering != NULL;
}

/* --- the registrar ---------------------------------------------------------------------------- */

IpbRegistrar *
ipb_registrar_new(IpbLoop *loop, const IpbRegistrarOptions *options)
{
    IpbRegistrar *registrar = g_new0(IpbRegistrar, 1);
    registrar->loop = ipb_loop_ref(loop);
    registrar->options = *options;
    registrar->registrations = g_ptr_array_new_with_free_func((GDestroyNotify) free_registration);
    return registrar;
}

uint64_t
ipb_registrar_register(IpbRegistrar *registrar, const IpbRegisterOptions *options,
                       IpbRegisterFunc func, void *data, GError **error)
{
    if (registrar->closed != NULL || registrar->registrations->len >= MAX_REGISTRATIONS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    registrar->closed != NULL
                        ? "the session is closed"
                        : "%d registrations are under way: wait for one to end",
                    MAX_REGISTRATIONS);
        return 0;
    }
    const IpbSandboxing *sandboxing = registrar->options.sandboxing;
    bool must_add_sandbox = options->is_of_client && sandboxing != NULL &&
                            !registrar->options.allows_unsandboxed_servers;
    g_autoptr(IpbJsonDoc) sandboxed = NULL, given = NULL;
    if (must_add_sandbox) {
        sandboxed = add_sandbox(options->params, ipb_sandboxing_policy(sandboxing),
                                registrar->options.workspace, error);
        given = sandboxed != NULL ? copy_params(options->params, error) : NULL;
        if (given == NULL)
            return 0;
    }
    Registration *registration = g_new0(Registration, 1);
    registration->number = ++registrar->last_number;
    registration->registrar = registrar;
    registration->name = g_strdup(options->name);
    registration->given = g_steal_pointer(&given);
    registration->func = func;
    registration->data = data;
    const IpbJson *params = must_add_sandbox ? ipb_json_root(sandboxed) : options->params;
    if (!start(registration, options, params, error)) {
        free_registration(registration);
        return 0;
    }
    g_ptr_array_add(registrar->registrations, registration);
    return registration->number;
}

void
ipb_registrar_cancel(IpbRegistrar *registrar, uint64_t number)
{
    for (guint i = 0; i < registrar->registrations->len; i++) {
        Registration *registration = g_ptr_array_index(registrar->registrations, i);
        if (registration->number == number) {
            ipb_registering_cancel(registration->registering);
            return;
        }
    }
}

void
ipb_registrar_close(IpbRegistrar *registrar, void (*done)(void *data), void *data)
{
    registrar->closed = done;
    registrar->closed_data = data;
    if (registrar->registrations->len == 0)
        done(data);
    for (guint i = 0; i < registrar->registrations->len; i++) {
        Registration *registration = g_ptr_array_index(registrar->registrations, i);
        ipb_registering_cancel(registration->registering);
    }
}

void
ipb_registrar_free(IpbRegistrar *registrar)
{
    if (registrar == NULL)
        return;
    g_ptr_array_unref(registrar->registrations);
    ipb_loop_unref(registrar->loop);
    g_free(registrar);
}
