/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of servers that must run in a sandbox; see the header. The configuration itself stands in them, not its path: what was
 * registered holds in later sessions, too.
 */
#include "session/boxed-params.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "json/writer.h"

static const char SANDBOX[] = "sandbox";

/* As policy.h has it. */
#define MAX_CONFIGURATION (1024 * 1024)

static bool
is_named(const IpbJson *member, const char *name)
{
    size_t size;
    const char *text = ipb_json_name(member, &size);
    return size == strlen(name) && memcmp(text, name, size) == 0;
}

/* The session's configuration: that of its file, or the default. */
static bool
write_sandbox(IpbJsonWriter *writer, const IpbSandboxPolicy *policy, GError **error)
{
    if (policy->origin == NULL) {
        ipb_json_member_bool(writer, SANDBOX, true);
        return true;
    }
    size_t size;
    g_autofree char *text = NULL;
    if (!ipb_file_read(policy->origin, MAX_CONFIGURATION, &text, &size, error))
        return false;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
    if (document == NULL)
        return false;
    ipb_json_member_value(writer, SANDBOX, ipb_json_root(document));
    return true;
}

IpbJsonDoc *
ipb_boxed_params_make(const IpbJson *params, const IpbSandboxPolicy *policy, GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    bool is_program = ipb_json_is(ipb_json_get(params, "command"), IPB_JSON_STRING);
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (member, params) {
        size_t size;
        const char *name = ipb_json_name(member, &size);
        if (is_named(member, SANDBOX))
            continue;
        ipb_json_key_n(writer, name, size);
        ipb_json_write_value(writer, member);
    }
    if (is_program && !write_sandbox(writer, policy, error)) {
        ipb_json_writer_free(writer);
        return NULL;
    }
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    return ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, error);
}
