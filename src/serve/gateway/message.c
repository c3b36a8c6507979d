/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of Jupyter kernels; see the header. What a client sends is foreign: offsets, types and
 * sizes are checked before they are used.
 */
#include "serve/gateway/message.h"

#include <string.h>

#include "base/error.h"
#include "json/writer.h"

/* Goes back with each message that belongs to it. */
#define MAX_HEADER_SIZE (16u * 1024)
#define MAX_DEPTH 128
#define MAX_VALUES (1000u * 1000)
/* Parts of a binary frame: those of a message, and its buffers. */
#define MAX_PARTS 1024
#define MAX_BUFFERS 1000
/* channel, header, parent_header, metadata, content */
#define N_V1_PARTS 5
#define JUPYTER_VERSION "5.3"

static const IpbJsonLimits LIMITS = {IPB_GATEWAY_MAX_MESSAGE, MAX_DEPTH, MAX_VALUES};
static const char *const CHANNELS[] = {"shell", "control", "stdin"};

/* --- what comes ------------------------------------------------------------------------------ */

static uint64_t
read_le64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return GUINT64_FROM_LE(value);
}

static uint32_t
read_be32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return GUINT32_FROM_BE(value);
}

static bool
fail(GError **error, const char *why)
{
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "the message is refused: %s", why);
    return false;
}

static const char *
find_channel(const char *name, size_t size)
{
    for (size_t i = 0; name != NULL && i < G_N_ELEMENTS(CHANNELS); i++)
        if (strlen(CHANNELS[i]) == size && memcmp(CHANNELS[i], name, size) == 0)
            return CHANNELS[i];
    return NULL;
}

/* The members that every message has; header and content are set. */
static bool
check_message(IpbGatewayMessage *message, const char *channel, size_t channel_size, GError **error)
{
    message->channel = find_channel(channel, channel_size);
    message->msg_id = ipb_json_get_string(message->header, "msg_id");
    message->msg_type = ipb_json_get_string(message->header, "msg_type");
    if (message->channel == NULL)
        return fail(error, "its channel must be shell, control or stdin");
    if (!ipb_json_is(message->header, IPB_JSON_OBJECT) || message->msg_id == NULL ||
        message->msg_type == NULL)
        return fail(error, "its header must be an object with the strings msg_id and msg_type");
    if (ipb_json_raw(message->header).size > MAX_HEADER_SIZE)
        return fail(error, "its header is larger than 16 KiB");
    if (!ipb_json_is(message->content, IPB_JSON_OBJECT))
        return fail(error, "its content must be an object");
    if (!ipb_json_is(message->metadata, IPB_JSON_OBJECT))
        message->metadata = NULL;
    return true;
}

/* Copies the buffers of a comm's message, which is parsed. */
static bool
take_buffers(IpbGatewayMessage *message, const IpbSpan *buffers, size_t n, GError **error)
{
    if (n == 0 || !g_str_has_prefix(message->msg_type, "comm_"))
        return true;
    if (n > MAX_BUFFERS)
        return fail(error, "it has more than 1000 buffers");
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += buffers[i].size;
    message->buffers = g_new(IpbSpan, n);
    message->buffer_bytes = g_malloc(size + 1);
    size = 0;
    for (size_t i = 0; i < n; i++) {
        char *start = message->buffer_bytes + size;
        memcpy(start, buffers[i].start, buffers[i].size);
        message->buffers[i] = (IpbSpan){start, buffers[i].size};
        size += buffers[i].size;
    }
    message->n_buffers = n;
    return true;
}

static bool
parse_json(const char *text, size_t size, IpbGatewayMessage *message, GError **error)
{
    message->documents[0] = ipb_json_parse(text, size, &LIMITS, error);
    if (message->documents[0] == NULL)
        return false;
    const IpbJson *root = ipb_json_root(message->documents[0]);
    size_t channel_size = 0;
    const char *channel = ipb_json_string(ipb_json_get(root, "channel"), &channel_size);
    if (channel == NULL) { /* older clients leave it away */
        channel = "shell";
        channel_size = strlen(channel);
    }
    message->header = ipb_json_get(root, "header");
    message->content = ipb_json_get(root, "content");
    message->metadata = ipb_json_get(root, "metadata");
    return check_message(message, channel, channel_size, error);
}

/* JSON with buffers behind it: their number, where each starts, big-endian; the first
 * is the JSON. */
static bool
parse_json_with_buffers(const uint8_t *bytes, size_t size, IpbGatewayMessage *message,
                        GError **error)
{
    uint32_t n = size >= 4 ? read_be32(bytes) : 0;
    if (n == 0 || n > MAX_PARTS || size < 4 * ((size_t) n + 1))
        return fail(error, "a binary one begins with the number of its parts and their offsets");
    IpbSpan parts[MAX_PARTS];
    size_t start = read_be32(bytes + 4);
    if (start < 4 * ((size_t) n + 1))
        return fail(error, "the offsets of its parts are wrong");
    for (uint32_t i = 0; i < n; i++) {
        size_t end = i + 1 < n ? read_be32(bytes + 4 * ((size_t) i + 2)) : size;
        if (end < start || end > size)
            return fail(error, "the offsets of its parts are wrong");
        parts[i] = (IpbSpan){(const char *) bytes + start, end - start};
        start = end;
    }
    return parse_json(parts[0].start, parts[0].size, message, error) &&
           take_buffers(message, parts + 1, n - 1, error);
}

/* The number of offsets and the offsets, little-endian: where channel, header, parent_header,
 * metadata, content and each buffer start, and the end. */
static bool
split_v1(const uint8_t *bytes, size_t size, IpbSpan ret_parts[static MAX_PARTS], size_t *ret_n,
         GError **error)
{
    uint64_t n = size >= 8 ? read_le64(bytes) : 0;
    if (n < N_V1_PARTS + 1 || n > MAX_PARTS || size < 8 * (n + 1))
        return fail(error, "a v1 one begins with the number of its offsets and the offsets");
    uint64_t start = read_le64(bytes + 8);
    if (start < 8 * (n + 1))
        return fail(error, "the offsets of its parts are wrong");
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t end = read_le64(bytes + 8 * (i + 2));
        if (end < start || end > size)
            return fail(error, "the offsets of its parts are wrong");
        ret_parts[i] = (IpbSpan){(const char *) bytes + start, (size_t) (end - start)};
        start = end;
    }
    *ret_n = (size_t) n - 1;
    return true;
}

/* @parts: header, parent_header, metadata, content, buffers. */
static bool
parse_parts(IpbSpan channel, const IpbSpan *parts, size_t n_parts, IpbGatewayMessage *message,
            GError **error)
{
    IpbSpan header = parts[0], metadata = parts[2], content = parts[3];
    message->documents[0] = ipb_json_parse(header.start, header.size, &LIMITS, error);
    if (message->documents[0] == NULL) {
        g_prefix_error(error, "header: ");
        return false;
    }
    message->documents[1] = ipb_json_parse(content.start, content.size, &LIMITS, error);
    if (message->documents[1] == NULL) {
        g_prefix_error(error, "content: ");
        return false;
    }
    /* Clients without metadata may send nothing. */
    message->documents[2] =
        metadata.size > 0 ? ipb_json_parse(metadata.start, metadata.size, &LIMITS, error) : NULL;
    if (message->documents[2] == NULL && metadata.size > 0) {
        g_prefix_error(error, "metadata: ");
        return false;
    }
    message->header = ipb_json_root(message->documents[0]);
    message->content = ipb_json_root(message->documents[1]);
    if (message->documents[2] != NULL)
        message->metadata = ipb_json_root(message->documents[2]);
    return check_message(message, channel.start, channel.size, error) &&
           take_buffers(message, parts + IPB_GATEWAY_N_PARTS, n_parts - IPB_GATEWAY_N_PARTS, error);
}

static bool
parse_v1(const uint8_t *bytes, size_t size, IpbGatewayMessage *message, GError **error)
{
    IpbSpan parts[MAX_PARTS];
    size_t n;
    return split_v1(bytes, size, parts, &n, error) &&
           parse_parts(parts[0], parts + 1, n - 1, message, error);
}

bool
ipb_gateway_message_parse_parts(const char *channel, const IpbSpan *parts, size_t n_parts,
                                IpbGatewayMessage *ret_message, GError **error)
{
    g_auto(IpbGatewayMessage) message = {0};
    if (!parse_parts((IpbSpan){channel, strlen(channel)}, parts, n_parts, &message, error))
        return false;
    *ret_message = message;
    message = (IpbGatewayMessage){0};
    return true;
}

bool
ipb_gateway_message_parse(IpbGatewayFraming framing, bool is_binary, const void *bytes, size_t size,
                          IpbGatewayMessage *ret_message, GError **error)
{
    g_auto(IpbGatewayMessage) message = {0};
    bool is_good;
    if (framing == IPB_GATEWAY_FRAMING_V1)
        is_good = is_binary ? parse_v1(bytes, size, &message, error)
                            : fail(error, "v1 messages are binary, this is text");
    else if (is_binary)
        is_good = parse_json_with_buffers(bytes, size, &message, error);
    else
        is_good = parse_json(bytes, size, &message, error);
    if (!is_good)
        return false;
    *ret_message = message;
    message = (IpbGatewayMessage){0};
    return true;
}

void
ipb_gateway_message_clear(IpbGatewayMessage *message)
{
    ipb_json_doc_free(message->documents[0]);
    ipb_json_doc_free(message->documents[1]);
    ipb_json_doc_free(message->documents[2]);
    g_free(message->buffers);
    g_free(message->buffer_bytes);
    *message = (IpbGatewayMessage){0};
}

/* --- what goes ------------------------------------------------------------------------------- */

struct IpbGatewayOutgoing {
    const char *channel; /* static */
    char *msg_type;
    char *msg_id;
    char *header;
    char *parent;
    char *metadata;
    char *content;
    size_t content_size;
    const IpbSpan *buffers; /* borrowed */
    size_t n_buffers;
    GBytes *frames[IPB_GATEWAY_N_FRAMINGS];
};

/* As Jupyter writes it: "2026-01-31T12:00:00.000000Z". Caller frees. */
static char *
format_now(void)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *seconds = g_date_time_format(now, "%Y-%m-%dT%H:%M:%S");
    return g_strdup_printf("%s.%06dZ", seconds, g_date_time_get_microsecond(now));
}

static char *
write_header(const IpbGatewayParts *parts, const char *msg_id)
{
    g_autofree char *date = format_now();
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "msg_id", msg_id);
    ipb_json_member_string(writer, "msg_type", parts->msg_type);
    ipb_json_member_string(writer, "username", "ipybox");
    ipb_json_member_string(writer, "session", parts->session);
    ipb_json_member_string(writer, "date", date);
    ipb_json_member_string(writer, "version", JUPYTER_VERSION);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static char *
write_parent(const IpbJson *parent)
{
    if (parent == NULL)
        return g_strdup("{}");
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_write_value(writer, parent);
    return ipb_json_writer_finish(writer, NULL);
}

IpbGatewayOutgoing *
ipb_gateway_outgoing_new(const IpbGatewayParts *parts)
{
    IpbGatewayOutgoing *outgoing = g_new0(IpbGatewayOutgoing, 1);
    outgoing->channel = parts->channel;
    outgoing->msg_type = g_strdup(parts->msg_type);
    outgoing->msg_id = g_strdup_printf("%s_%" G_GUINT64_FORMAT, parts->session, parts->number);
    outgoing->header = write_header(parts, outgoing->msg_id);
    outgoing->parent = write_parent(parts->parent);
    outgoing->metadata = g_strdup(parts->metadata != NULL ? parts->metadata : "{}");
    outgoing->buffers = parts->buffers;
    outgoing->n_buffers = parts->n_buffers;
    outgoing->content = parts->content;
    outgoing->content_size = parts->content_size;
    return outgoing;
}

static void
write_raw_member(IpbJsonWriter *writer, const char *name, const char *json, size_t size)
{
    ipb_json_key(writer, name);
    ipb_json_write_raw(writer, json, size);
}

static void
append_be32(GByteArray *frame, size_t value)
{
    uint32_t number = GUINT32_TO_BE((uint32_t) value);
    g_byte_array_append(frame, (const guint8 *) &number, sizeof number);
}

/* See parse_json_with_buffers(). A message of a kernel has less than 4 GiB. */
static GBytes *
append_buffers(const IpbGatewayOutgoing *outgoing, const char *json, size_t size)
{
    GByteArray *frame = g_byte_array_new();
    size_t n = outgoing->n_buffers + 1;
    size_t offset = 4 * (n + 1);
    append_be32(frame, n);
    append_be32(frame, offset);
    offset += size;
    for (size_t i = 0; i < outgoing->n_buffers; i++) {
        append_be32(frame, offset);
        offset += outgoing->buffers[i].size;
    }
    g_byte_array_append(frame, (const guint8 *) json, (guint) size);
    for (size_t i = 0; i < outgoing->n_buffers; i++)
        g_byte_array_append(frame, (const guint8 *) outgoing->buffers[i].start,
                            (guint) outgoing->buffers[i].size);
    return g_byte_array_free_to_bytes(frame);
}

static GBytes *
frame_json(const IpbGatewayOutgoing *outgoing)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    write_raw_member(writer, "header", outgoing->header, strlen(outgoing->header));
    ipb_json_member_string(writer, "msg_id", outgoing->msg_id);
    ipb_json_member_string(writer, "msg_type", outgoing->msg_type);
    write_raw_member(writer, "parent_header", outgoing->parent, strlen(outgoing->parent));
    write_raw_member(writer, "metadata", outgoing->metadata, strlen(outgoing->metadata));
    write_raw_member(writer, "content", outgoing->content, outgoing->content_size);
    if (outgoing->n_buffers == 0) /* else they follow the JSON */
        write_raw_member(writer, "buffers", "[]", 2);
    ipb_json_member_string(writer, "channel", outgoing->channel);
    ipb_json_end_object(writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    if (outgoing->n_buffers > 0)
        return append_buffers(outgoing, text, size);
    return g_bytes_new_take(g_steal_pointer(&text), size);
}

static void
append_le64(GByteArray *frame, uint64_t value)
{
    uint64_t number = GUINT64_TO_LE(value);
    g_byte_array_append(frame, (const guint8 *) &number, sizeof number);
}

static GBytes *
frame_v1(const IpbGatewayOutgoing *outgoing)
{
    const IpbSpan parts[N_V1_PARTS] = {
        {outgoing->channel, strlen(outgoing->channel)},
        {outgoing->header, strlen(outgoing->header)},
        {outgoing->parent, strlen(outgoing->parent)},
        {outgoing->metadata, strlen(outgoing->metadata)},
        {outgoing->content, outgoing->content_size},
    };
    size_t n = N_V1_PARTS + outgoing->n_buffers;
    uint64_t offset = 8 * ((uint64_t) n + 2);
    GByteArray *frame = g_byte_array_new();
    append_le64(frame, n + 1);
    for (size_t i = 0; i < n; i++) {
        append_le64(frame, offset);
        offset += i < N_V1_PARTS ? parts[i].size : outgoing->buffers[i - N_V1_PARTS].size;
    }
    append_le64(frame, offset);
    for (size_t i = 0; i < n; i++) {
        IpbSpan part = i < N_V1_PARTS ? parts[i] : outgoing->buffers[i - N_V1_PARTS];
        g_byte_array_append(frame, (const guint8 *) part.start, (guint) part.size);
    }
    return g_byte_array_free_to_bytes(frame);
}

GBytes *
ipb_gateway_outgoing_frame(IpbGatewayOutgoing *outgoing, IpbGatewayFraming framing)
{
    if (outgoing->frames[framing] == NULL)
        outgoing->frames[framing] =
            framing == IPB_GATEWAY_FRAMING_V1 ? frame_v1(outgoing) : frame_json(outgoing);
    return outgoing->frames[framing];
}

bool
ipb_gateway_outgoing_is_text(const IpbGatewayOutgoing *outgoing, IpbGatewayFraming framing)
{
    return framing == IPB_GATEWAY_FRAMING_JSON && outgoing->n_buffers == 0;
}

const IpbSpan *
ipb_gateway_outgoing_buffers(const IpbGatewayOutgoing *outgoing, size_t *ret_n)
{
    *ret_n = outgoing->n_buffers;
    return outgoing->buffers;
}

const char *
ipb_gateway_outgoing_channel(const IpbGatewayOutgoing *outgoing)
{
    return outgoing->channel;
}

const char *
ipb_gateway_outgoing_type(const IpbGatewayOutgoing *outgoing)
{
    return outgoing->msg_type;
}

void
ipb_gateway_outgoing_parts(const IpbGatewayOutgoing *outgoing,
                           IpbSpan ret_parts[static IPB_GATEWAY_N_PARTS])
{
    ret_parts[0] = (IpbSpan){outgoing->header, strlen(outgoing->header)};
    ret_parts[1] = (IpbSpan){outgoing->parent, strlen(outgoing->parent)};
    ret_parts[2] = (IpbSpan){outgoing->metadata, strlen(outgoing->metadata)};
    ret_parts[3] = (IpbSpan){outgoing->content, outgoing->content_size};
}

void
ipb_gateway_outgoing_free(IpbGatewayOutgoing *outgoing)
{
    if (outgoing == NULL)
        return;
    g_free(outgoing->msg_type);
    g_free(outgoing->msg_id);
    g_free(outgoing->header);
    g_free(outgoing->parent);
    g_free(outgoing->metadata);
    g_free(outgoing->content);
    for (size_t i = 0; i < IPB_GATEWAY_N_FRAMINGS; i++)
        g_clear_pointer(&outgoing->frames[i], g_bytes_unref);
    g_free(outgoing);
}
