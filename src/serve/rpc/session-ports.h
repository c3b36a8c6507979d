/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcSessionPorts: the ports that a session may listen on, for a tool server and for a kernel
 * gateway. Both require tokens, which the client gets and kernels do not. Kernels of the gateway
 * call tools in the kernel's role: at the tool server if there is one, else at the tool channel of
 * the session's own kernel.
 *
 * Ownership: the session owns its ports.
 */
#pragma once

#include "json/writer.h"
#include "serve/rpc/session-options.h"

typedef struct IpbRpcSessionPorts IpbRpcSessionPorts;

/* Listens on the ports that @options want. @session was made with @options; both outlive the ports,
 * whose log goes to on_log of @options. NULL with @error: one of the ports cannot be had. */
IpbRpcSessionPorts *ipb_rpc_session_ports_new(IpbRuntime *runtime, IpbSession *session,
                                              const IpbRpcSessionOptions *options, GError **error);
/* Writes the members "tool_server" and "gateway". */
void ipb_rpc_session_ports_describe(const IpbRpcSessionPorts *ports, IpbJsonWriter *writer);
/* Ends both in order; @done from the loop, or at once if nothing is open. */
void ipb_rpc_session_ports_close(IpbRpcSessionPorts *ports, void (*done)(void *data), void *data);
void ipb_rpc_session_ports_free(IpbRpcSessionPorts *ports);
