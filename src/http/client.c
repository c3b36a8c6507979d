/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of an HTTP client and libcurl's place in the loop; see the header. One call is in
 * call.c.
 *
 * libcurl calls us while it runs, and must not be called then (in_curl): what our functions begin or
 * free meanwhile waits until it has returned.
 */
#include "http/client-private.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/error.h"

/* Idle connections that are kept. */
#define MAX_IDLE_CONNECTIONS 16L
#define MAX_CA_FILE_SIZE (16 << 20)

const char *
ipb_http_client_env(const IpbHttpClient *client, const char *name)
{
    const char *value = client->env != NULL ? g_environ_getenv(client->env, name) : g_getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* What has happened to the calls by now. */
static void
read_ends(IpbHttpClient *client)
{
    CURLMsg *message;
    int left;
    while ((message = client->curl->multi_info_read(client->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE)
            continue;
        IpbHttpCall *call = NULL;
        CURLcode code = message->data.result;
        client->curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **) &call);
        ipb_http_call_finish(call, code);
    }
}

/* Frees the calls that their owners freed while libcurl ran. */
static void
sweep(IpbHttpClient *client)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, client->calls);
    while (g_hash_table_iter_next(&iter, &item, NULL)) {
        if (!((IpbHttpCall *) item)->is_freed)
            continue;
        g_hash_table_iter_remove(&iter);
        ipb_http_call_destroy(item);
    }
}

static void
destroy(IpbHttpClient *client)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, client->calls);
    while (g_hash_table_iter_next(&iter, &item, NULL))
        ipb_http_call_destroy(item);
    g_hash_table_unref(client->calls);
    g_queue_clear(&client->waiting);
    g_queue_clear(&client->ended);
    g_clear_pointer(&client->work_timer, ipb_timer_free);
    if (client->multi != NULL)
        client->curl->multi_cleanup(client->multi); /* it still tells of sockets and timers */
    g_clear_pointer(&client->timer, ipb_timer_free);
    ipb_curl_unload(client->curl);
    ipb_loop_unref(client->loop);
    g_free(client->ca_file);
    g_free(client->ca_dir);
    g_strfreev(client->env);
    g_free(client);
}

/* The functions of calls may free the client. */
static void
tell_ends(IpbHttpClient *client)
{
    client->telling++;
    for (guint n = client->ended.length; n > 0 && !client->is_freed; n--) {
        IpbHttpCall *call = g_queue_pop_head(&client->ended);
        if (call == NULL)
            break;
        g_autoptr(GError) error = g_steal_pointer(&call->error);
        call->on_end(call, error, call->data); /* may free it */
    }
    client->telling--;
    if (client->is_freed && client->telling == 0) {
        destroy(client);
        return;
    }
    if (client->ended.length > 0)
        ipb_http_client_schedule(client);
}

static void
on_work(void *data)
{
    IpbHttpClient *client = data;
    g_clear_pointer(&client->work_timer, ipb_timer_free);
    IpbHttpCall *call;
    while ((call = g_queue_pop_head(&client->waiting)) != NULL) {
        call->is_queued = false;
        client->in_curl++;
        CURLMcode code = client->curl->multi_add_handle(client->multi, call->easy);
        client->in_curl--;
        call->is_added = code == CURLM_OK;
        if (code == CURLM_OK)
            ipb_http_call_start_timer(call);
        else
            ipb_http_call_finish(call, CURLE_FAILED_INIT);
    }
    tell_ends(client);
}

void
ipb_http_client_schedule(IpbHttpClient *client)
{
    if (client->work_timer == NULL && !client->is_freed)
        client->work_timer = ipb_timer_new(client->loop, 0, on_work, client);
}

static void
act(IpbHttpClient *client, curl_socket_t fd, int what)
{
    int running;
    client->in_curl++;
    client->curl->multi_socket_action(client->multi, fd, what, &running);
    client->in_curl--;
    if (client->is_freed) {
        if (client->telling == 0)
            destroy(client);
        return;
    }
    read_ends(client);
    sweep(client);
    tell_ends(client);
}

typedef struct {
    IpbHttpClient *client;
    curl_socket_t fd;
    IpbWatch *watch;
} Socket;

static void
on_socket_ready(uint32_t events, void *data)
{
    Socket *sock = data;
    act(sock->client, sock->fd,
        (events & EPOLLIN ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
            (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
}

/* libcurl: watch this socket. */
static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
    IpbHttpClient *client = data;
    Socket *sock = socket_data;
    if (what == CURL_POLL_REMOVE) {
        if (sock != NULL)
            ipb_watch_free(sock->watch);
        g_free(sock);
        client->curl->multi_assign(client->multi, fd, NULL);
        return 0;
    }
    uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    if (sock != NULL) {
        ipb_watch_set_events(sock->watch, events);
        return 0;
    }
    sock = g_new(Socket, 1);
    *sock = (Socket){client, fd, NULL};
    sock->watch = ipb_watch_new(client->loop, fd, events, on_socket_ready, sock, NULL);
    if (sock->watch == NULL) { /* no memory for it: the call's deadline ends it */
        g_free(sock);
        return 0;
    }
    client->curl->multi_assign(client->multi, fd, sock);
    return 0;
}

static void
on_timer(void *data)
{
    IpbHttpClient *client = data;
    g_clear_pointer(&client->timer, ipb_timer_free);
    act(client, CURL_SOCKET_TIMEOUT, 0);
}

/* libcurl: call again then. */
static int
on_timer_wanted(CURLM *multi, long delay_ms, void *data)
{
    IpbHttpClient *client = data;
    g_clear_pointer(&client->timer, ipb_timer_free);
    if (delay_ms >= 0)
        client->timer = ipb_timer_new(client->loop, (unsigned) delay_ms, on_timer, client);
    return 0;
}

/* A device would be read without an end. */
static bool
check_ca_file(const char *path, GError **error)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return ipb_error_set_errno(error, errno, "ca_file %s", path);
    if (S_ISREG(info.st_mode) && info.st_size <= MAX_CA_FILE_SIZE)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "ca_file must be a file of certificates, of at most %d MiB: %s",
                MAX_CA_FILE_SIZE >> 20, path);
    return false;
}

IpbHttpClient *
ipb_http_client_new(IpbLoop *loop, const IpbHttpClientOptions *options, GError **error)
{
    if (options != NULL && options->ca_file != NULL && !check_ca_file(options->ca_file, error))
        return NULL;
    IpbCurl *curl = ipb_curl_load(error);
    if (curl == NULL)
        return NULL;
    IpbHttpClient *client = g_new0(IpbHttpClient, 1);
    client->curl = curl;
    client->loop = ipb_loop_ref(loop);
    client->calls = g_hash_table_new(NULL, NULL);
    client->env = options != NULL ? g_strdupv((char **) options->env) : NULL;
    const char *ca_file = options != NULL && options->ca_file != NULL
                              ? options->ca_file
                              : ipb_http_client_env(client, "SSL_CERT_FILE");
    client->ca_file = g_strdup(ca_file != NULL ? ca_file : ipb_curl_find_authorities());
    if (options == NULL || options->ca_file == NULL)
        client->ca_dir = g_strdup(ipb_http_client_env(client, "SSL_CERT_DIR"));
    client->multi = curl->multi_init();
    if (client->multi == NULL ||
        curl->multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_TIMERDATA, client) != CURLM_OK ||
        curl->multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, MAX_IDLE_CONNECTIONS) != CURLM_OK) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "%s does not work here",
                    curl->version());
        destroy(client);
        return NULL;
    }
    return client;
}

void
ipb_http_client_free(IpbHttpClient *client)
{
    if (client == NULL || client->is_freed)
        return;
    client->is_freed = true;
    if (client->telling == 0 && client->in_curl == 0)
        destroy(client);
}

IpbHttpCall *
ipb_http_client_send(IpbHttpClient *client, const IpbHttpCallOptions *options)
{
    IpbHttpCall *call = g_new0(IpbHttpCall, 1);
    call->client = client;
    g_hash_table_add(client->calls, call);
    ipb_http_call_prepare(call, options);
    if (call->error != NULL) {
        call->has_ended = true;
        g_queue_push_tail(&client->ended, call);
    } else {
        call->is_queued = true;
        g_queue_push_tail(&client->waiting, call);
    }
    ipb_http_client_schedule(client);
    return call;
}
