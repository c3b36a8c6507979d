/* SPDX-License-Identifier: Apache-2.0
 *
 * Which revision a server speaks; see the header. Servers of revision 2026-07-28 and later
 * ("modern") answer server/discover and have no handshake. Older ones ("legacy") need initialize
 * first. To an unknown request before it they may react in any way: an error with any code,
 * silence, an exit.
 *
 *   server/discover ──► a revision that we speak ──► modern
 *        │  ▲
 *        │  └── initialize was refused, and the probe may have come too early for the server
 *        ▼
 *   any other error, no answer in time ──► initialize ──► legacy
 *   the process exited without any answer ──► started again ──► initialize
 *
 * The timeout of the probe can be short however slowly a server starts, because a wrong guess is
 * corrected. Both requests wait in the pipe. A modern server answers the first one too late and
 * refuses the second. It is then probed again, now that it is known to run. So no rule has to know
 * that npx downloads first. Only a server that stays silent costs the whole timeout, and only once
 * in a process: see legacy-servers.h.
 *
 * Neither request is ever cancelled at the server. The protocol forbids it for initialize, and a
 * late answer to the probe is dropped because of its id.
 */
#include "mcp/negotiation.h"

#include "base/error.h"
#include "mcp/messages.h"

struct IpbMcpNegotiation {
    char *server_name;
    const IpbServerParams *params;
    IpbServerKind kind;    /* of the transport in use */
    bool is_probing;       /* the last request was server/discover */
    bool awaits_answer;    /* the process was probed and has not answered any request */
    bool is_guess;         /* the server did not answer the probe, so it is taken for legacy */
    bool is_again;         /* it refused our revision and listed it, so it was probed again */
    bool has_retried;      /* initialize was sent again with a revision that the server listed */
    bool has_restarted;    /* the server's process */
    bool has_switched;     /* to the other HTTP transport */
    GError *first_failure; /* why it switched: what the user asked for failed with this */
    GError *refusal;       /* of initialize: reported if a second probe does not help */
};

IpbMcpNegotiation *
ipb_mcp_negotiation_new(const char *server_name, const IpbServerParams *params)
{
    IpbMcpNegotiation *negotiation = g_new0(IpbMcpNegotiation, 1);
    negotiation->server_name = g_strdup(server_name);
    negotiation->params = params;
    negotiation->kind = params->kind;
    return negotiation;
}

void
ipb_mcp_negotiation_free(IpbMcpNegotiation *negotiation)
{
    if (negotiation == NULL)
        return;
    g_clear_error(&negotiation->first_failure);
    g_clear_error(&negotiation->refusal);
    g_free(negotiation->server_name);
    g_free(negotiation);
}

void
ipb_mcp_step_clear(IpbMcpStep *step)
{
    g_clear_error(&step->error);
}

/* --- steps --- */

static IpbMcpStep
probe(IpbMcpNegotiation *negotiation)
{
    negotiation->is_probing = negotiation->awaits_answer = true;
    return (IpbMcpStep){.kind = IPB_MCP_STEP_PROBE};
}

static IpbMcpStep
initialize(const char *revision)
{
    return (IpbMcpStep){.kind = IPB_MCP_STEP_INITIALIZE, .revision = revision};
}

/* Takes @error. */
static IpbMcpStep
fail(GError *error)
{
    return (IpbMcpStep){.kind = IPB_MCP_STEP_FAIL, .error = error};
}

/* Takes @error, which says what is wrong about an answer. */
static IpbMcpStep
refuse_server(const IpbMcpNegotiation *negotiation, GError *error)
{
    g_prefix_error(&error, "MCP server %s: ", negotiation->server_name);
    return fail(error);
}

/* If both HTTP transports failed, the error of the one that the user asked for is reported. */
static IpbMcpStep
fail_with_first(IpbMcpNegotiation *negotiation, const GError *why)
{
    return fail(negotiation->first_failure != NULL ? g_steal_pointer(&negotiation->first_failure)
                                                   : g_error_copy(why));
}

static bool
can_switch(const IpbMcpNegotiation *negotiation)
{
    return negotiation->kind != IPB_SERVER_STDIO && !negotiation->params->is_kind_given &&
           !negotiation->has_switched;
}

static IpbMcpStep
switch_transport(IpbMcpNegotiation *negotiation, const GError *why)
{
    negotiation->has_switched = true;
    negotiation->first_failure = g_error_copy(why);
    negotiation->kind =
        negotiation->kind == IPB_SERVER_SSE ? IPB_SERVER_STREAMABLE_HTTP : IPB_SERVER_SSE;
    return (IpbMcpStep){
        .kind = IPB_MCP_STEP_SWITCH,
        .server_kind = negotiation->kind,
        .error = g_error_copy(why),
    };
}

/* The server is legacy, or seems so. */
static IpbMcpStep
fall_back(IpbMcpNegotiation *negotiation)
{
    if (negotiation->refusal != NULL)
        return fail(g_steal_pointer(&negotiation->refusal));
    return initialize(ipb_mcp_message_newest_revision());
}

/* --- what the server did --- */

IpbMcpStep
ipb_mcp_negotiation_start(IpbMcpNegotiation *negotiation, bool is_legacy)
{
    /* HTTP+SSE is older than the probe. */
    bool is_sse = negotiation->kind == IPB_SERVER_SSE;
    if (!is_sse && !is_legacy)
        return probe(negotiation);
    negotiation->is_probing = false;
    negotiation->is_guess = !is_sse; /* the server may have been updated since */
    return initialize(ipb_mcp_message_newest_revision());
}

/* Whether this HTTP error, without a JSON-RPC error, may come from a server that does not know such
 * requests. */
static bool
is_legacy_status(unsigned status)
{
    return status != 0 && status != 401 && status != 403 && status != 429 && status < 500;
}

static IpbMcpStep
take_probe_result(IpbMcpNegotiation *negotiation, const IpbRpcAnswer *answer, const GError *failure)
{
    g_autofree char *theirs = NULL;
    GError *error = NULL;
    IpbMcpProbe result = IPB_MCP_PROBE_REFUSED;
    /* PROTOCOL: what came is not an answer (over HTTP, a status 4xx without a message). */
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL))
        result = IPB_MCP_PROBE_LEGACY;
    else if (answer->failure == NULL)
        result = ipb_mcp_message_judge_probe(answer->result, answer->rpc_error,
                                             negotiation->is_again, &theirs);
    switch (result) {
    case IPB_MCP_PROBE_MODERN:
        if (!ipb_mcp_message_check_complete(answer->result, &error))
            return refuse_server(negotiation, error);
        return (IpbMcpStep){
            .kind = IPB_MCP_STEP_CONNECTED,
            .revision = IPB_MCP_MODERN_REVISION,
            .is_modern = true,
        };
    case IPB_MCP_PROBE_LEGACY:
        return fall_back(negotiation);
    case IPB_MCP_PROBE_AGAIN:
        negotiation->is_again = true;
        return probe(negotiation);
    case IPB_MCP_PROBE_REFUSED:
        return fail(g_error_copy(failure));
    case IPB_MCP_PROBE_UNSUPPORTED:
        break;
    }
    g_autofree char *ours = ipb_mcp_message_list_revisions();
    return refuse_server(negotiation,
                         g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                                     "it speaks the revisions %s of MCP, ipybox %s", theirs, ours));
}

static IpbMcpStep
take_discover_answer(IpbMcpNegotiation *negotiation, const IpbRpcAnswer *answer,
                     unsigned http_status, const GError *failure)
{
    negotiation->is_probing = false;
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT)) {
        negotiation->is_guess = true;
        return fall_back(negotiation);
    }
    negotiation->awaits_answer = false;
    if (answer->failure != NULL && is_legacy_status(http_status))
        return fall_back(negotiation);
    return take_probe_result(negotiation, answer, failure);
}

static IpbMcpStep
take_initialize_answer(IpbMcpNegotiation *negotiation, const IpbRpcAnswer *answer,
                       unsigned http_status, const GError *failure)
{
    negotiation->awaits_answer = false;
    const char *supported = ipb_mcp_message_find_supported(answer->rpc_error);
    if (supported != NULL && !negotiation->has_retried) {
        negotiation->has_retried = true;
        return initialize(supported);
    }
    if (answer->failure != NULL && is_legacy_status(http_status) && can_switch(negotiation))
        return switch_transport(negotiation, failure);
    bool is_modern = ipb_mcp_message_error_code(answer->rpc_error) == IPB_MCP_UNSUPPORTED_REVISION;
    if (answer->rpc_error != NULL && negotiation->refusal == NULL &&
        (is_modern || negotiation->is_guess)) {
        negotiation->refusal = g_error_copy(failure);
        return probe(negotiation);
    }
    if (failure != NULL)
        return fail_with_first(negotiation, failure);
    GError *error = NULL;
    IpbMcpStep step = {.kind = IPB_MCP_STEP_CONNECTED};
    if (!ipb_mcp_message_check_initialize(answer->result, &step.revision, &error))
        return refuse_server(negotiation, error);
    return step;
}

IpbMcpStep
ipb_mcp_negotiation_take_answer(IpbMcpNegotiation *negotiation, const IpbRpcAnswer *answer,
                                unsigned http_status, const GError *failure)
{
    return negotiation->is_probing
               ? take_discover_answer(negotiation, answer, http_status, failure)
               : take_initialize_answer(negotiation, answer, http_status, failure);
}

/* A server that exits instead of answering the first probe may be legacy, so it is started once
 * more. This also holds if it started so slowly that it was taken for legacy already. If it cannot
 * start at all, it exits again, and that error is reported. */
IpbMcpStep
ipb_mcp_negotiation_take_loss(IpbMcpNegotiation *negotiation, const GError *why)
{
    bool is_server = g_error_matches(why, IPYBOX_ERROR, IPYBOX_ERROR_SERVER);
    if (negotiation->kind == IPB_SERVER_SSE && is_server && can_switch(negotiation))
        return switch_transport(negotiation, why);
    bool can_restart = negotiation->awaits_answer && !negotiation->has_restarted &&
                       negotiation->refusal == NULL && negotiation->kind == IPB_SERVER_STDIO &&
                       is_server;
    if (negotiation->first_failure != NULL || !can_restart)
        return fail_with_first(negotiation, why);
    negotiation->has_restarted = true;
    negotiation->is_probing = negotiation->awaits_answer = false;
    return (IpbMcpStep){
        .kind = IPB_MCP_STEP_RESTART,
        .revision = ipb_mcp_message_newest_revision(),
    };
}
