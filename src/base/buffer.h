/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbBuffer: bytes are appended at the end and consumed at the front, up to a maximum size. A plain
 * struct, owned by value. IpbWriteQueue: such a buffer for an fd, written when the fd can take
 * more.
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
    return buffer->bytes != NULL ? buffer->bytes + buffer->start : NULL;
}
/* False if the maximum would be exceeded; then nothing was added. */
bool ipb_buffer_append(IpbBuffer *buffer, const void *data, size_t size);
/* Returns room for at least @size more bytes at the end, or NULL if the maximum would be exceeded.
 * Write to it, then commit what was written. */
uint8_t *ipb_buffer_reserve(IpbBuffer *buffer, size_t size);
void ipb_buffer_commit(IpbBuffer *buffer, size_t size);
void ipb_buffer_consume(IpbBuffer *buffer, size_t size);

/* A queue in front of a non-blocking fd. */
typedef struct IpbWriteQueue IpbWriteQueue;
/* @on_error is called at most once, from the loop, when a write has failed; nothing more can be
 * pushed then. @on_drained (may be NULL): the queue has become empty. */
typedef struct {
    void (*on_error)(int saved_errno, void *data);
    void (*on_drained)(void *data);
} IpbWriteQueueFuncs;
/* Borrows @fd. No other watch may have the same fd number: for a socket that is also read, pass a
 * duplicate. */
IpbWriteQueue *ipb_write_queue_new(IpbLoop *loop, int fd, size_t max_size,
                                   const IpbWriteQueueFuncs *funcs, void *data, GError **error);
/* Writes what can be written at once, and queues the rest. Errors: LIMIT when the queue would
 * exceed its maximum, SYSTEM when a write has failed. */
bool ipb_write_queue_push(IpbWriteQueue *queue, const void *bytes, size_t size, GError **error);
size_t ipb_write_queue_size(const IpbWriteQueue *queue);
/* Whether a write has failed, most often because the reader is gone. Nothing more can be pushed. */
bool ipb_write_queue_has_failed(const IpbWriteQueue *queue);
void ipb_write_queue_free(IpbWriteQueue *queue);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbWriteQueue, ipb_write_queue_free)
