/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of comms; see the header. What comes from kernels is checked in messages.c.
 */
#include "kernel/comm.h"

#include <string.h>

#include "base/error.h"
#include "json/writer.h"

/* Bytes of JSON. The frame of the kernel wire has 64 MiB, and other members. */
#define MAX_SIZE (63u * 1024 * 1024)
/* Base64 has 4 bytes for each 3. */
#define ENCODED_SIZE(size) (((size) / 3 + 1) * 4)

static const struct {
    const char *name, *message_type;
} KINDS[] = {
    [IPB_COMM_OPEN] = {"open", "comm_open"},
    [IPB_COMM_MSG] = {"msg", "comm_msg"},
    [IPB_COMM_CLOSE] = {"close", "comm_close"},
};

const char *
ipb_comm_kind_name(IpbCommKind kind)
{
    return KINDS[kind].name;
}

const char *
ipb_comm_message_type(IpbCommKind kind)
{
    return KINDS[kind].message_type;
}

bool
ipb_comm_kind_parse(const char *name, IpbCommKind *ret_kind)
{
    for (size_t i = 0; i < G_N_ELEMENTS(KINDS); i++) {
        if (g_strcmp0(name, KINDS[i].name) != 0)
            continue;
        *ret_kind = (IpbCommKind) i;
        return true;
    }
    return false;
}

static bool
check_name(const char *name, const char *what, GError **error)
{
    if (name == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the comm message needs a string %s (without NUL)", what);
        return false;
    }
    if (strlen(name) > IPB_COMM_MAX_NAME) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the %s of the comm message has more than %u bytes", what, IPB_COMM_MAX_NAME);
        return false;
    }
    return true;
}

static bool
check_size(const IpbComm *comm, GError **error)
{
    size_t size = comm->data != NULL ? ipb_json_raw(comm->data).size : 0;
    size += comm->metadata != NULL ? ipb_json_raw(comm->metadata).size : 0;
    for (size_t i = 0; i < comm->n_buffers && size <= MAX_SIZE; i++)
        size += comm->buffers[i].size <= MAX_SIZE ? ENCODED_SIZE(comm->buffers[i].size) : MAX_SIZE;
    if (size <= MAX_SIZE && comm->n_buffers <= IPB_COMM_MAX_BUFFERS)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "the comm message is too large: %u MiB in base64 and %u buffers are allowed",
                MAX_SIZE >> 20, IPB_COMM_MAX_BUFFERS);
    return false;
}

GBytes *
ipb_comm_write(const IpbComm *comm, GError **error)
{
    if (!check_name(comm->comm_id, "comm_id", error) ||
        (comm->kind == IPB_COMM_OPEN && !check_name(comm->target_name, "target_name", error)) ||
        !check_size(comm, error))
        return NULL;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "kind", ipb_comm_kind_name(comm->kind));
    ipb_json_member_string(writer, "comm_id", comm->comm_id);
    if (comm->kind == IPB_COMM_OPEN)
        ipb_json_member_string(writer, "target_name", comm->target_name);
    ipb_json_key(writer, "data");
    if (comm->data != NULL) {
        ipb_json_write_value(writer, comm->data);
    } else {
        ipb_json_begin_object(writer);
        ipb_json_end_object(writer);
    }
    if (comm->metadata != NULL)
        ipb_json_member_value(writer, "metadata", comm->metadata);
    ipb_json_key(writer, "buffers");
    ipb_json_begin_array(writer);
    for (size_t i = 0; i < comm->n_buffers; i++) {
        IpbSpan buffer = comm->buffers[i];
        g_autofree char *encoded = g_base64_encode((const guchar *) buffer.start, buffer.size);
        ipb_json_write_string(writer, encoded);
    }
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    size_t size;
    char *text = ipb_json_writer_finish(writer, &size);
    return g_bytes_new_take(text, size);
}
