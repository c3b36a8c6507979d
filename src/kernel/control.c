/* SPDX-License-Identifier: Apache-2.0
 *
 * Packets of the control socket; see the header. The forkserver runs no code of a kernel, but its
 * packets are checked like all input.
 */
#include "kernel/control.h"

#include "base/error.h"
#include "json/writer.h"
#include "kernel/wire.h"

#define MAX_DEPTH 16
#define MAX_VALUES 8192

static bool
set_breach(const char *what, GError **error)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                "the forkserver sent a malformed packet: %s", what);
    return false;
}

static bool
parse_op(const IpbJson *root, IpbControlOp *ret_op, GError **error)
{
    static const char *const names[] = {
        [IPB_CONTROL_READY] = "ready",         [IPB_CONTROL_FAILED] = "failed",
        [IPB_CONTROL_PRELOADED] = "preloaded", [IPB_CONTROL_FORKED] = "forked",
        [IPB_CONTROL_EXITED] = "exited",       [IPB_CONTROL_FORK_FAILED] = "fork_failed",
    };
    const char *op = ipb_json_get_string(root, "op");
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (g_strcmp0(op, names[i]) == 0) {
            *ret_op = (IpbControlOp) i;
            return true;
        }
    }
    return set_breach("no known \"op\"", error);
}

static char **
parse_names(const IpbJson *array)
{
    GPtrArray *names = g_ptr_array_new();
    IPB_JSON_FOREACH (item, array) {
        const char *name = ipb_json_string(item, NULL);
        if (name != NULL)
            g_ptr_array_add(names, g_utf8_make_valid(name, -1));
    }
    g_ptr_array_add(names, NULL);
    return (char **) g_ptr_array_free(names, FALSE);
}

static char **
parse_preload_failures(const IpbJson *array)
{
    GPtrArray *failures = g_ptr_array_new();
    IPB_JSON_FOREACH (item, array) {
        const char *module = ipb_json_get_string(item, "module");
        const char *text = ipb_json_get_string(item, "error");
        g_autofree char *line = g_strdup_printf("%s: %s", module != NULL ? module : "?",
                                                text != NULL ? text : "not importable");
        g_ptr_array_add(failures, g_utf8_make_valid(line, -1));
    }
    g_ptr_array_add(failures, NULL);
    return (char **) g_ptr_array_free(failures, FALSE);
}

static bool
parse_members(IpbControlMessage *message, GError **error)
{
    const IpbJson *root = ipb_json_root(message->document);
    int64_t number = 0;
    switch (message->op) {
    case IPB_CONTROL_READY:
        if (!ipb_json_get_int64(root, "version", &number) || number != IPB_WIRE_VERSION)
            return set_breach("\"ready\" with a version that is not ours", error);
        return true;
    case IPB_CONTROL_FAILED:
        message->missing = parse_names(ipb_json_get(root, "missing"));
        message->error = ipb_json_get_string(root, "error");
        return true;
    case IPB_CONTROL_PRELOADED:
        message->preload_failures = parse_preload_failures(ipb_json_get(root, "failed"));
        return true;
    case IPB_CONTROL_FORKED:
        if (!ipb_json_get_int64(root, "pid", &message->pid) || message->pid <= 0)
            return set_breach("\"forked\" without a \"pid\"", error);
        break;
    case IPB_CONTROL_FORK_FAILED:
        message->error = ipb_json_get_string(root, "error");
        break;
    case IPB_CONTROL_EXITED:
        if (!ipb_json_get_int64(root, "status", &number))
            return set_breach("\"exited\" without a \"status\"", error);
        message->wait_status = (int) number;
        message->is_oom_kill = ipb_json_get_bool(root, "oom_kill", false);
        break;
    }
    if (!ipb_json_get_int64(root, "id", &message->id))
        return set_breach("no \"id\"", error);
    return true;
}

bool
ipb_control_parse(const char *packet, size_t size, IpbControlMessage *ret_message, GError **error)
{
    static const IpbJsonLimits limits = {IPB_CONTROL_MAX_PACKET, MAX_DEPTH, MAX_VALUES};
    g_auto(IpbControlMessage) message = {0};
    g_autoptr(GError) json_error = NULL;
    message.document = ipb_json_parse(packet, size, &limits, &json_error);
    if (message.document == NULL)
        return set_breach(json_error->message, error);
    if (!parse_op(ipb_json_root(message.document), &message.op, error) ||
        !parse_members(&message, error))
        return false;
    *ret_message = message;
    message = (IpbControlMessage){0};
    return true;
}

void
ipb_control_clear(IpbControlMessage *message)
{
    g_strfreev(message->missing);
    g_strfreev(message->preload_failures);
    ipb_json_doc_free(message->document);
    *message = (IpbControlMessage){0};
}

char *
ipb_control_build_configure(const char *const *preload, const char *stub_directory,
                            const char *entrance, const char *branching)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "op", "configure");
    ipb_json_member_int(writer, "version", IPB_WIRE_VERSION);
    ipb_json_member_string(writer, "site_packages", NULL);
    ipb_json_key(writer, "preload");
    ipb_json_begin_array(writer);
    for (; preload != NULL && *preload != NULL; preload++)
        ipb_json_write_string(writer, *preload);
    ipb_json_end_array(writer);
    ipb_json_member_string(writer, "stub_dir", stub_directory);
    ipb_json_member_string(writer, "entrance", entrance);
    ipb_json_member_string(writer, "branching", branching);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static IpbJsonWriter *
begin_packet(const char *op, int64_t id)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "op", op);
    ipb_json_member_int(writer, "id", id);
    return writer;
}

char *
ipb_control_build_fork(int64_t id, bool is_sandboxed, bool is_command)
{
    IpbJsonWriter *writer = begin_packet("fork", id);
    ipb_json_key(writer, "sandbox");
    ipb_json_write_bool(writer, is_sandboxed);
    ipb_json_key(writer, "command");
    ipb_json_write_bool(writer, is_command);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

char *
ipb_control_build_kill(int64_t id)
{
    IpbJsonWriter *writer = begin_packet("kill", id);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static char *
finish_with_inodes(IpbJsonWriter *writer, uint64_t out, uint64_t err)
{
    ipb_json_key(writer, "inodes");
    ipb_json_begin_array(writer);
    ipb_json_write_int(writer, (int64_t) out);
    ipb_json_write_int(writer, (int64_t) err);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

char *
ipb_control_build_pipes(int64_t id, uint64_t out, uint64_t err)
{
    return finish_with_inodes(begin_packet("pipes", id), out, err);
}

char *
ipb_control_build_adopt(int64_t id, int64_t pid, uint64_t out, uint64_t err)
{
    IpbJsonWriter *writer = begin_packet("adopt", id);
    ipb_json_member_int(writer, "pid", pid);
    return finish_with_inodes(writer, out, err);
}
