/* SPDX-License-Identifier: Apache-2.0
 *
 * The envelope of a request; see the header.
 */
#include "serve/mcp/envelope.h"

#include "json/rpc-peer.h"
#include "json/writer.h"
#include "mcp/messages.h"

#define REVISION_KEY IPB_MCP_META_PREFIX "protocolVersion"
#define CAPABILITIES_KEY IPB_MCP_META_PREFIX "clientCapabilities"
#define CLIENT_KEY IPB_MCP_META_PREFIX "clientInfo"
#define LEVEL_KEY IPB_MCP_META_PREFIX "logLevel"

bool
ipb_mcp_envelope_is_there(const IpbJson *params)
{
    return ipb_json_get(ipb_json_get(params, "_meta"), REVISION_KEY) != NULL;
}

const char *
ipb_mcp_envelope_revision(const IpbJson *params)
{
    return ipb_json_get_string(ipb_json_get(params, "_meta"), REVISION_KEY);
}

static bool
fail(IpbMcpFault *fault, int code, const char *message)
{
    *fault = (IpbMcpFault){.code = code, .message = g_strdup(message)};
    return false;
}

static bool
fail_revision(IpbMcpFault *fault, const char *revision)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "supported");
    ipb_json_begin_array(writer);
    ipb_json_write_string(writer, IPB_MCP_MODERN_REVISION);
    ipb_json_end_array(writer);
    ipb_json_member_string(writer, "requested", revision);
    ipb_json_end_object(writer);
    fail(fault, IPB_MCP_UNSUPPORTED_REVISION,
         "this revision is not supported: use " IPB_MCP_MODERN_REVISION
         ", or begin with initialize for an older one");
    fault->data = ipb_json_writer_finish(writer, NULL);
    return false;
}

bool
ipb_mcp_envelope_read(const IpbJson *params, IpbMcpEnvelope *ret_envelope, IpbMcpFault *fault)
{
    const IpbJson *meta = ipb_json_get(params, "_meta");
    const char *revision = ipb_json_get_string(meta, REVISION_KEY);
    const IpbJson *capabilities = ipb_json_get(meta, CAPABILITIES_KEY);
    if (revision == NULL)
        return fail(fault, IPB_RPC_INVALID_PARAMS,
                    "params._meta must have \"" REVISION_KEY "\", a string");
    if (!g_str_equal(revision, IPB_MCP_MODERN_REVISION))
        return fail_revision(fault, revision);
    if (!ipb_json_is(capabilities, IPB_JSON_OBJECT))
        return fail(fault, IPB_RPC_INVALID_PARAMS,
                    "params._meta must have \"" CAPABILITIES_KEY "\", an object");
    *ret_envelope = (IpbMcpEnvelope){
        .capabilities = capabilities,
        .client_name = ipb_json_get_string(ipb_json_get(meta, CLIENT_KEY), "name"),
        .log_level = ipb_json_get_string(meta, LEVEL_KEY),
    };
    return true;
}

bool
ipb_mcp_envelope_offers_forms(const IpbJson *capabilities)
{
    const IpbJson *offer = ipb_json_get(capabilities, "elicitation");
    /* An empty object means forms; otherwise its members name what is offered. */
    return ipb_json_is(offer, IPB_JSON_OBJECT) &&
           (ipb_json_length(offer) == 0 || ipb_json_get(offer, "form") != NULL);
}

bool
ipb_mcp_envelope_offers_tasks(const IpbJson *capabilities)
{
    return ipb_json_is(
        ipb_json_get(ipb_json_get(capabilities, "extensions"), IPB_MCP_TASKS_EXTENSION),
        IPB_JSON_OBJECT);
}

void
ipb_mcp_fault_clear(IpbMcpFault *fault)
{
    g_clear_pointer(&fault->message, g_free);
    g_clear_pointer(&fault->data, g_free);
}
