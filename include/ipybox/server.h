/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * @brief The MCP servers that the user registered.
 *
 * They are in one file (mode 0600) in the runtime's state directory, which several processes may
 * use at the same time. Parameters have the form that MCP hosts use:
 * `{"command": …, "args": […], "env": {…}}` or `{"url": …, "headers": {…}}`, with `"sandbox": true`
 * for a server that runs in a sandbox. `${NAME}` is kept as written, and replaced when the server
 * is started.
 */
#pragma once

#include <ipybox/runtime.h>

G_BEGIN_DECLS

/** One registered server. Opaque and immutable; free it with ipybox_server_free(). */
typedef struct IpyboxServer IpyboxServer;

/**
 * @brief All registered servers, in the order of registration.
 *
 * @param runtime the runtime
 * @param error #IPYBOX_ERROR_SYSTEM or #IPYBOX_ERROR_INVALID: the registry cannot be read
 * @return an array of #IpyboxServer, to be freed with g_ptr_array_unref(), which also frees the
 *     servers; NULL with @p error
 */
IPYBOX_EXPORT GPtrArray *ipybox_runtime_list_servers(IpyboxRuntime *runtime, GError **error);

/**
 * @brief Registers a server without connecting to it and without generating a package.
 *
 * @param runtime the runtime
 * @param name its name, a Python identifier
 * @param params_json its parameters, a JSON object
 * @param error #IPYBOX_ERROR_INVALID: the name or the parameters are wrong, and the message says
 *     how; #IPYBOX_ERROR_BUSY: another process has locked the registry; #IPYBOX_ERROR_SYSTEM
 * @return the server, to be freed with ipybox_server_free(); NULL with @p error
 */
IPYBOX_EXPORT IpyboxServer *ipybox_runtime_add_server(IpyboxRuntime *runtime, const char *name,
                                                      const char *params_json, GError **error);

/**
 * @brief Removes a server. Its generated packages stay, but sessions cannot call it any more.
 *
 * @param runtime the runtime
 * @param id_or_name its id, or its name if only one server has it
 * @param error #IPYBOX_ERROR_NOT_FOUND; #IPYBOX_ERROR_INVALID: several servers have this name;
 *     #IPYBOX_ERROR_BUSY: another process has locked the registry; #IPYBOX_ERROR_SYSTEM
 * @return whether it was removed
 */
IPYBOX_EXPORT gboolean ipybox_runtime_remove_server(IpyboxRuntime *runtime, const char *id_or_name,
                                                    GError **error);

/**
 * @brief The server's id, derived from its name and parameters. Generated packages contain it.
 *
 * @param server the server
 * @return 32 hexadecimal digits; owned by the server
 */
IPYBOX_EXPORT const char *ipybox_server_get_id(const IpyboxServer *server);

/**
 * @brief The server's name.
 *
 * @param server the server
 * @return the name; owned by the server
 */
IPYBOX_EXPORT const char *ipybox_server_get_name(const IpyboxServer *server);

/**
 * @brief The server's parameters as registered. They contain secrets if the user wrote some there.
 *
 * @param server the server
 * @return a JSON object on one line; owned by the server
 */
IPYBOX_EXPORT const char *ipybox_server_get_params(const IpyboxServer *server);

/**
 * @brief The directories that contain the server's generated package.
 *
 * @param server the server
 * @return absolute paths, NULL-terminated; owned by the server
 */
IPYBOX_EXPORT const char *const *ipybox_server_get_roots(const IpyboxServer *server);

/**
 * @brief Frees a server.
 *
 * @param server the server, or NULL
 */
IPYBOX_EXPORT void ipybox_server_free(IpyboxServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpyboxServer, ipybox_server_free)

G_END_DECLS
