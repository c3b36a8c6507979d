/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

static void
test_bounded(void)
{
    IpbBuffer buffer;
    ipb_buffer_init(&buffer, 10000);
    char block[4000];
    memset(block, 'x', sizeof block);
    g_assert_true(ipb_buffer_append(&buffer, block, 4000));
    g_assert_true(ipb_buffer_append(&buffer, block, 4000));
    g_assert_false(ipb_buffer_append(&buffer, block, 4000));
    g_assert_cmpuint(ipb_buffer_size(&buffer), ==, 8000);
    ipb_buffer_consume(&buffer, 7999);
    g_assert_true(ipb_buffer_append(&buffer, "yz", 2));
    g_assert_cmpmem(ipb_buffer_data(&buffer), ipb_buffer_size(&buffer), "xyz", 3);
    g_assert_null(ipb_buffer_reserve(&buffer, SIZE_MAX));
    ipb_buffer_clear(&buffer);
    g_assert_cmpuint(ipb_buffer_size(&buffer), ==, 0);
}

/* Random appends and consumes give the same bytes as a GByteArray. */
static void
test_against_byte_array(void)
{
    IpbBuffer buffer;
    ipb_buffer_init(&buffer, 100000);
    g_autoptr(GByteArray) model = g_byte_array_new();
    for (int i = 0; i < 20000; i++) {
        guint8 block[600];
        guint size = (guint) g_test_rand_int_range(0, sizeof block);
        memset(block, i & 0xff, size);
        if (g_test_rand_bit()) {
            bool fits = model->len + size <= 100000;
            g_assert_true(ipb_buffer_append(&buffer, block, size) == fits);
            if (fits)
                g_byte_array_append(model, block, size);
        } else {
            size = MIN(size, model->len);
            ipb_buffer_consume(&buffer, size);
            if (size > 0)
                g_byte_array_remove_range(model, 0, size);
        }
        g_assert_cmpmem(ipb_buffer_data(&buffer), ipb_buffer_size(&buffer), model->data,
                        model->len);
    }
    ipb_buffer_clear(&buffer);
}

typedef struct {
    int errors;
    int drained;
} QueueLog;

static void
on_error(int saved_errno, void *data)
{
    ((QueueLog *) data)->errors++;
}

static void
on_drained(void *data)
{
    ((QueueLog *) data)->drained++;
}

static const IpbWriteQueueFuncs queue_funcs = {on_error, on_drained};

static void
test_queue(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int ends[2];
    g_assert_true(ipb_fd_socketpair(1 /* SOCK_STREAM */, ends, NULL));
    QueueLog log = {0};
    IpbWriteQueue *queue = ipb_write_queue_new(loop, ends[0], 1 << 20, &queue_funcs, &log, NULL);
    char block[65536];
    memset(block, 'q', sizeof block);
    g_autoptr(GError) error = NULL;
    size_t sent = 0;
    while (ipb_write_queue_push(queue, block, sizeof block, &error))
        sent += sizeof block;
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_cmpuint(sent, >=, 1 << 20);
    size_t received = 0;
    while (received < sent) {
        g_main_context_iteration(NULL, FALSE);
        ssize_t n = read(ends[1], block, MIN(sizeof block, sent - received));
        g_assert_cmpint(n, >, 0);
        received += (size_t) n;
    }
    while (log.drained == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpint(log.drained, ==, 1);

    ipb_fd_close(&ends[1]); /* the reader closes: no SIGPIPE, one report */
    g_assert_false(ipb_write_queue_push(queue, "x", 1, NULL));
    g_assert_cmpint(log.errors, ==, 0);
    while (log.errors == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(ipb_write_queue_push(queue, "x", 1, NULL));
    ipb_write_queue_free(queue);
    ipb_fd_close(&ends[0]);
}

static void
test_queue_to_pipe(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int ends[2];
    g_assert_true(ipb_fd_pipe(ends, NULL));
    QueueLog log = {0};
    IpbWriteQueue *queue = ipb_write_queue_new(loop, ends[1], 1 << 20, &queue_funcs, &log, NULL);
    g_assert_true(ipb_write_queue_push(queue, "x", 1, NULL));
    ipb_fd_close(&ends[0]); /* SIGPIPE would end this program */
    g_assert_false(ipb_write_queue_push(queue, "x", 1, NULL));
    while (log.errors == 0)
        g_main_context_iteration(NULL, TRUE);
    ipb_write_queue_free(queue);
    ipb_fd_close(&ends[1]);
}

/* An empty message has room, too: NULL means that there is none. */
static void
test_room_for_nothing(void)
{
    IpbBuffer buffer;
    ipb_buffer_init(&buffer, 16);
    g_assert_null(ipb_buffer_data(&buffer));
    g_assert_nonnull(ipb_buffer_reserve(&buffer, 0));
    ipb_buffer_commit(&buffer, 0);
    g_assert_cmpuint(ipb_buffer_size(&buffer), ==, 0);
    g_assert_nonnull(ipb_buffer_reserve(&buffer, 16));
    g_assert_null(ipb_buffer_reserve(&buffer, 17));
    ipb_buffer_clear(&buffer);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/buffer/bounded", test_bounded);
    g_test_add_func("/base/buffer/against-byte-array", test_against_byte_array);
    g_test_add_func("/base/buffer/queue", test_queue);
    g_test_add_func("/base/buffer/queue-to-pipe", test_queue_to_pipe);
    g_test_add_func("/base/buffer/room-for-nothing", test_room_for_nothing);
    return g_test_run();
}
