/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewaySessions: Jupyter's sessions, that is the notebooks that clients have open, each with
 * its kernel. The path, the name and the type of a session are texts that a client gave, and that
 * clients get back. Here they name no file.
 *
 * Ownership: the gateway owns the sessions. It forgets those of a kernel before the kernel is gone,
 * so each session has a kernel.
 */
#pragma once

#include "serve/gateway/kernel.h"

typedef struct IpbGatewaySessions IpbGatewaySessions;
typedef struct IpbGatewaySession IpbGatewaySession;

/* What a client says of a session; NULL: nothing. The texts are borrowed from its document. */
typedef struct {
    const char *path;
    const char *name;
    const char *type;
    const char *kernel_id;
    const char *kernel_name;
} IpbGatewaySessionFields;

/* Reads the body of a request. Error: INVALID. */
bool ipb_gateway_session_fields_parse(IpbSpan body, IpbJsonDoc **ret_doc,
                                      IpbGatewaySessionFields *ret_fields, GError **error);

IpbGatewaySessions *ipb_gateway_sessions_new(void);
void ipb_gateway_sessions_free(IpbGatewaySessions *sessions);
/* Error: LIMIT, there may be no more sessions. */
bool ipb_gateway_sessions_check_room(const IpbGatewaySessions *sessions, GError **error);
/* There must be room, a path and a type. */
IpbGatewaySession *ipb_gateway_sessions_add(IpbGatewaySessions *sessions,
                                            const IpbGatewaySessionFields *fields,
                                            IpbGatewayKernel *kernel);
/* NULL: there is none. */
IpbGatewaySession *ipb_gateway_sessions_find(const IpbGatewaySessions *sessions, const char *id);
IpbGatewaySession *ipb_gateway_sessions_find_path(const IpbGatewaySessions *sessions,
                                                  const char *path);
/* Removes the sessions of a kernel. */
void ipb_gateway_sessions_forget_kernel(IpbGatewaySessions *sessions,
                                        const IpbGatewayKernel *kernel);
/* Writes an array of their descriptions. */
void ipb_gateway_sessions_describe(const IpbGatewaySessions *sessions, IpbJsonWriter *writer);

const char *ipb_gateway_session_id(const IpbGatewaySession *session);
IpbGatewayKernel *ipb_gateway_session_kernel(const IpbGatewaySession *session);
void ipb_gateway_session_set_kernel(IpbGatewaySession *session, IpbGatewayKernel *kernel);
/* Takes over the path, the name and the type that @fields have. */
void ipb_gateway_session_update(IpbGatewaySession *session, const IpbGatewaySessionFields *fields);
/* Writes {"id", "path", "name", "type", "kernel"}, and "notebook" if it is one. */
void ipb_gateway_session_describe(const IpbGatewaySession *session, IpbJsonWriter *writer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewaySessions, ipb_gateway_sessions_free)
