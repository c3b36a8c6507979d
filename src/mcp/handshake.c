/* SPDX-License-Identifier: Apache-2.0
 *
 * How a client finds out what a server speaks. Servers of revision 2026-07-28 and later ("modern") answer
 * server/discover and have no handshake; older ones ("legacy") want initialize first, and do to an unknown
 * request before it what they like: an error of any code, nothing at all, an exit.
 *
 *   server/discover ──► a revision that we speak ──► modern
 *        │  ▲
 *        │  └── initialize was refused, and the probe may have come too early for the server
 *        ▼
 *   any other error, no answer in time ──► initialize ──► legacy
 *   the process ended, having answered nothing ──► started again ──► initialize
 *
 * The probe's timeout can be short however slowly a server starts, because a wrong guess is mended: both
 * requests wait in the pipe, a modern server answers the first one too late and refuses the second, and is
 * then probed again, once it is known to be up. So nothing needs to know that npx downloads first. Only a
 * server that stays silent costs the whole time, and only once in a process: see eras.h.
 *
 * Neither request is ever cancelled at the server: a revision forbids it for initialize, and a late answer
 * to the probe is dropped by its id.
 */
#include "mcp/client-private.h"

#include "base/error.h"
#include "mcp/messages.h"

static void send_probe(IpbMcpCall *call);

static void
ignore_answer(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
}

/* The connection ends with what was wrong about the result; takes @error. */
static void
refuse_server(IpbMcpClient *client, GError *error)
{
    g_autoptr(GError) owned = error;
    g_prefix_error(&owned, "MCP server %s: ", client->name);
    ipb_mcp_client_lose(client, owned);
}

/* Takes what the server declares, and tells the caller that it is connected. */
static void
finish(IpbMcpCall *call, const IpbRpcAnswer *answer, bool is_modern, const char *revision)
{
    IpbMcpClient *client = call->client;
    const IpbJson *capabilities = ipb_json_get(answer->result, "capabilities");
    const IpbJson *tools = ipb_json_get(capabilities, "tools");
    client->is_modern = is_modern;
    client->revision = revision;
    client->has_tools = tools != NULL;
    client->has_logging = ipb_json_get(capabilities, "logging") != NULL;
    ipb_mcp_eras_set_legacy(client->eras, client->era_key, !is_modern);
    ipb_mcp_client_become_ready(client);
    if (ipb_json_get_bool(tools, "listChanged", false))
        ipb_mcp_client_listen(client);
    ipb_mcp_call_end(call, answer->result, answer->document, NULL);
}

static void
set_what(IpbMcpCall *call, const char *what)
{
    g_free(call->what);
    call->what = g_strdup(what);
}

/* Does an HTTP error without a JSON-RPC error tell of a server that does not know such requests? */
static bool
is_old_status(unsigned status)
{
    return status != 0 && status != 401 && status != 403 && status != 429 && status < 500;
}

/* What did not work first is what the user asked for. */
static void
lose(IpbMcpClient *client, const GError *why)
{
    g_autoptr(GError) first = g_steal_pointer(&client->handshake.first_failure);
    ipb_mcp_client_lose(client, first != NULL ? first : why);
}

static void send_initialize(IpbMcpCall *call);

/* What does not work over one of the transports over HTTP may over the other one, unless the parameters say which
 * it is. If it does not either, @why is told. */
static bool
switch_transport(IpbMcpClient *client, const GError *why)
{
    IpbMcpHandshake *handshake = &client->handshake;
    if (client->kind == IPB_SERVER_STDIO || client->params->is_kind_given ||
        handshake->has_switched)
        return false;
    bool is_sse = client->kind == IPB_SERVER_SSE;
    g_autofree char *text =
        g_strdup_printf("%s; %s is tried", why->message, is_sse ? "Streamable HTTP" : "HTTP+SSE");
    handshake->has_switched = true;
    handshake->call->on_answer = ignore_answer; /* the old connection's, which ends now */
    client->kind = is_sse ? IPB_SERVER_STREAMABLE_HTTP : IPB_SERVER_SSE;
    ipb_server_log_tell(client->log, "debug", text, strlen(text));
    g_autoptr(GError) error = NULL;
    if (client->state != IPB_MCP_STATE_CONNECTING) /* closed by who was told */
        return true;
    handshake->first_failure = g_error_copy(why);
    if (ipb_mcp_client_start(client, &error))
        ipb_mcp_handshake_start(handshake->call);
    else
        ipb_mcp_client_lose(client, error);
    return true;
}

static void
on_initialized(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    IpbMcpClient *client = call->client;
    IpbMcpHandshake *handshake = &client->handshake;
    handshake->is_unanswered = false;
    const char *supported = ipb_message_find_supported(answer->rpc_error);
    if (supported != NULL && !handshake->has_retried) {
        handshake->has_retried = true;
        ipb_mcp_call_send(call, "initialize", ipb_message_initialize(supported));
        return;
    }
    g_autoptr(GError) failure = ipb_mcp_call_error(call, answer);
    if (answer->failure != NULL && is_old_status(client->failed_status) &&
        switch_transport(client, failure))
        return;
    bool is_modern = ipb_message_error_code(answer->rpc_error) == IPB_MCP_UNSUPPORTED_REVISION;
    if (answer->rpc_error != NULL && handshake->refusal == NULL &&
        (is_modern || handshake->is_guess)) {
        handshake->refusal = g_steal_pointer(&failure);
        send_probe(call);
        return;
    }
    if (failure != NULL) {
        lose(client, failure);
        return;
    }
    GError *error = NULL;
    const char *revision;
    if (!ipb_message_check_initialize(answer->result, &revision, &error)) {
        refuse_server(client, error);
        return;
    }
    finish(call, answer, /* is_modern= */ false, revision);
}

static void
send_initialize(IpbMcpCall *call)
{
    set_what(call, "initialize");
    call->timeout_ms = 0; /* the connection's */
    call->on_answer = on_initialized;
    ipb_mcp_call_send(call, "initialize", ipb_message_initialize(ipb_message_newest_revision()));
}

static void
on_discovered(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    GError *error = NULL;
    call->client->is_modern = true;
    if (ipb_mcp_call_check_complete(call, answer, &error))
        finish(call, answer, /* is_modern= */ true, IPB_MODERN_REVISION);
    else
        refuse_server(call->client, error);
}

/* The server is no modern one, or seems so. */
static void
fall_back(IpbMcpCall *call)
{
    IpbMcpHandshake *handshake = &call->client->handshake;
    if (handshake->refusal != NULL) {
        g_autoptr(GError) refusal = g_steal_pointer(&handshake->refusal);
        ipb_mcp_client_lose(call->client, refusal);
        return;
    }
    send_initialize(call);
}

static void
on_probed(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    IpbMcpClient *client = call->client;
    client->handshake.is_probing = false;
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT)) {
        client->handshake.is_guess = true;
        fall_back(call);
        return;
    }
    client->handshake.is_unanswered = false;
    if (answer->failure != NULL && is_old_status(client->failed_status)) {
        fall_back(call);
        return;
    }
    g_autoptr(GError) failure = ipb_mcp_call_error(call, answer);
    g_autofree char *theirs = NULL;
    IpbProbe probe = IPB_PROBE_REFUSED;
    /* PROTOCOL: it answered, but nothing that is an answer (over HTTP, a status 4xx without a message). */
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL))
        probe = IPB_PROBE_LEGACY;
    else if (answer->failure == NULL)
        probe = ipb_message_judge_probe(answer->result, answer->rpc_error,
                                        client->handshake.is_again, &theirs);
    if (probe == IPB_PROBE_MODERN) {
        on_discovered(call, answer);
    } else if (probe == IPB_PROBE_LEGACY) {
        fall_back(call);
    } else if (probe == IPB_PROBE_AGAIN) {
        client->handshake.is_again = true;
        send_probe(call);
    } else if (probe == IPB_PROBE_REFUSED) {
        ipb_mcp_client_lose(client, failure);
    } else {
        g_autofree char *ours = ipb_message_list_revisions();
        refuse_server(client,
                      g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                                  "it speaks the revisions %s of MCP, ipybox %s", theirs, ours));
    }
}

static void
send_probe(IpbMcpCall *call)
{
    const IpbMessageMeta meta = {.revision = IPB_MODERN_REVISION};
    const IpbMcpLimits *limits = &call->client->limits;
    call->client->handshake.is_probing = call->client->handshake.is_unanswered = true;
    set_what(call, "server/discover");
    /* Half of the time is left to a server that wants a handshake. */
    call->timeout_ms = MAX(1, MIN(limits->probe_timeout_ms, limits->connect_timeout_ms / 2));
    call->on_answer = on_probed;
    ipb_mcp_call_send(call, "server/discover", ipb_message_discover(&meta));
}

void
ipb_mcp_handshake_start(IpbMcpCall *call)
{
    IpbMcpClient *client = call->client;
    call->is_uncancellable = true;
    client->handshake.call = call;
    if (client->kind == IPB_SERVER_SSE || ipb_mcp_eras_is_legacy(client->eras, client->era_key)) {
        /* The server may have been replaced since. HTTP+SSE is older than any probe. */
        client->handshake.is_guess = client->kind != IPB_SERVER_SSE;
        send_initialize(call);
        return;
    }
    send_probe(call);
}

/* A server that ended instead of answering the first probe may only be an old one: it is started once more, also if it
 * took so long to start that it was taken for one already. One that cannot start ends the second time too, and that is told. */
bool
ipb_mcp_handshake_restart(IpbMcpClient *client, const GError *why)
{
    IpbMcpHandshake *handshake = &client->handshake;
    if (client->state == IPB_MCP_STATE_CONNECTING && client->kind == IPB_SERVER_SSE &&
        g_error_matches(why, IPYBOX_ERROR, IPYBOX_ERROR_SERVER) && switch_transport(client, why))
        return true;
    if (client->state == IPB_MCP_STATE_CONNECTING && handshake->first_failure != NULL) {
        lose(client, why);
        return true;
    }
    if (client->state != IPB_MCP_STATE_CONNECTING || !handshake->is_unanswered ||
        handshake->has_restarted || handshake->refusal != NULL ||
        client->params->kind != IPB_SERVER_STDIO ||
        !g_error_matches(why, IPYBOX_ERROR, IPYBOX_ERROR_SERVER))
        return false;
    static const char TEXT[] =
        "it ended when it was asked for server/discover; it is started again "
        "as a server of an older revision of MCP";
    handshake->has_restarted = true;
    handshake->is_probing = handshake->is_unanswered = false;
    handshake->call->on_answer = ignore_answer; /* the old connection's, which ends now */
    ipb_server_log_forget_lines(client->log);
    ipb_server_log_tell(client->log, "debug", TEXT, strlen(TEXT));
    g_autoptr(GError) error = NULL;
    if (client->state != IPB_MCP_STATE_CONNECTING) /* closed by who was told */
        return true;
    if (ipb_mcp_client_start(client, &error))
        send_initialize(handshake->call);
    else
        ipb_mcp_client_lose(client, error);
    return true;
}
