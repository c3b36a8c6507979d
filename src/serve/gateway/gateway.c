/* SPDX-License-Identifier: Apache-2.0
 *
 * The gateway: its kernels, its routes, its life; see the header.
 *
 * Invariant: a kernel that is closing stays in `kernels` until its session is closed, so that the
 * gateway's end waits for it, but no request finds it.
 */
#include "serve/gateway/gateway.h"

#include <stdarg.h>
#include <string.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "serve/gateway/channel.h"
#include "serve/gateway/kernel.h"
#include "serve/gateway/kernelspecs.h"
#include "serve/gateway/sessions.h"
#include "serve/gateway/swagger.h"

#define DEFAULT_KERNEL_NAME "python3"
/* WebSockets included. */
#define MAX_CONNECTIONS 1024
/* Variables for a kernel in one request. */
#define MAX_ENV 100
#define ENV_PREFIX "KERNEL_"
/* A variable of each kernel, as in Jupyter's gateway. Clients cannot change it. */
#define ENV_GATEWAY "KERNEL_GATEWAY=1"
/* Bytes of a Location. A base path is much shorter, and an id has 36. */
#define MAX_LOCATION 1024

struct IpbGateway {
    IpbGatewayOptions options;
    IpbLoop *loop;
    IpbHttpServer *server;
    GPtrArray *kernels;  /* IpbGatewayKernel; those that are closing as well */
    GPtrArray *endings;  /* Ending, of kernels that are closing */
    GPtrArray *starts;   /* Start, of kernels that run the seed */
    GPtrArray *channels; /* IpbGatewayChannel */
    IpbGatewaySessions *sessions;
    IpbGatewayKernelspecs *specs; /* NULL: its own kernel only */
    GHashTable *setups;           /* of kernels of kernelspecs: IpbGatewayKernel → Setup */

    bool is_closing;
    IpbTimer *close_timer;
    void (*closed)(void *data);
    void *closed_data;
};

static void log_line(IpbGateway *gateway, const char *level, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static void
log_line(IpbGateway *gateway, const char *level, const char *format, ...)
{
    if (gateway->options.on_log == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    gateway->options.on_log(level, text, gateway->options.data);
}

/* --- kernels --------------------------------------------------------------------------------- */

/* A kernel that is being closed, until its session is gone. */
typedef struct {
    IpbGateway *gateway;
    IpbGatewayKernel *kernel;
    IpbHttpRequest *request; /* asked for the end, and is answered then; or NULL */
} Ending;

/* A kernel that was started for a request, which is answered when the kernel has run the seed. */
typedef struct Start Start;
struct Start {
    IpbGateway *gateway;
    IpbGatewayKernel *kernel;
    IpbHttpRequest *request; /* NULL: there is none, or its peer has gone */
    /* The last thing that it does is to answer the request: the next one of its connection may be
     * handled in that call. */
    void (*answer)(Start *start);
    IpbGatewaySeeding *seeding; /* NULL: there is no seed */
    /* Of requests for a session: what it is to have, and which one is to get the kernel */
    IpbJsonDoc *doc;
    IpbGatewaySessionFields fields;
    char *session_id;
};

static void finish_start(const char *failure, void *data);

/* A kernel that has ended can run nothing. */
static void
fail_start_of(IpbGateway *gateway, const IpbGatewayKernel *kernel)
{
    for (guint i = 0; i < gateway->starts->len; i++) {
        Start *start = g_ptr_array_index(gateway->starts, i);
        if (start->kernel == kernel) {
            finish_start("the kernel was ended", start);
            return;
        }
    }
}

static void
report_if_closed(IpbGateway *gateway)
{
    if (gateway->is_closing && gateway->kernels->len == 0 && gateway->closed != NULL)
        g_steal_pointer (&gateway->closed)(gateway->closed_data); /* may free the gateway */
}

static void
on_kernel_closed(void *data)
{
    Ending *ending = data;
    IpbGateway *gateway = ending->gateway;
    IpbHttpRequest *request = ending->request;
    fail_start_of(gateway, ending->kernel);
    IpbGatewayKernel *kernel = ending->kernel;
    g_ptr_array_remove_fast(gateway->kernels, kernel);
    g_hash_table_remove(gateway->setups, kernel);
    g_ptr_array_remove_fast(gateway->endings, ending);
    if (request != NULL)
        ipb_http_request_answer_text(request, 204, NULL);
    report_if_closed(gateway);
}

static void
on_request_gone(void *data)
{
    Ending *ending = data;
    ending->request = NULL;
}

/* @request: answered when the kernel has ended, so that the client can start another one in its
 * place; or NULL. */
static void
end_kernel(IpbGateway *gateway, IpbGatewayKernel *kernel, IpbHttpRequest *request)
{
    Ending *ending = g_new0(Ending, 1);
    *ending = (Ending){gateway, kernel, request};
    g_ptr_array_add(gateway->endings, ending);
    if (request != NULL)
        ipb_http_request_set_gone(request, on_request_gone, ending);
    ipb_gateway_sessions_forget_kernel(gateway->sessions, kernel);
    ipb_gateway_kernel_close(kernel, on_kernel_closed, ending);
}

static void
on_kernel_end(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data)
{
    IpbGateway *gateway = data;
    log_line(gateway, "info", "kernel %s ends: %s", ipb_gateway_kernel_id(kernel),
             why == IPB_GATEWAY_END_IDLE ? "it was idle for too long" : "a client asked");
    end_kernel(gateway, kernel, NULL);
}

/* The variables of all kernels, then @more, which override them, then our own. Borrows the
 * strings. */
static const char **
join_env(const char *const *all, const char *const *more)
{
    GPtrArray *env = g_ptr_array_new();
    for (; all != NULL && *all != NULL; all++)
        g_ptr_array_add(env, (void *) *all);
    for (; more != NULL && *more != NULL; more++)
        g_ptr_array_add(env, (void *) *more);
    g_ptr_array_add(env, (void *) ENV_GATEWAY);
    g_ptr_array_add(env, NULL);
    return (const char **) g_ptr_array_free(env, FALSE);
}

/* Of a kernel, until its session is gone. */
typedef struct {
    const IpbGatewaySpecSource *source;
    IpbGatewaySetup *setup;
} Setup;

static void
free_setup(Setup *setup)
{
    setup->source->release(setup->setup, setup->source->data);
    g_free(setup);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Setup, free_setup)

static Setup *
set_up(IpbGateway *gateway, const IpbGatewayKernelspec *spec, GError **error)
{
    const IpbGatewaySpecSource *source = &gateway->options.specs;
    g_autoptr(GError) failure = NULL;
    IpbGatewaySetup *made = source->set_up(spec, source->data, &failure);
    if (made == NULL) {
        if (!g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT))
            failure->code = IPYBOX_ERROR_SYSTEM; /* no other request of the client can help */
        g_propagate_error(error, g_steal_pointer(&failure));
        return NULL;
    }
    Setup *setup = g_new(Setup, 1);
    *setup = (Setup){source, made};
    return setup;
}

/* What a client wants of a new kernel. */
typedef struct {
    const IpbGatewayKernelspec *spec; /* NULL: the gateway's own kernel */
    const char *const *env;
    const char *working_dir; /* or NULL */
    bool is_plain;           /* the client shows text only */
} Wish;

static IpbGatewayKernel *
start_kernel(IpbGateway *gateway, const Wish *wish, GError **error)
{
    if (gateway->kernels->len >= gateway->options.max_kernels) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "Resource Limit: there are %u kernels, and there may be no more",
                    gateway->options.max_kernels);
        return NULL;
    }
    g_autoptr(Setup) setup = wish->spec != NULL ? set_up(gateway, wish->spec, error) : NULL;
    if (wish->spec != NULL && setup == NULL)
        return NULL;
    IpbSessionOptions session = setup != NULL ? setup->setup->session : *gateway->options.session;
    g_autofree char *id = g_uuid_string_random();
    g_autofree const char **kernel_env = join_env(session.kernel_env, wish->env);
    session.kernel_env = (const char *const *) kernel_env;
    session.working_dir = wish->working_dir;
    session.has_rich_client = !wish->is_plain;
    g_autofree char *file = g_strconcat(id, ".jsonl", NULL);
    const char *record_dir = gateway->options.record_dir;
    g_autofree char *record = record_dir != NULL ? g_build_filename(record_dir, file, NULL) : NULL;
    if (record != NULL) {
        session.record = record;
        session.other_record = record_dir;
    }
    IpbGatewayKernel *kernel = ipb_gateway_kernel_new(
        setup != NULL ? setup->setup->runtime : gateway->options.runtime,
        &(IpbGatewayKernelOptions){
            .session = &session,
            .id = id,
            .name = wish->spec != NULL ? wish->spec->name : gateway->options.kernel_name,
            .has_own_tools = setup != NULL,
            .idle_s = gateway->options.idle_s,
            .culls_connected = gateway->options.culls_connected,
            .on_end = on_kernel_end,
            .data = gateway,
        },
        error);
    if (kernel == NULL)
        return NULL;
    g_ptr_array_add(gateway->kernels, kernel);
    if (setup != NULL)
        g_hash_table_insert(gateway->setups, kernel, g_steal_pointer(&setup));
    log_line(gateway, "info", "kernel %s starts", id);
    return kernel;
}

/* --- the seed -------------------------------------------------------------------------------- */

static void
free_start(Start *start)
{
    ipb_gateway_seeding_free(start->seeding);
    ipb_json_doc_free(start->doc);
    g_free(start->session_id);
    g_free(start);
}

/* A kernel that did not run the whole seed ends. */
static void
finish_start(const char *failure, void *data)
{
    Start *start = data;
    IpbGateway *gateway = start->gateway;
    guint index;
    g_ptr_array_find(gateway->starts, start, &index);
    g_ptr_array_steal_index_fast(gateway->starts, index);
    ipb_gateway_kernel_set_seeding(start->kernel, false);
    if (ipb_gateway_kernel_is_closing(start->kernel))
        failure = failure != NULL ? failure : "the kernel was ended";
    else if (failure != NULL)
        end_kernel(gateway, start->kernel, NULL);
    if (failure != NULL) {
        g_autofree char *message = g_strdup_printf("the seed notebook failed: %s", failure);
        log_line(gateway, "error", "kernel %s: %s", ipb_gateway_kernel_id(start->kernel), message);
        if (start->request != NULL)
            ipb_http_request_answer_error(start->request, 500, message);
    } else if (start->answer != NULL) {
        start->answer(start);
    }
    free_start(start);
}

/* No one waits for the kernel any more: it ends, and its start with it. */
static void
on_starter_gone(void *data)
{
    Start *start = data;
    start->request = NULL;
    if (!ipb_gateway_kernel_is_closing(start->kernel))
        end_kernel(start->gateway, start->kernel, NULL);
}

/* Takes @start: @kernel runs the seed, and start->answer follows. */
static void
seed_kernel(Start *start, IpbGatewayKernel *kernel)
{
    IpbGateway *gateway = start->gateway;
    start->kernel = kernel;
    g_ptr_array_add(gateway->starts, start);
    if (gateway->options.seed == NULL) {
        finish_start(NULL, start);
        return;
    }
    if (start->request != NULL)
        ipb_http_request_set_gone(start->request, on_starter_gone, start);
    ipb_gateway_kernel_set_seeding(kernel, true);
    start->seeding =
        ipb_gateway_seeding_new(gateway->options.seed, gateway->loop,
                                ipb_gateway_kernel_session(kernel), finish_start, start);
}

static Start *
new_start(IpbGateway *gateway, IpbHttpRequest *request, void (*answer)(Start *start))
{
    Start *start = g_new0(Start, 1);
    start->gateway = gateway;
    start->request = request;
    start->answer = answer;
    return start;
}

/* NULL: there is none, or it is closing. */
static IpbGatewayKernel *
find_kernel(IpbGateway *gateway, const char *id)
{
    for (guint i = 0; i < gateway->kernels->len; i++) {
        IpbGatewayKernel *kernel = g_ptr_array_index(gateway->kernels, i);
        if (strcmp(ipb_gateway_kernel_id(kernel), id) == 0)
            return ipb_gateway_kernel_is_closing(kernel) ? NULL : kernel;
    }
    return NULL;
}

/* --- kernelspecs ----------------------------------------------------------------------------- */

static bool
is_own_name(const IpbGateway *gateway, const char *name)
{
    return g_ascii_strcasecmp(gateway->options.kernel_name, name) == 0;
}

static void
write_specs(const IpbGateway *gateway, IpbJsonWriter *writer)
{
    g_autoptr(GPtrArray) specs =
        gateway->specs != NULL ? ipb_gateway_kernelspecs_list(gateway->specs) : NULL;
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "default", gateway->options.kernel_name);
    ipb_json_key(writer, "kernelspecs");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, gateway->options.kernel_name);
    ipb_gateway_kernelspec_describe_own(gateway->options.kernel_name, writer);
    for (guint i = 0; specs != NULL && i < specs->len; i++) {
        const IpbGatewayKernelspec *spec = g_ptr_array_index(specs, i);
        if (is_own_name(gateway, spec->name))
            continue;
        ipb_json_key(writer, spec->name);
        ipb_gateway_kernelspec_describe(spec, gateway->options.base_path, writer);
    }
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}

/* Names that notebooks have for a Python, where no kernelspec has them. */
static bool
is_any_python(const char *name)
{
    static const char *const NAMES[] = {"python3", "python", "ipython", "ipybox", ""};
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++)
        if (strcmp(NAMES[i], name) == 0)
            return true;
    return false;
}

static bool
find_spec(const IpbGateway *gateway, const char *name, IpbGatewayKernelspec **ret_spec,
          GError **error)
{
    g_autoptr(GError) failure = NULL;
    *ret_spec = NULL;
    if (name == NULL || gateway->options.takes_all_names || is_own_name(gateway, name))
        return true;
    if (gateway->specs != NULL)
        *ret_spec = ipb_gateway_kernelspecs_find(gateway->specs, name, &failure);
    if (*ret_spec != NULL)
        return true;
    if (failure != NULL && !g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return false;
    }
    if (is_any_python(name))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "No such kernel named %s; there is %s, and there are the kernelspecs of ipybox",
                name, gateway->options.kernel_name);
    return false;
}

/* --- requests -------------------------------------------------------------------------------- */

/* @headers: further ones, or NULL. */
static void
answer_with_headers(IpbHttpRequest *request, unsigned status, IpbJsonWriter *writer,
                    const char *headers)
{
    size_t size;
    char *text = ipb_json_writer_finish(writer, &size);
    g_autoptr(GBytes) body = g_bytes_new_take(text, size);
    IpbHttpAnswer answer = {.status = status, .headers = headers, .body = body};
    if (!ipb_http_request_answer(request, &answer))
        ipb_http_request_answer_error(request, 503, "too many answers wait to be read");
}

static void
answer_json(IpbHttpRequest *request, unsigned status, IpbJsonWriter *writer)
{
    answer_with_headers(request, status, writer, NULL);
}

/* 201, and where the new thing is. @kind: "kernels" or "sessions". */
static void
answer_created(const IpbGateway *gateway, IpbHttpRequest *request, const char *kind, const char *id,
               IpbJsonWriter *writer)
{
    char location[MAX_LOCATION];
    const char *base = gateway->options.base_path != NULL ? gateway->options.base_path : "";
    g_snprintf(location, sizeof location, "Location: %s/api/%s/%s\r\n", base, kind, id);
    answer_with_headers(request, 201, writer, location);
}

static unsigned
status_of(const GError *error)
{
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT))
        return 403; /* as Jupyter's gateway has it */
    bool is_of_client = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID) ||
                        g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    return is_of_client ? 400 : 500;
}

/* False: kernels are hidden, and the request is answered. */
static bool
may_list(const IpbGateway *gateway, IpbHttpRequest *request)
{
    if (gateway->options.hides_kernels)
        ipb_http_request_answer_error(request, 403, "this gateway lists no kernels and sessions");
    return !gateway->options.hides_kernels;
}

/* The kernel that the path names. NULL: there is none, and the request is answered. */
static IpbGatewayKernel *
need_kernel(IpbGateway *gateway, IpbHttpRequest *request)
{
    const char *id = ipb_http_request_parameter(request, 0);
    IpbGatewayKernel *kernel = find_kernel(gateway, id);
    if (kernel == NULL) {
        g_autofree char *message = g_strdup_printf("Kernel does not exist: %s", id);
        ipb_http_request_answer_error(request, 404, message);
    }
    return kernel;
}

/* --- reading --------------------------------------------------------------------------------- */

static void
on_get_api(IpbHttpRequest *request, void *data)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_end_object(writer);
    answer_json(request, 200, writer);
}

static char *make_description(const IpbGateway *gateway, size_t *ret_size);

static void
answer_description(const IpbGateway *gateway, IpbHttpRequest *request, const char *content_type)
{
    size_t size;
    char *text = make_description(gateway, &size);
    g_autoptr(GBytes) body = g_bytes_new_take(text, size);
    IpbHttpAnswer answer = {.status = 200, .content_type = content_type, .body = body};
    if (!ipb_http_request_answer(request, &answer))
        ipb_http_request_answer_error(request, 503, "too many answers wait to be read");
}

static void
on_get_description(IpbHttpRequest *request, void *data)
{
    answer_description(data, request, NULL);
}

/* JSON is YAML, too. */
static void
on_get_yaml(IpbHttpRequest *request, void *data)
{
    answer_description(data, request, "text/x-yaml");
}

static void
on_get_specs(IpbHttpRequest *request, void *data)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    write_specs(data, writer);
    answer_json(request, 200, writer);
}

static unsigned
status_of_spec(const GError *error)
{
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
        return 404;
    return g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED) ? 403 : 500;
}

/* The one that the path names. NULL: there is none that is offered, and the request is answered. */
static IpbGatewayKernelspec *
need_spec(const IpbGateway *gateway, IpbHttpRequest *request)
{
    const char *name = ipb_http_request_parameter(request, 0);
    g_autoptr(GError) error = NULL;
    IpbGatewayKernelspec *spec =
        gateway->specs != NULL ? ipb_gateway_kernelspecs_find(gateway->specs, name, &error) : NULL;
    if (spec != NULL)
        return spec;
    if (error != NULL && status_of_spec(error) != 404) {
        ipb_http_request_answer_error(request, status_of_spec(error), error->message);
    } else {
        g_autofree char *message = g_strdup_printf("Kernel spec %s not found", name);
        ipb_http_request_answer_error(request, 404, message);
    }
    return NULL;
}

static void
on_get_spec(IpbHttpRequest *request, void *data)
{
    const IpbGateway *gateway = data;
    bool is_own = is_own_name(gateway, ipb_http_request_parameter(request, 0));
    g_autoptr(IpbGatewayKernelspec) spec = is_own ? NULL : need_spec(gateway, request);
    if (!is_own && spec == NULL)
        return;
    IpbJsonWriter *writer = ipb_json_writer_new();
    if (is_own)
        ipb_gateway_kernelspec_describe_own(gateway->options.kernel_name, writer);
    else
        ipb_gateway_kernelspec_describe(spec, gateway->options.base_path, writer);
    answer_json(request, 200, writer);
}

static void
on_get_logo(IpbHttpRequest *request, void *data)
{
    const IpbGateway *gateway = data;
    g_autoptr(GError) error = NULL;
    if (is_own_name(gateway, ipb_http_request_parameter(request, 0))) {
        ipb_http_request_answer_error(request, 404, "this kernelspec has no resources");
        return;
    }
    g_autoptr(IpbGatewayKernelspec) spec = need_spec(gateway, request);
    if (spec == NULL)
        return;
    g_autoptr(GBytes) logo =
        ipb_gateway_kernelspec_read_logo(spec, ipb_http_request_parameter(request, 1), &error);
    if (logo == NULL) {
        ipb_http_request_answer_error(request, status_of_spec(error), error->message);
        return;
    }
    IpbHttpAnswer answer = {.status = 200, .content_type = "image/png", .body = logo};
    if (!ipb_http_request_answer(request, &answer))
        ipb_http_request_answer_error(request, 503, "too many answers wait to be read");
}

static void
on_get_kernels(IpbHttpRequest *request, void *data)
{
    IpbGateway *gateway = data;
    if (!may_list(gateway, request))
        return;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < gateway->kernels->len; i++) {
        IpbGatewayKernel *kernel = g_ptr_array_index(gateway->kernels, i);
        if (!ipb_gateway_kernel_is_closing(kernel))
            ipb_gateway_kernel_describe(kernel, writer);
    }
    ipb_json_end_array(writer);
    answer_json(request, 200, writer);
}

static void
answer_kernel(IpbHttpRequest *request, const IpbGatewayKernel *kernel)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_kernel_describe(kernel, writer);
    answer_json(request, 200, writer);
}

static void
on_get_kernel(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = need_kernel(data, request);
    if (kernel != NULL)
        answer_kernel(request, kernel);
}

/* --- starting a kernel ----------------------------------------------------------------------- */

static bool
may_set(const IpbGateway *gateway, const char *name)
{
    return g_str_has_prefix(name, ENV_PREFIX) ||
           (gateway->options.client_variables != NULL &&
            g_strv_contains(gateway->options.client_variables, name));
}

/* Jupyter's clients may send variables of their environment. As in Jupyter's own gateway, only
 * those named KERNEL_… and those of the option reach kernels. */
static char **
read_env(const IpbGateway *gateway, const IpbJson *env)
{
    g_autoptr(GPtrArray) entries = g_ptr_array_new();
    IPB_JSON_FOREACH (item, env) {
        size_t size;
        const char *name = ipb_json_name(item, &size);
        const char *value = name != NULL ? ipb_json_get_string(env, name) : NULL;
        if (value != NULL && strlen(name) == size && may_set(gateway, name) &&
            strchr(name, '=') == NULL && entries->len < MAX_ENV)
            g_ptr_array_add(entries, g_strdup_printf("%s=%s", name, value));
    }
    g_ptr_array_add(entries, NULL);
    return (char **) g_ptr_array_steal(entries, NULL);
}

/* Without a body, or with an empty object, all settings have their defaults. */
static bool
parse_start(const IpbGateway *gateway, IpbSpan body, IpbJsonDoc **ret_doc, char ***ret_env,
            GError **error)
{
    g_autoptr(IpbJsonDoc) doc = NULL;
    if (body.size > 0) {
        doc = ipb_json_parse(body.start, body.size, &IPB_JSON_LIMITS_SMALL, error);
        if (doc == NULL) {
            (*error)->code = IPYBOX_ERROR_INVALID;
            return false;
        }
    }
    const IpbJson *root = doc != NULL ? ipb_json_root(doc) : NULL;
    static const char *const STRINGS[] = {"name", "working_dir"};
    if (root != NULL && !ipb_json_is(root, IPB_JSON_OBJECT) && !ipb_json_is(root, IPB_JSON_NULL)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "the body is not a JSON object");
        return false;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(STRINGS); i++) {
        const IpbJson *value = ipb_json_get(root, STRINGS[i]);
        if (value == NULL || ipb_json_is(value, IPB_JSON_NULL) ||
            ipb_json_get_string(root, STRINGS[i]) != NULL)
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s must be a string", STRINGS[i]);
        return false;
    }
    const IpbJson *rich = ipb_json_get(root, "rich");
    if (rich != NULL && !ipb_json_is(rich, IPB_JSON_BOOL) && !ipb_json_is(rich, IPB_JSON_NULL)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "rich must be a boolean");
        return false;
    }
    const IpbJson *env = ipb_json_get(root, "env");
    if (env != NULL && !ipb_json_is(env, IPB_JSON_OBJECT) && !ipb_json_is(env, IPB_JSON_NULL)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "env must be an object");
        return false;
    }
    *ret_env = read_env(gateway, env);
    *ret_doc = g_steal_pointer(&doc);
    return true;
}

/* False: the request is answered. *ret_spec is NULL for the gateway's own kernel. */
static bool
choose_spec(const IpbGateway *gateway, IpbHttpRequest *request, const char *name,
            IpbGatewayKernelspec **ret_spec)
{
    g_autoptr(GError) error = NULL;
    if (find_spec(gateway, name, ret_spec, &error))
        return true;
    ipb_http_request_answer_error(request, status_of_spec(error), error->message);
    return false;
}

static void
answer_kernel_started(Start *start)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_kernel_describe(start->kernel, writer);
    answer_created(start->gateway, start->request, "kernels", ipb_gateway_kernel_id(start->kernel),
                   writer);
}

static void
on_start_kernel(IpbHttpRequest *request, void *data)
{
    g_autoptr(IpbJsonDoc) doc = NULL;
    g_auto(GStrv) env = NULL;
    g_autoptr(GError) error = NULL;
    if (!parse_start(data, ipb_http_request_body(request), &doc, &env, &error)) {
        ipb_http_request_answer_error(request, 400, error->message);
        return;
    }
    const IpbJson *root = doc != NULL ? ipb_json_root(doc) : NULL;
    const char *name = ipb_json_get_string(root, "name");
    const char *working_dir = ipb_json_get_string(root, "working_dir");
    g_autoptr(IpbGatewayKernelspec) spec = NULL;
    if (!choose_spec(data, request, name, &spec))
        return;
    if (working_dir != NULL && !g_path_is_absolute(working_dir)) {
        ipb_http_request_answer_error(request, 400, "working_dir must be an absolute path");
        return;
    }
    IpbGatewayKernel *kernel =
        start_kernel(data,
                     &(Wish){.spec = spec,
                             .env = (const char *const *) env,
                             .working_dir = working_dir,
                             .is_plain = !ipb_json_get_bool(root, "rich", true)},
                     &error);
    if (kernel == NULL)
        ipb_http_request_answer_error(request, status_of(error), error->message);
    else
        seed_kernel(new_start(data, request, answer_kernel_started), kernel);
}

/* --- changing a kernel ----------------------------------------------------------------------- */

static void
on_interrupt(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = need_kernel(data, request);
    if (kernel == NULL)
        return;
    ipb_gateway_kernel_interrupt(kernel);
    ipb_http_request_answer_text(request, 204, NULL);
}

/* Replies as soon as the old process is being ended: messages that follow reach the new one. */
static void
on_restart(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = need_kernel(data, request);
    if (kernel == NULL)
        return;
    ipb_gateway_kernel_restart(kernel, NULL, NULL);
    answer_kernel(request, kernel);
}

static void
on_delete(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = need_kernel(data, request);
    if (kernel != NULL)
        end_kernel(data, kernel, request);
}

/* --- sessions -------------------------------------------------------------------------------- */

/* The session that the path names. NULL: there is none, and the request is answered. */
static IpbGatewaySession *
need_session(IpbGateway *gateway, IpbHttpRequest *request)
{
    const char *id = ipb_http_request_parameter(request, 0);
    IpbGatewaySession *session = ipb_gateway_sessions_find(gateway->sessions, id);
    if (session == NULL) {
        g_autofree char *message = g_strdup_printf("Session not found: %s", id);
        ipb_http_request_answer_error(request, 404, message);
    }
    return session;
}

/* Takes @start, whose answer follows with the kernel that the client names by its id, or else with
 * a new one. */
static void
get_kernel(Start *start)
{
    IpbGateway *gateway = start->gateway;
    const IpbGatewaySessionFields *fields = &start->fields;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbGatewayKernelspec) spec = NULL;
    if (fields->kernel_id != NULL) {
        start->kernel = find_kernel(gateway, fields->kernel_id);
        if (start->kernel != NULL) {
            start->answer(start);
        } else {
            g_autofree char *message = g_strdup_printf("No such kernel: %s", fields->kernel_id);
            ipb_http_request_answer_error(start->request, 400, message);
        }
    } else if (choose_spec(gateway, start->request, fields->kernel_name, &spec)) {
        IpbGatewayKernel *kernel = start_kernel(gateway, &(Wish){.spec = spec}, &error);
        if (kernel != NULL) {
            seed_kernel(start, kernel);
            return;
        }
        ipb_http_request_answer_error(start->request, status_of(error), error->message);
    }
    free_start(start);
}

/* NULL: the body is wrong, and the request is answered. */
static Start *
new_session_start(IpbGateway *gateway, IpbHttpRequest *request, void (*answer)(Start *start))
{
    Start *start = new_start(gateway, request, answer);
    g_autoptr(GError) error = NULL;
    if (ipb_gateway_session_fields_parse(ipb_http_request_body(request), &start->doc,
                                         &start->fields, &error))
        return start;
    ipb_http_request_answer_error(request, 400, error->message);
    free_start(start);
    return NULL;
}

static void
on_get_sessions(IpbHttpRequest *request, void *data)
{
    IpbGateway *gateway = data;
    if (!may_list(gateway, request))
        return;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_sessions_describe(gateway->sessions, writer);
    answer_json(request, 200, writer);
}

static void
answer_session(IpbHttpRequest *request, const IpbGatewaySession *session)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_session_describe(session, writer);
    answer_json(request, 200, writer);
}

static void
on_get_session(IpbHttpRequest *request, void *data)
{
    const IpbGatewaySession *session = need_session(data, request);
    if (session != NULL)
        answer_session(request, session);
}

static void
answer_session_created(const IpbGateway *gateway, IpbHttpRequest *request,
                       const IpbGatewaySession *session)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_session_describe(session, writer);
    answer_created(gateway, request, "sessions", ipb_gateway_session_id(session), writer);
}

static void
answer_with_new_session(Start *start)
{
    IpbGatewaySessions *sessions = start->gateway->sessions;
    g_autoptr(GError) error = NULL;
    if (ipb_gateway_sessions_check_room(sessions, &error)) {
        const IpbGatewaySession *session =
            ipb_gateway_sessions_add(sessions, &start->fields, start->kernel);
        answer_session_created(start->gateway, start->request, session);
        return;
    }
    if (start->fields.kernel_id == NULL)
        end_kernel(start->gateway, start->kernel, NULL);
    ipb_http_request_answer_error(start->request, status_of(error), error->message);
}

/* As in Jupyter, a session that has this path already is the answer. */
static void
on_create_session(IpbHttpRequest *request, void *data)
{
    IpbGateway *gateway = data;
    Start *start = new_session_start(gateway, request, answer_with_new_session);
    if (start == NULL)
        return;
    const IpbGatewaySession *session = NULL;
    g_autoptr(GError) error = NULL;
    if (start->fields.path == NULL || start->fields.type == NULL) {
        ipb_http_request_answer_error(request, 400,
                                      start->fields.path == NULL
                                          ? "Missing field in JSON data: path"
                                          : "Missing field in JSON data: type");
    } else if ((session = ipb_gateway_sessions_find_path(gateway->sessions, start->fields.path)) !=
               NULL) {
        answer_session_created(gateway, request, session);
    } else if (!ipb_gateway_sessions_check_room(gateway->sessions, &error)) {
        ipb_http_request_answer_error(request, status_of(error), error->message);
    } else {
        get_kernel(start);
        return;
    }
    free_start(start);
}

/* Another kernel replaces the session's, which ends, as in Jupyter. */
static void
answer_with_changed_session(Start *start)
{
    IpbGateway *gateway = start->gateway;
    IpbGatewaySession *session = ipb_gateway_sessions_find(gateway->sessions, start->session_id);
    if (session == NULL) { /* it was deleted while its new kernel ran the seed */
        end_kernel(gateway, start->kernel, NULL);
        ipb_http_request_answer_error(start->request, 404, "the session was deleted");
        return;
    }
    IpbGatewayKernel *before = ipb_gateway_session_kernel(session);
    ipb_gateway_session_update(session, &start->fields);
    ipb_gateway_session_set_kernel(session, start->kernel);
    if (start->kernel != before)
        end_kernel(gateway, before, NULL);
    answer_session(start->request, session);
}

static void
on_patch_session(IpbHttpRequest *request, void *data)
{
    const IpbGatewaySession *session = need_session(data, request);
    Start *start =
        session != NULL ? new_session_start(data, request, answer_with_changed_session) : NULL;
    if (start == NULL)
        return;
    start->session_id = g_strdup(ipb_gateway_session_id(session));
    if (start->fields.kernel_id != NULL || start->fields.kernel_name != NULL) {
        get_kernel(start);
        return;
    }
    start->kernel = ipb_gateway_session_kernel(session);
    start->answer(start);
    free_start(start);
}

static void
on_delete_session(IpbHttpRequest *request, void *data)
{
    const IpbGatewaySession *session = need_session(data, request);
    if (session != NULL)
        end_kernel(data, ipb_gateway_session_kernel(session), request);
}

/* --- channels -------------------------------------------------------------------------------- */

static void
on_channel_log(const char *level, const char *text, void *data)
{
    log_line(data, level, "%s", text);
}

static void
on_channel_closed(IpbGatewayChannel *channel, void *data)
{
    IpbGateway *gateway = data;
    g_ptr_array_remove_fast(gateway->channels, channel); /* frees it */
}

static void
open_channel(IpbGateway *gateway, IpbGatewayKernel *kernel, IpbHttpRequest *request)
{
    static const IpbGatewayChannelFuncs FUNCS = {on_channel_log, on_channel_closed};
    IpbGatewayChannel *channel =
        ipb_gateway_channel_new(gateway->loop, kernel, request, &FUNCS, gateway);
    if (channel != NULL)
        g_ptr_array_add(gateway->channels, channel);
}

static void
on_channels(IpbHttpRequest *request, void *data)
{
    IpbGatewayKernel *kernel = need_kernel(data, request);
    if (kernel != NULL)
        open_channel(data, kernel, request);
}

#define APPLICATION IPB_HTTP_ROLE_APPLICATION

static const IpbHttpRoute ROUTES[] = {
    {"GET", "/api", IPB_HTTP_BODY_NONE, APPLICATION, on_get_api},
    {"GET", "/api/kernelspecs", IPB_HTTP_BODY_NONE, APPLICATION, on_get_specs},
    {"GET", "/api/kernelspecs/@", IPB_HTTP_BODY_NONE, APPLICATION, on_get_spec},
    {"GET", "/kernelspecs/@/@", IPB_HTTP_BODY_NONE, APPLICATION, on_get_logo},
    {"GET", "/api/kernels", IPB_HTTP_BODY_NONE, APPLICATION, on_get_kernels},
    {"POST", "/api/kernels", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_start_kernel},
    {"GET", "/api/kernels/@", IPB_HTTP_BODY_NONE, APPLICATION, on_get_kernel},
    {"DELETE", "/api/kernels/@", IPB_HTTP_BODY_NONE, APPLICATION, on_delete},
    {"POST", "/api/kernels/@/interrupt", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_interrupt},
    {"POST", "/api/kernels/@/restart", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_restart},
    {"GET", "/api/kernels/@/channels", IPB_HTTP_BODY_NONE, APPLICATION, on_channels},
    {"GET", "/api/sessions", IPB_HTTP_BODY_NONE, APPLICATION, on_get_sessions},
    {"POST", "/api/sessions", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_create_session},
    {"GET", "/api/sessions/@", IPB_HTTP_BODY_NONE, APPLICATION, on_get_session},
    {"PATCH", "/api/sessions/@", IPB_HTTP_BODY_OPTIONAL, APPLICATION, on_patch_session},
    {"DELETE", "/api/sessions/@", IPB_HTTP_BODY_NONE, APPLICATION, on_delete_session},
    {"GET", "/api/swagger.json", IPB_HTTP_BODY_NONE, APPLICATION, on_get_description},
    {"GET", "/api/swagger.yaml", IPB_HTTP_BODY_NONE, APPLICATION, on_get_yaml},
};

static char *
make_description(const IpbGateway *gateway, size_t *ret_size)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_gateway_swagger_write(ROUTES, G_N_ELEMENTS(ROUTES), gateway->options.base_path, writer);
    return ipb_json_writer_finish(writer, ret_size);
}

/* --- life ------------------------------------------------------------------------------------ */

IpbGateway *
ipb_gateway_new(const IpbGatewayOptions *options)
{
    IpbGateway *gateway = g_new0(IpbGateway, 1);
    gateway->options = *options;
    if (options->kernel_name == NULL)
        gateway->options.kernel_name = DEFAULT_KERNEL_NAME;
    ipb_runtime_ref(options->runtime);
    gateway->loop = ipb_loop_ref(ipb_runtime_loop(options->runtime));
    gateway->kernels = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_gateway_kernel_free);
    gateway->endings = g_ptr_array_new_with_free_func(g_free);
    gateway->starts = g_ptr_array_new_with_free_func((GDestroyNotify) free_start);
    gateway->channels = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_gateway_channel_free);
    gateway->sessions = ipb_gateway_sessions_new();
    gateway->setups = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify) free_setup);
    if (options->specs.folders != NULL && !options->takes_all_names)
        gateway->specs = ipb_gateway_kernelspecs_new(&(IpbGatewayKernelspecsOptions){
            .folders = options->specs.folders,
            .check = options->specs.check,
            .check_data = options->specs.data,
            .on_log = options->on_log,
            .data = options->data,
        });
    IpbHttpServerOptions server = IPB_HTTP_SERVER_OPTIONS;
    server.routes = ROUTES;
    server.n_routes = G_N_ELEMENTS(ROUTES);
    server.data = gateway;
    server.error_member = "message";
    server.has_reason = true;
    server.base_path = options->base_path;
    server.answers_options = true;
    server.cors = options->cors;
    server.takes_any_type_with_token = true; /* Jupyter's client sends no content type */
    server.max_connections = MAX_CONNECTIONS;
    gateway->server = ipb_http_server_new(gateway->loop, &server, options->gate);
    return gateway;
}

/* Some WebSocket clients, such as Jupyter's own, send the server itself as the origin. That is
 * safe: the gateway serves no pages. */
static void
allow_own_origins(IpbGateway *gateway, const char *host)
{
    const char *names[] = {"localhost", "127.0.0.1", "[::1]", host};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *origin =
            g_strdup_printf("http://%s:%u", names[i], ipb_gateway_port(gateway));
        ipb_http_gate_allow_origin(ipb_http_server_gate(gateway->server), origin);
    }
}

bool
ipb_gateway_listen(IpbGateway *gateway, const char *host, unsigned port, GError **error)
{
    if (!ipb_http_server_listen(gateway->server, host, port, error))
        return false;
    allow_own_origins(gateway, host);
    return true;
}

bool
ipb_gateway_prespawn(IpbGateway *gateway, unsigned n, GError **error)
{
    for (unsigned i = 0; i < n; i++) {
        IpbGatewayKernel *kernel = start_kernel(gateway, &(Wish){0}, error);
        if (kernel == NULL)
            return false;
        seed_kernel(new_start(gateway, NULL, NULL), kernel);
    }
    return true;
}

unsigned
ipb_gateway_port(const IpbGateway *gateway)
{
    return ipb_http_server_port(gateway->server);
}

static void
on_close_timer(void *data)
{
    report_if_closed(data);
}

void
ipb_gateway_close(IpbGateway *gateway, void (*done)(void *data), void *data)
{
    gateway->is_closing = true;
    gateway->closed = done;
    gateway->closed_data = data;
    g_clear_pointer(&gateway->server, ipb_http_server_free);
    for (guint i = 0; i < gateway->kernels->len; i++) {
        IpbGatewayKernel *kernel = g_ptr_array_index(gateway->kernels, i);
        if (!ipb_gateway_kernel_is_closing(kernel))
            end_kernel(gateway, kernel, NULL);
    }
    gateway->close_timer = ipb_timer_new(gateway->loop, 0, on_close_timer, gateway);
}

void
ipb_gateway_free(IpbGateway *gateway)
{
    if (gateway == NULL)
        return;
    ipb_http_server_free(gateway->server);
    ipb_timer_free(gateway->close_timer);
    g_ptr_array_unref(gateway->channels);
    g_ptr_array_unref(gateway->kernels);
    g_ptr_array_unref(gateway->endings);
    g_ptr_array_unref(gateway->starts);
    ipb_gateway_sessions_free(gateway->sessions);
    g_hash_table_unref(gateway->setups);
    ipb_gateway_kernelspecs_free(gateway->specs);
    ipb_loop_unref(gateway->loop);
    ipb_runtime_unref(gateway->options.runtime);
    g_free(gateway);
}
