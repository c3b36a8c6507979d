/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbBuffer: bytes in, bytes out at the front, with a maximum that it is born with. Plain struct,
 * owned by value. IpbWriteQueue: the same for an fd that is written when it can take more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

typedef struct {
    uint8_t *bytes;    /* allocation */
    size_t start, end; /* the content is bytes[start .. end) */
    size_t capacity;
    size_t max_size; /* content never exceeds this */
} IpbBuffer;

void ipb_buffer_init(IpbBuffer *buffer, size_t max_size);
void ipb_buffer_clear(IpbBuffer *buffer);
static inline size_t
ipb_buffer_size(const IpbBuffer *buffer)
{
    return buffer->end - buffer->start;
}
static inline const uint8_t *
ipb_buffer_data(const IpbBuffer *buffer)
{
    return buffer->bytes + buffer->start;
}
/* False if the maximum would be exceeded; then nothing was added. */
bool ipb_buffer_append(IpbBuffer *buffer, const void *data, size_t size);
/* Room for at least @size more bytes at the end (NULL over the maximum), then commit what was written. */
uint8_t *ipb_buffer_reserve(IpbBuffer *buffer, size_t size);
void ipb_buffer_commit(IpbBuffer *buffer, size_t size);
void ipb_buffer_consume(IpbBuffer *buffer, size_t size);

/* A queue in front of a non-blocking fd. */
typedef struct IpbWriteQueue IpbWriteQueue;
/* @on_error is called at most once, from the loop, when a write failed; the queue is dead then.
 * @on_drained (may be NULL): the queue became empty after it was not. */
typedef struct {
    void (*on_error)(int saved_errno, void *data);
    void (*on_drained)(void *data);
} IpbWriteQueueFuncs;
/* Takes no ownership of @fd, which may be watched by another watch only if it is another fd number:
 * for a socket that is also read, pass a duplicate. */
IpbWriteQueue *ipb_write_queue_new(IpbLoop *loop, int fd, size_t max_size,
                                   const IpbWriteQueueFuncs *funcs, void *data, GError **error);
/* Writes at once what can be written, queues the rest; false with IPYBOX_ERROR_LIMIT when the queue
 * would exceed its maximum, SYSTEM when it is dead. */
bool ipb_write_queue_push(IpbWriteQueue *queue, const void *bytes, size_t size, GError **error);
size_t ipb_write_queue_size(const IpbWriteQueue *queue);
/* A write failed: most often the reader has gone. Nothing more can be pushed. */
bool ipb_write_queue_has_failed(const IpbWriteQueue *queue);
void ipb_write_queue_free(IpbWriteQueue *queue);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbWriteQueue, ipb_write_queue_free)
