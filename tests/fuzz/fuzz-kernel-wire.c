/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a kernel and of the forkserver: frames, their payloads, and packets. The first
 * byte says which.
 */
#include <string.h>

#include "kernel/control.h"
#include "kernel/messages.h"
#include "kernel/requests.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_text(const char *text)
{
    g_assert(text == NULL || g_utf8_validate(text, -1, NULL));
}

static bool
send_request(uint64_t id, const char *method, const char *params, GError **error, void *data)
{
    return true;
}

static void
on_reply(const IpbJson *result, const GError *error, void *data)
{
    g_assert((result != NULL) != (error != NULL));
    ++*(unsigned *) data;
}

/* One request waits; a reply to it ends it, any other reply is refused. */
static void
check_reply(const IpbMessage *message)
{
    unsigned n_replies = 0;
    g_assert(message->request > 0 && (message->result == NULL) != (message->error == NULL));
    check_text(message->error);
    g_autoptr(IpbRequests) requests = ipb_requests_new();
    uint64_t id = ipb_requests_add(requests, "complete", "{}", on_reply, &n_replies, NULL);
    ipb_requests_send(requests, send_request, NULL);
    bool is_taken =
        ipb_requests_answer(requests, message->request, message->result, message->error, NULL);
    g_assert(is_taken == (message->request == id) && n_replies == (is_taken ? 1 : 0));
    g_assert(ipb_requests_is_empty(requests) == is_taken);
}

/* It can be passed on to a kernel. */
static void
check_comm(const IpbComm *comm)
{
    g_assert(strlen(comm->comm_id) <= IPB_COMM_MAX_NAME && comm->data != NULL);
    check_text(comm->comm_id);
    check_text(comm->target_name);
    check_text(comm->target_module);
    g_assert((comm->target_name != NULL) == (comm->kind == IPB_COMM_OPEN));
    g_assert(comm->n_buffers <= IPB_COMM_MAX_BUFFERS);
    g_autoptr(GBytes) written = ipb_comm_write(comm, NULL);
    g_assert(written != NULL);
}

static void
check_message(const IpbFrame *frame)
{
    g_auto(IpbMessage) message = {0};
    g_autoptr(GError) error = NULL;
    if (!ipb_message_parse(frame, &message, &error)) {
        g_assert(error != NULL && message.document == NULL);
        check_text(error->message);
        return;
    }
    check_text(message.event.text);
    check_text(message.event.ename);
    check_text(message.event.evalue);
    check_text(message.event.display_id);
    if (message.type == IPB_FRAME_REPLY)
        check_reply(&message);
    if (message.event.comm != NULL)
        check_comm(message.event.comm);
    g_assert(message.event.user_expressions == NULL ||
             ipb_json_is(message.event.user_expressions, IPB_JSON_OBJECT));
    IPB_JSON_FOREACH (item, message.event.payload)
        g_assert(ipb_json_get_string(item, "source") != NULL);
    g_assert(message.event.payload == NULL || ipb_json_length(message.event.payload) <= 16);
    g_assert(message.event.text == NULL || strlen(message.event.text) == message.event.text_size);
}

static void
read_frames(const uint8_t *data, size_t size)
{
    for (;;) {
        IpbFrame frame;
        size_t missing = 0;
        g_autoptr(GError) error = NULL;
        IpbFrameState state = ipb_frame_peek(data, size, &frame, &missing, &error);
        g_assert((error != NULL) == (state == IPB_FRAME_BREACH));
        if (state == IPB_FRAME_PARTIAL)
            g_assert(missing > 0);
        if (state != IPB_FRAME_COMPLETE)
            return;
        g_assert(frame.size <= size && frame.size >= IPB_FRAME_HEADER_SIZE);
        check_message(&frame);
        data += frame.size;
        size -= frame.size;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] != 'c') {
        read_frames(data + 1, size - 1);
        return 0;
    }
    g_auto(IpbControlMessage) message = {0};
    ipb_control_parse((const char *) data + 1, size - 1, &message, NULL);
    for (char **name = message.missing; name != NULL && *name != NULL; name++)
        check_text(*name);
    for (char **line = message.preload_failures; line != NULL && *line != NULL; line++)
        check_text(*line);
    return 0;
}
