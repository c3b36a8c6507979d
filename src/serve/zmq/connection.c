/* SPDX-License-Identifier: Apache-2.0
 *
 * Connection files; see the header.
 */
#include "serve/zmq/connection.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "json/json.h"

#define MAX_FILE (64u * 1024)

static bool
fail(GError **error, const char *path, const char *what)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the connection file %s %s", path, what);
    return false;
}

static bool
read_key(const IpbJson *root, const char *path, IpbZmqConnection *connection, GError **error)
{
    const char *scheme = ipb_json_get_string(root, "signature_scheme");
    const char *key = ipb_json_get_string(root, "key");
    if (scheme != NULL && strcmp(scheme, "hmac-sha256") != 0)
        return fail(error, path, "has a signature_scheme that is not hmac-sha256");
    /* Jupyter reads an empty key as "no signatures": then any program that can connect runs
     * code. */
    if (key == NULL || *key == '\0')
        return fail(error, path, "has no key, so anyone who can connect could run code");
    connection->key = g_strdup(key);
    return true;
}

static bool
read_addresses(const IpbJson *root, const char *path, IpbZmqConnection *connection, GError **error)
{
    static const char *const PORTS[] = {
        [IPB_ZMQ_SHELL] = "shell_port",  [IPB_ZMQ_IOPUB] = "iopub_port",
        [IPB_ZMQ_STDIN] = "stdin_port",  [IPB_ZMQ_CONTROL] = "control_port",
        [IPB_ZMQ_HEARTBEAT] = "hb_port",
    };
    const char *transport = ipb_json_get_string(root, "transport");
    const char *ip = ipb_json_get_string(root, "ip");
    bool is_ipc = g_strcmp0(transport, "ipc") == 0;
    if (!is_ipc && transport != NULL && strcmp(transport, "tcp") != 0)
        return fail(error, path, "has a transport that is neither tcp nor ipc");
    if (ip == NULL || *ip == '\0')
        return fail(error, path, "has no \"ip\"");
    for (size_t i = 0; i < IPB_ZMQ_N_CHANNELS; i++) {
        int64_t port;
        if (!ipb_json_get_int64(root, PORTS[i], &port) || port < 1 || port > 65535) {
            g_autofree char *what = g_strdup_printf("has no port \"%s\"", PORTS[i]);
            return fail(error, path, what);
        }
        connection->addresses[i] =
            g_strdup_printf(is_ipc ? "ipc://%s-%u" : "tcp://%s:%u", ip, (unsigned) port);
    }
    return true;
}

bool
ipb_zmq_connection_read(const char *path, IpbZmqConnection *ret_connection, GError **error)
{
    g_auto(IpbZmqConnection) connection = {0};
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_file_read(path, MAX_FILE, &text, &size, error))
        return false;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    if (document == NULL) {
        g_prefix_error(error, "the connection file %s: ", path);
        return false;
    }
    const IpbJson *root = ipb_json_root(document);
    if (!ipb_json_is(root, IPB_JSON_OBJECT))
        return fail(error, path, "is not a JSON object");
    if (!read_key(root, path, &connection, error) ||
        !read_addresses(root, path, &connection, error))
        return false;
    *ret_connection = connection;
    connection = (IpbZmqConnection){0};
    return true;
}

void
ipb_zmq_connection_clear(IpbZmqConnection *connection)
{
    for (size_t i = 0; i < IPB_ZMQ_N_CHANNELS; i++)
        g_free(connection->addresses[i]);
    g_free(connection->key);
    *connection = (IpbZmqConnection){0};
}
