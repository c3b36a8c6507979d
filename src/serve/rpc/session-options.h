/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcSessionOptions: the parameters of session.open (docs/internals/rpc.md) as the options of a
 * session. An option that this build cannot honour is an error; none is ignored.
 *
 * Ownership: the options keep the request that they came with, because they point into it. The
 * kernels of a gateway are made from them later, so the session keeps them until its end. They are
 * reference-counted: sessions that are forked share them.
 */
#pragma once

#include "json/rpc-peer.h"
#include "serve/rpc/params.h"
#include "session/session.h"

/* A port that the session is to listen on. */
typedef struct {
    bool is_wanted;
    const char *host;
    unsigned port; /* 0: any free one */
} IpbRpcPortOptions;

typedef struct {
    unsigned references;
    IpbSessionOptions session; /* without callbacks */
    const char *python;        /* or NULL */
    char **preload;            /* or NULL */
    char **package_roots;      /* or NULL */
    unsigned start_timeout_ms; /* for session.start */
    IpbRpcPortOptions tool_server, gateway;

    /* What the members above point to. */
    IpbRpcRequest *request;
    char **kernel_env, **env, **server_variables;
    char *limits, *allowed_servers;
    IpbApplicationTools *application_tools; /* or NULL */
} IpbRpcSessionOptions;

/* Reads all parameters; what is wrong is in @params. */
IpbRpcSessionOptions *ipb_rpc_session_options_new(IpbRpcRequest *request, IpbRpcParams *params);
IpbRpcSessionOptions *ipb_rpc_session_options_ref(IpbRpcSessionOptions *options);
void ipb_rpc_session_options_unref(IpbRpcSessionOptions *options);

/* The parameter "approval"; false if it is absent. */
bool ipb_rpc_params_approval(IpbRpcParams *params, IpbApprovalPolicy *ret_policy);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRpcSessionOptions, ipb_rpc_session_options_unref)
