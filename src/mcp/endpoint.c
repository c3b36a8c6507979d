/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP requests to an MCP server; see the header.
 */
#include "mcp/endpoint.h"

#include <string.h>

#include "base/error.h"
#include "oauth/oauth.h"

/* How often a request is sent again because of 401 or 403. */
#define MAX_CHALLENGES 3
/* Part of a challenge, and of a refusal's body, that messages show. */
#define MAX_SHOWN 300

struct IpbEndpoint {
    IpbLoop *loop;
    IpbServerLog *log;
    IpbHttpClient *http;
    IpbOAuth *oauth; /* NULL: static headers only */
    char *name;
    char *url, *origin;
    char **headers;
    IpbMcpLimits limits;
};

struct IpbEndpointRequest {
    IpbEndpoint *endpoint;
    char *method, *url;
    char **headers;
    char *body;
    size_t body_size;
    unsigned total_ms;
    IpbTimer *timer; /* for total_ms; NULL: none */
    IpbEndpointRequestFuncs funcs;
    void *data;
    IpbHttpCall *call;
    IpbOAuthCall *oauth_call;
    char *authorization;
    unsigned redirects, challenges;
    bool is_handled_here; /* the answer is handled here: a redirect, 401, 403, 407 */
    GString *text;        /* the beginning of such an answer */
};

/* --- endpoints --- */

static bool
has_name(const char *header, const char *other)
{
    size_t size = strcspn(header, ":");
    return size == strcspn(other, ":") && g_ascii_strncasecmp(header, other, size) == 0;
}

static bool
has_authorization(char *const *headers)
{
    for (; headers != NULL && *headers != NULL; headers++)
        if (has_name(*headers, "Authorization:"))
            return true;
    return false;
}

static void
on_oauth_warning(const char *text, void *data)
{
    IpbEndpoint *endpoint = data;
    ipb_server_log_write(endpoint->log, "warning", text, strlen(text));
}

static bool
open_endpoint(IpbEndpoint *endpoint, const IpbEndpointOptions *options, GError **error)
{
    const IpbServerParams *params = options->params;
    IpbHttpClientOptions http = {.ca_file = params->ca_file, .env = options->base_env};
    endpoint->http = ipb_http_client_new(endpoint->loop, &http, error);
    if (endpoint->http == NULL)
        return false;
    endpoint->origin = ipb_http_client_origin(endpoint->http, params->url, error);
    if (endpoint->origin == NULL)
        return false;
    if ((params->oauth != NULL && params->oauth->is_off) || has_authorization(params->headers))
        return true;
    IpbOAuthOptions oauth = {
        .server_url = params->url,
        .server_name = options->name,
        .settings = params->oauth,
        .http = endpoint->http,
        .on_warning = on_oauth_warning,
        .data = endpoint,
        .state_dir = options->state_dir,
    };
    endpoint->oauth = ipb_oauth_new(endpoint->loop, &oauth, error);
    return endpoint->oauth != NULL;
}

IpbEndpoint *
ipb_endpoint_new(IpbLoop *loop, const IpbEndpointOptions *options, GError **error)
{
    g_autoptr(IpbEndpoint) endpoint = g_new0(IpbEndpoint, 1);
    endpoint->loop = ipb_loop_ref(loop);
    endpoint->name = g_strdup(options->name);
    endpoint->log = ipb_server_log_ref(options->log);
    endpoint->url = g_strdup(options->params->url);
    endpoint->headers = g_strdupv(options->params->headers);
    endpoint->limits = *options->limits;
    if (open_endpoint(endpoint, options, error))
        return g_steal_pointer(&endpoint);
    g_prefix_error(error, "MCP server %s: ", options->name);
    return NULL;
}

void
ipb_endpoint_free(IpbEndpoint *endpoint)
{
    if (endpoint == NULL)
        return;
    ipb_oauth_free(endpoint->oauth);
    ipb_http_client_free(endpoint->http);
    ipb_server_log_unref(endpoint->log);
    ipb_loop_unref(endpoint->loop);
    g_strfreev(endpoint->headers);
    g_free(endpoint->name);
    g_free(endpoint->url);
    g_free(endpoint->origin);
    g_free(endpoint);
}

IpbLoop *
ipb_endpoint_loop(const IpbEndpoint *endpoint)
{
    return endpoint->loop;
}

const char *
ipb_endpoint_name(const IpbEndpoint *endpoint)
{
    return endpoint->name;
}

IpbServerLog *
ipb_endpoint_log(const IpbEndpoint *endpoint)
{
    return endpoint->log;
}

const IpbMcpLimits *
ipb_endpoint_limits(const IpbEndpoint *endpoint)
{
    return &endpoint->limits;
}

static char *
resolve(IpbEndpoint *endpoint, const char *base, const char *reference, GError **error)
{
    g_autofree char *url = ipb_http_client_resolve(endpoint->http, base, reference, error);
    g_autofree char *origin =
        url != NULL ? ipb_http_client_origin(endpoint->http, url, error) : NULL;
    if (origin == NULL)
        return NULL;
    if (strcmp(origin, endpoint->origin) == 0)
        return g_steal_pointer(&url);
    g_autofree char *shown = ipb_server_log_clean(origin, strlen(origin), MAX_SHOWN);
    g_set_error(
        error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
        "it leads from %s to another origin, %s; if that is intended, use it as the \"url\"",
        endpoint->origin, shown);
    return NULL;
}

char *
ipb_endpoint_resolve(IpbEndpoint *endpoint, const char *reference, GError **error)
{
    return resolve(endpoint, endpoint->url, reference, error);
}

/* --- requests --- */

static void send_request(IpbEndpointRequest *request);

/* May free the request. */
static void
end(IpbEndpointRequest *request, const GError *error)
{
    g_clear_pointer(&request->timer, ipb_timer_free);
    request->funcs.on_end(request, error, request->data);
}

static void
fail(IpbEndpointRequest *request, int code, const char *text)
{
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, code, text);
    end(request, error);
}

static void
abort_transfer(IpbEndpointRequest *request)
{
    g_clear_pointer(&request->oauth_call, ipb_oauth_call_cancel);
    g_clear_pointer(&request->call, ipb_http_call_free);
}

static void
on_timeout(void *data)
{
    IpbEndpointRequest *request = data;
    g_autofree char *text = g_strdup_printf("%s: the answer was not complete within %g s",
                                            request->endpoint->origin, request->total_ms / 1000.0);
    abort_transfer(request);
    fail(request, IPYBOX_ERROR_TIMEOUT, text);
}

/* 307 and 308 keep the method and the body. The others would turn the request into a GET. */
static bool
is_redirect(unsigned status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static void
follow(IpbEndpointRequest *request, unsigned status)
{
    const char *location = ipb_http_call_header(request->call, "Location", 0);
    unsigned most = request->endpoint->limits.redirects;
    g_autoptr(GError) error = NULL;
    g_autofree char *url =
        location != NULL ? resolve(request->endpoint, request->url, location, &error) : NULL;
    g_autofree char *text = NULL;
    if (error != NULL)
        text = g_strdup_printf("a redirect (%u) is not followed: %s", status, error->message);
    else if (url == NULL)
        text = g_strdup_printf("a redirect (%u) has no Location", status);
    else if (status < 307)
        text = g_strdup_printf("a redirect with status %u is not followed, only 307 and 308; put "
                               "the server's new address into \"url\"",
                               status);
    else if (++request->redirects > most)
        text = g_strdup_printf("more than %u redirects" IPB_MCP_LIMIT_HINT("redirects"), most);
    if (text != NULL) {
        fail(request, IPYBOX_ERROR_REFUSED, text);
        return;
    }
    g_free(request->url);
    request->url = g_steal_pointer(&url);
    send_request(request);
}

/* Fails with 401 or 403 if there are only static headers, or with a proxy's 407. */
static void
refuse(IpbEndpointRequest *request, unsigned status)
{
    bool is_proxy = status == 407;
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "%s refused the request with HTTP status %u",
                           is_proxy ? "the proxy" : "it", status);
    const char *name = is_proxy ? "Proxy-Authenticate" : "WWW-Authenticate";
    const char *challenge;
    for (unsigned i = 0; (challenge = ipb_http_call_header(request->call, name, i)) != NULL; i++) {
        g_autofree char *clean = ipb_server_log_clean(challenge, strlen(challenge), MAX_SHOWN);
        g_string_append_printf(text, "%s%s", i == 0 ? " and asks for: " : ", ", clean);
    }
    g_autofree char *body = ipb_server_log_clean_body(request->text, MAX_SHOWN);
    if (*body != '\0')
        g_string_append_printf(text, " (it says: %s)", body);
    g_string_append(text, is_proxy ? "; see http_proxy" : "; see \"headers\" in its server_params");
    fail(request, IPYBOX_ERROR_REFUSED, text->str);
    g_string_free(text, true);
}

static void
on_authorization(const char *authorization, const GError *error, void *data)
{
    IpbEndpointRequest *request = data;
    request->oauth_call = NULL;
    if (error != NULL) {
        end(request, error);
        return;
    }
    g_free(request->authorization);
    request->authorization = g_strdup(authorization);
    send_request(request);
}

static void
handle_refusal(IpbEndpointRequest *request, unsigned status)
{
    IpbOAuth *oauth = request->endpoint->oauth;
    if (oauth == NULL || request->challenges >= MAX_CHALLENGES) {
        refuse(request, status);
        return;
    }
    g_autofree char *body = ipb_server_log_clean_body(request->text, MAX_SHOWN);
    g_autoptr(GPtrArray) values = g_ptr_array_new();
    const char *value;
    for (unsigned i = 0;
         (value = ipb_http_call_header(request->call, "WWW-Authenticate", i)) != NULL; i++)
        g_ptr_array_add(values, (char *) value);
    g_ptr_array_add(values, NULL);
    IpbOAuthRefusal challenge = {
        .status = status,
        .www_authenticate = values->len > 1 ? (const char *const *) values->pdata : NULL,
        .body = body,
        .authorization = request->authorization,
        .n_retries = request->challenges++,
    };
    request->oauth_call = ipb_oauth_handle_refusal(oauth, &challenge, on_authorization, request);
}

static void
on_call_head(IpbHttpCall *call, unsigned status, void *data)
{
    IpbEndpointRequest *request = data;
    request->is_handled_here =
        is_redirect(status) || status == 401 || status == 403 || status == 407;
    g_string_truncate(request->text, 0);
    if (!request->is_handled_here)
        request->funcs.on_head(request, status, request->data);
}

static void
on_call_body(IpbHttpCall *call, const char *bytes, size_t size, void *data)
{
    IpbEndpointRequest *request = data;
    if (!request->is_handled_here)
        request->funcs.on_body(request, bytes, size, request->data);
    else if (request->text->len < MAX_SHOWN)
        g_string_append_len(request->text, bytes,
                            (gssize) MIN(size, MAX_SHOWN - request->text->len));
}

static void
on_call_end(IpbHttpCall *call, const GError *error, void *data)
{
    IpbEndpointRequest *request = data;
    unsigned status = ipb_http_call_status(call);
    if (error != NULL || !request->is_handled_here)
        end(request, error);
    else if (is_redirect(status))
        follow(request, status);
    else if (status == 407)
        refuse(request, status);
    else
        handle_refusal(request, status);
}

/* The request's own headers, those of server_params that it does not have, and the
 * authorization. */
static GPtrArray *
make_headers(const IpbEndpointRequest *request)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(g_free);
    char **headers = request->headers;
    for (size_t i = 0; headers[i] != NULL; i++)
        g_ptr_array_add(all, g_strdup(headers[i]));
    headers = request->endpoint->headers;
    for (size_t i = 0; headers != NULL && headers[i] != NULL; i++) {
        bool is_taken = has_name(headers[i], "Content-Length:") ||
                        has_name(headers[i], "Transfer-Encoding:") ||
                        (request->authorization != NULL && has_name(headers[i], "Authorization:"));
        for (size_t j = 0; request->headers[j] != NULL; j++)
            is_taken = is_taken || has_name(headers[i], request->headers[j]);
        if (!is_taken)
            g_ptr_array_add(all, g_strdup(headers[i]));
    }
    if (request->authorization != NULL)
        g_ptr_array_add(all, g_strconcat("Authorization: ", request->authorization, NULL));
    g_ptr_array_add(all, NULL);
    return all;
}

static void
send_request(IpbEndpointRequest *request)
{
    const IpbMcpLimits *limits = &request->endpoint->limits;
    g_autoptr(GPtrArray) headers = make_headers(request);
    IpbHttpCallOptions options = {
        .method = request->method,
        .url = request->url,
        .headers = (const char *const *) headers->pdata,
        .body = request->body,
        .body_size = request->body_size,
        /* Event streams have no end, so the owner limits what it keeps. The number of headers is
         * limited by head_size. */
        .limits = {.head_size = limits->head_size, .n_headers = G_MAXUINT, .body_size = SIZE_MAX},
        .deadlines = {.connect_ms = limits->connect_timeout_ms},
        .on_head = on_call_head,
        .on_body = on_call_body,
        .on_end = on_call_end,
        .data = request,
    };
    ipb_http_call_free(request->call);
    request->call = ipb_http_client_send(request->endpoint->http, &options);
}

IpbEndpointRequest *
ipb_endpoint_request_new(IpbEndpoint *endpoint, const IpbEndpointRequestOptions *options,
                         const IpbEndpointRequestFuncs *funcs, void *data)
{
    IpbEndpointRequest *request = g_new0(IpbEndpointRequest, 1);
    request->endpoint = endpoint;
    request->method = g_strdup(options->method);
    request->url = g_strdup(options->url != NULL ? options->url : endpoint->url);
    request->headers = g_strdupv((char **) options->headers);
    request->body = options->body != NULL ? g_strndup(options->body, options->body_size) : NULL;
    request->body_size = options->body_size;
    request->total_ms = options->total_ms;
    request->funcs = *funcs;
    request->data = data;
    request->text = g_string_new(NULL);
    if (request->total_ms > 0)
        request->timer = ipb_timer_new(endpoint->loop, request->total_ms, on_timeout, request);
    if (endpoint->oauth != NULL)
        request->oauth_call = ipb_oauth_get(endpoint->oauth, on_authorization, request);
    else
        send_request(request);
    return request;
}

void
ipb_endpoint_request_free(IpbEndpointRequest *request)
{
    if (request == NULL)
        return;
    abort_transfer(request);
    ipb_timer_free(request->timer);
    g_string_free(request->text, true);
    g_strfreev(request->headers);
    g_free(request->authorization);
    g_free(request->method);
    g_free(request->url);
    g_free(request->body);
    g_free(request);
}

const char *
ipb_endpoint_request_header(const IpbEndpointRequest *request, const char *name)
{
    return request->call != NULL ? ipb_http_call_header(request->call, name, 0) : NULL;
}
