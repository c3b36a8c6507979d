/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded buffers and the write queue; see the header.
 */
#include "base/buffer.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#define MIN_CAPACITY 4096
/* An empty buffer that is larger than this releases its memory. */
#define MAX_IDLE_CAPACITY (256 * 1024)

void
ipb_buffer_init(IpbBuffer *buffer, size_t max_size)
{
    *buffer = (IpbBuffer){.max_size = max_size};
}

void
ipb_buffer_clear(IpbBuffer *buffer)
{
    g_free(buffer->bytes);
    *buffer = (IpbBuffer){.max_size = buffer->max_size};
}

uint8_t *
ipb_buffer_reserve(IpbBuffer *buffer, size_t size)
{
    size_t used = ipb_buffer_size(buffer);
    if (size > buffer->max_size - used)
        return NULL;
    if (buffer->bytes == NULL || size > buffer->capacity - buffer->end) {
        /* Move to the front only if that frees at least half. Otherwise small reads would move the
         * content again and again. */
        if (buffer->bytes != NULL && used + size <= buffer->capacity &&
            used <= buffer->capacity / 2) {
            memmove(buffer->bytes, buffer->bytes + buffer->start, used);
        } else {
            size_t capacity = MAX(used + size, MIN(buffer->capacity * 2, buffer->max_size));
            capacity = MAX(capacity, MIN(MIN_CAPACITY, buffer->max_size));
            uint8_t *bytes = g_malloc(capacity);
            if (used > 0)
                memcpy(bytes, buffer->bytes + buffer->start, used);
            g_free(buffer->bytes);
            buffer->bytes = bytes;
            buffer->capacity = capacity;
        }
        buffer->start = 0;
        buffer->end = used;
    }
    return buffer->bytes + buffer->end;
}

void
ipb_buffer_commit(IpbBuffer *buffer, size_t size)
{
    g_assert(size <= buffer->capacity - buffer->end);
    buffer->end += size;
}

bool
ipb_buffer_append(IpbBuffer *buffer, const void *data, size_t size)
{
    if (size == 0)
        return true;
    uint8_t *room = ipb_buffer_reserve(buffer, size);
    if (room == NULL)
        return false;
    memcpy(room, data, size);
    ipb_buffer_commit(buffer, size);
    return true;
}

void
ipb_buffer_consume(IpbBuffer *buffer, size_t size)
{
    g_assert(size <= ipb_buffer_size(buffer));
    buffer->start += size;
    if (buffer->start < buffer->end)
        return;
    buffer->start = buffer->end = 0;
    if (buffer->capacity > MAX_IDLE_CAPACITY)
        ipb_buffer_clear(buffer);
}

struct IpbWriteQueue {
    IpbLoop *loop;
    int fd;
    IpbBuffer buffer;
    IpbWatch *watch;
    IpbTimer *error_timer; /* reports a failure from the loop, not from within push */
    int error;             /* errno of the write that failed; 0: alive */
    IpbWriteQueueFuncs funcs;
    void *data;
};

static void
on_error_timer(void *data)
{
    IpbWriteQueue *queue = data;
    g_clear_pointer(&queue->error_timer, ipb_timer_free);
    if (queue->funcs.on_error != NULL)
        queue->funcs.on_error(queue->error, queue->data); /* may free the queue */
}

static void
fail(IpbWriteQueue *queue, int saved_errno)
{
    queue->error = saved_errno;
    ipb_buffer_clear(&queue->buffer);
    ipb_watch_set_events(queue->watch, 0);
    queue->error_timer = ipb_timer_new(queue->loop, 0, on_error_timer, queue);
}

/* Writes once, without signals. Returns 0 if the fd can take nothing now, -1 with errno. */
static ssize_t
write_some(int fd, const void *bytes, size_t size)
{
    for (;;) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == ENOTSOCK)
            n = ipb_fd_write(fd, bytes, size);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN))
            return n;
        if (errno == EAGAIN)
            return 0;
    }
}

static void
on_writable(uint32_t events, void *data)
{
    IpbWriteQueue *queue = data;
    size_t size = ipb_buffer_size(&queue->buffer);
    ssize_t n = write_some(queue->fd, ipb_buffer_data(&queue->buffer), size);
    if (n < 0) {
        fail(queue, errno);
        return;
    }
    ipb_buffer_consume(&queue->buffer, (size_t) n);
    if ((size_t) n < size)
        return;
    ipb_watch_set_events(queue->watch, 0);
    if (queue->funcs.on_drained != NULL)
        queue->funcs.on_drained(queue->data); /* may free the queue */
}

IpbWriteQueue *
ipb_write_queue_new(IpbLoop *loop, int fd, size_t max_size, const IpbWriteQueueFuncs *funcs,
                    void *data, GError **error)
{
    if (!ipb_fd_set_nonblocking(fd, true, error))
        return NULL;
    IpbWriteQueue *queue = g_new0(IpbWriteQueue, 1);
    queue->watch = ipb_watch_new(loop, fd, 0, on_writable, queue, error);
    if (queue->watch == NULL) {
        g_free(queue);
        return NULL;
    }
    queue->loop = ipb_loop_ref(loop);
    queue->fd = fd;
    ipb_buffer_init(&queue->buffer, max_size);
    if (funcs != NULL)
        queue->funcs = *funcs;
    queue->data = data;
    return queue;
}

bool
ipb_write_queue_push(IpbWriteQueue *queue, const void *bytes, size_t size, GError **error)
{
    if (queue->error != 0)
        return ipb_error_set_errno(error, queue->error, "cannot write");
    if (ipb_buffer_size(&queue->buffer) == 0) {
        ssize_t n = write_some(queue->fd, bytes, size);
        if (n < 0) {
            fail(queue, errno);
            return ipb_error_set_errno(error, queue->error, "cannot write");
        }
        bytes = (const char *) bytes + n;
        size -= (size_t) n;
        if (size == 0)
            return true;
    }
    if (!ipb_buffer_append(&queue->buffer, bytes, size)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "the reader is too slow: more than %zu bytes are waiting to be written",
                    queue->buffer.max_size);
        return false;
    }
    ipb_watch_set_events(queue->watch, EPOLLOUT);
    return true;
}

bool
ipb_write_queue_has_failed(const IpbWriteQueue *queue)
{
    return queue->error != 0;
}

size_t
ipb_write_queue_size(const IpbWriteQueue *queue)
{
    return ipb_buffer_size(&queue->buffer);
}

void
ipb_write_queue_free(IpbWriteQueue *queue)
{
    if (queue == NULL)
        return;
    ipb_watch_free(queue->watch);
    ipb_timer_free(queue->error_timer);
    ipb_buffer_clear(&queue->buffer);
    ipb_loop_unref(queue->loop);
    g_free(queue);
}
