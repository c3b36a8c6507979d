/* SPDX-License-Identifier: Apache-2.0
 *
 * The output collector. The tests act as the kernel. They write to the pipes and the wire, and let
 * the collector run at any point in between. The collector must report everything in the order in
 * which it was written.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "kernel/marker.h"
#include "kernel/output.h"

static const uint8_t key[IPB_MARKER_KEY_SIZE] = "0123456789a";

/* The kernel's end of a collector, and a trace of what it reported: "o(text)e(text)F(payload)" */
typedef struct {
    IpbLoop *loop;
    IpbOutput *output;
    int pipes[2]; /* write ends */
    int wire;
    uint32_t marker;
    int last_stream; /* -1: none since the last frame */
    GString *trace;
    char open_text; /* 'o', 'e' or 'l' if the trace ends in such a text, else 0 */
    bool is_finished, has_wire_ended, wire_failed;
    int is_written; /* set by the thread of test_bounded */
    size_t max_text;
    void (*on_report)(void *fixture);
} Fixture;

static void
end_text(Fixture *fixture)
{
    if (fixture->open_text != 0)
        g_string_append_c(fixture->trace, ')');
    fixture->open_text = 0;
}

static void
on_text(bool is_stderr, bool is_late, uint64_t cell, const char *text, size_t size, void *data)
{
    Fixture *fixture = data;
    g_assert_cmpuint(strlen(text), ==, size);
    g_assert_cmpuint(size, >, 0);
    g_assert_true(g_utf8_validate(text, (gssize) size, NULL));
    char kind = is_late ? 'l' : is_stderr ? 'e' : 'o';
    if (fixture->open_text != kind) {
        end_text(fixture);
        g_string_append_printf(fixture->trace, "%c(", kind);
        fixture->open_text = kind;
    }
    g_string_append_len(fixture->trace, text, (gssize) size);
    fixture->max_text = MAX(fixture->max_text, size);
    if (fixture->on_report != NULL)
        fixture->on_report(fixture);
}

static void
on_frame(const IpbFrame *frame, void *data)
{
    Fixture *fixture = data;
    end_text(fixture);
    g_string_append_printf(fixture->trace, "F(%.*s)", (int) frame->payload_size, frame->payload);
    if (fixture->on_report != NULL)
        fixture->on_report(fixture);
}

static void
on_wire_end(const GError *error, void *data)
{
    Fixture *fixture = data;
    g_assert_false(fixture->has_wire_ended);
    fixture->has_wire_ended = true;
    fixture->wire_failed = error != NULL;
}

static void
on_finished(void *data)
{
    Fixture *fixture = data;
    g_assert_false(fixture->is_finished);
    fixture->is_finished = true;
    end_text(fixture);
}

static void
set_up(Fixture *fixture, const void *data)
{
    static const IpbOutputFuncs funcs = {on_text, on_frame, on_wire_end, on_finished};
    *fixture = (Fixture){.last_stream = -1, .trace = g_string_new(NULL)};
    fixture->loop = ipb_loop_new(NULL, NULL);
    int reads[2], wire[2];
    for (int i = 0; i < 2; i++) {
        int fds[2];
        g_assert_true(ipb_fd_pipe(fds, NULL));
        g_assert_true(ipb_fd_set_nonblocking(fds[0], true, NULL));
        reads[i] = fds[0];
        fixture->pipes[i] = fds[1];
    }
    g_assert_true(ipb_fd_socketpair(SOCK_STREAM, wire, NULL));
    fixture->wire = wire[1];
    fixture->output =
        ipb_output_new(fixture->loop, reads[0], reads[1], wire[0], key, &funcs, fixture, NULL);
    g_assert_nonnull(fixture->output);
}

static void
close_all(Fixture *fixture)
{
    ipb_fd_close(&fixture->pipes[0]);
    ipb_fd_close(&fixture->pipes[1]);
    ipb_fd_close(&fixture->wire);
}

static void
tear_down(Fixture *fixture, const void *data)
{
    ipb_output_free(fixture->output);
    close_all(fixture);
    ipb_loop_unref(fixture->loop);
    g_string_free(fixture->trace, TRUE);
}

/* Runs everything that is pending in the main loop, without waiting. */
static void
run(Fixture *fixture)
{
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

static void
run_until_finished(Fixture *fixture)
{
    while (!fixture->is_finished)
        g_main_context_iteration(NULL, TRUE);
}

static void
finish(Fixture *fixture)
{
    ipb_output_finish(fixture->output, /* with_frames= */ true);
    run_until_finished(fixture);
}

static void
write_bytes(int fd, const void *bytes, size_t size)
{
    g_assert_true(ipb_fd_write_all(fd, bytes, size, NULL));
}

static void
write_text(Fixture *fixture, int stream, const char *text)
{
    write_bytes(fixture->pipes[stream], text, strlen(text));
}

static void
write_marker(Fixture *fixture, int stream, uint32_t number)
{
    uint8_t marker[IPB_MARKER_SIZE] = {0};
    uint32_t little = GUINT32_TO_LE(number);
    memcpy(marker + 1, key, sizeof key);
    memcpy(marker + 13, &little, 4);
    marker[17] = '\n';
    write_bytes(fixture->pipes[stream], marker, sizeof marker);
}

static void
write_frame(Fixture *fixture, uint8_t type, uint32_t marker, const char *payload)
{
    uint32_t header[2] = {GUINT32_TO_LE((uint32_t) strlen(payload) + 5), GUINT32_TO_LE(marker)};
    g_autoptr(GByteArray) frame = g_byte_array_new();
    g_byte_array_append(frame, (uint8_t *) &header[0], 4);
    g_byte_array_append(frame, &type, 1);
    g_byte_array_append(frame, (uint8_t *) &header[1], 4);
    g_byte_array_append(frame, (const uint8_t *) payload, (guint) strlen(payload));
    write_bytes(fixture->wire, frame->data, frame->len);
}

#define assert_trace(fixture, expected) g_assert_cmpstr((fixture)->trace->str, ==, expected)

static void
test_frame_after_text(Fixture *fixture, const void *data)
{
    write_frame(fixture, IPB_FRAME_DISPLAY, 0, "0");
    write_text(fixture, 0, "a");
    write_marker(fixture, 0, 1);
    write_marker(fixture, 1, 1);
    write_frame(fixture, IPB_FRAME_DISPLAY, 1, "1");
    write_text(fixture, 0, "b");
    write_marker(fixture, 0, 2);
    write_text(fixture, 0, "d");
    write_text(fixture, 1, "c");
    write_marker(fixture, 1, 2);
    write_text(fixture, 1, "e");
    write_marker(fixture, 0, 3);
    write_marker(fixture, 1, 3);
    write_frame(fixture, IPB_FRAME_DONE, 3, "3");
    write_text(fixture, 0, "late");
    finish(fixture);
    assert_trace(fixture, "F(0)o(a)F(1)o(b)e(c)o(d)e(e)F(3)o(late)");
}

/* The markers of one pipe arrive earlier than those of the other pipe. */
static void
test_pipe_ahead(Fixture *fixture, const void *data)
{
    for (int ahead = 0; ahead < 2; ahead++) {
        g_string_truncate(fixture->trace, 0);
        fixture->open_text = 0;
        uint32_t first = (uint32_t) ahead * 3 + 1;
        write_text(fixture, ahead, "1");
        write_marker(fixture, ahead, first);
        write_marker(fixture, ahead, first + 1);
        write_text(fixture, 1 - ahead, "2");
        write_marker(fixture, 1 - ahead, first);
        write_text(fixture, 1 - ahead, "3");
        write_marker(fixture, 1 - ahead, first + 1);
        write_text(fixture, ahead, "4");
        write_marker(fixture, ahead, first + 2);
        write_marker(fixture, 1 - ahead, first + 2);
        write_text(fixture, 1 - ahead, "5");
        run(fixture);
        end_text(fixture);
        assert_trace(fixture, ahead == 0 ? "o(1)e(23)o(4)e(5)" : "o(2)e(1)o(3)e(4)o(5)");
    }
}

/* Writes random text to one stream, with markers where a kernel writes them. */
static void
program_text(Fixture *fixture, GString *expected, GRand *rand, int stream)
{
    if (fixture->last_stream >= 0 && fixture->last_stream != stream) {
        fixture->marker++;
        write_marker(fixture, 0, fixture->marker);
        if (g_rand_int_range(rand, 0, 4) == 0)
            run(fixture);
        write_marker(fixture, 1, fixture->marker);
    }
    if (fixture->last_stream != stream) {
        if (fixture->last_stream >= 0)
            g_string_append_c(expected, ')');
        g_string_append_printf(expected, "%c(", "oe"[stream]);
    }
    fixture->last_stream = stream;
    /* Sizes are not multiples of a page, so reads end anywhere, and they fit into a pipe. */
    size_t size = g_rand_int_range(rand, 0, 30) == 0 ? (size_t) g_rand_int_range(rand, 1, 30000)
                                                     : (size_t) g_rand_int_range(rand, 1, 40);
    g_autofree char *text = g_malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = (char) g_rand_int_range(rand, 'a', 'z');
    text[size] = '\0';
    write_text(fixture, stream, text);
    g_string_append(expected, text);
}

static void
program_frame(Fixture *fixture, GString *expected, GRand *rand)
{
    char payload[32];
    snprintf(payload, sizeof payload, "%u", fixture->marker);
    fixture->marker++;
    for (int i = 0; i < 2; i++) {
        write_marker(fixture, i, fixture->marker);
        if (g_rand_int_range(rand, 0, 4) == 0)
            run(fixture);
    }
    write_frame(fixture, g_rand_boolean(rand) ? IPB_FRAME_DISPLAY : IPB_FRAME_DONE, fixture->marker,
                payload);
    g_string_append_printf(expected, "%sF(%s)", fixture->last_stream >= 0 ? ")" : "", payload);
    fixture->last_stream = -1;
}

static void
run_program(guint32 seed)
{
    Fixture fixture;
    set_up(&fixture, NULL);
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_autoptr(GString) expected = g_string_new(NULL);
    /* How rarely the collector runs: often enough that no write blocks. */
    int pause = g_rand_int_range(rand, 1, 4);
    for (int i = 0; i < 60; i++) {
        if (g_rand_int_range(rand, 0, 3) == 0)
            program_frame(&fixture, expected, rand);
        else
            program_text(&fixture, expected, rand, g_rand_int_range(rand, 0, 2));
        if (g_rand_int_range(rand, 0, pause) == 0 || i % 2 == 0)
            run(&fixture);
    }
    program_frame(&fixture, expected, rand);
    if (g_rand_boolean(rand))
        close_all(&fixture);
    finish(&fixture);
    if (strcmp(fixture.trace->str, expected->str) != 0)
        g_test_message("seed %u", seed);
    assert_trace(&fixture, expected->str);
    tear_down(&fixture, NULL);
}

static void
test_random_programs(void)
{
    for (guint32 seed = 0; seed < 400; seed++)
        run_program(seed);
}

/* Output can be split anywhere, also within a marker. */
static void
test_split_everywhere(void)
{
    static const char bytes[] = "a\xc3\xa9\0"
                                "b\0"
                                "0123456789a\0"
                                "\x01\0\0\0\n"
                                "c\0"
                                "0123456789a\0"
                                "\x01\0\0\0\n" /* a repeated marker is text */
                                "\0"
                                "0123456789a\0"
                                "\x02\0\0\0\n"
                                "\xff";
    for (size_t cut = 0; cut < sizeof bytes; cut++) {
        Fixture fixture;
        set_up(&fixture, NULL);
        write_marker(&fixture, 1, 1);
        write_marker(&fixture, 1, 2);
        write_bytes(fixture.pipes[0], bytes, cut);
        run(&fixture);
        write_bytes(fixture.pipes[0], bytes + cut, sizeof bytes - 1 - cut);
        run(&fixture);
        write_frame(&fixture, IPB_FRAME_DONE, 2, "");
        finish(&fixture);
        /* The text after the last marker may be reported before or after the frame. */
        const char *after = strstr(fixture.trace->str, "F()");
        g_assert_nonnull(after);
        g_assert_true(g_str_has_prefix(fixture.trace->str,
                                       "o(a\xc3\xa9\xe2\x90\x80"
                                       "bc\xe2\x90\x80"
                                       "0123456789a"
                                       "\xe2\x90\x80\x01\xe2\x90\x80\xe2\x90\x80\xe2\x90\x80\n"));
        tear_down(&fixture, NULL);
    }
}

static void
test_missing_markers(Fixture *fixture, const void *data)
{
    /* Missing in one pipe. */
    write_text(fixture, 0, "a");
    write_text(fixture, 1, "b");
    write_marker(fixture, 1, 1);
    write_text(fixture, 1, "c");
    write_frame(fixture, IPB_FRAME_DISPLAY, 1, "1");
    run(fixture);
    end_text(fixture);
    assert_trace(fixture, "o(a)e(b)F(1)e(c)");
    g_string_truncate(fixture->trace, 0);
    /* Missing in both pipes. The collector does not wait for a timeout. */
    write_text(fixture, 0, "d");
    write_frame(fixture, IPB_FRAME_DISPLAY, 2, "2");
    run(fixture);
    write_text(fixture, 0, "e");
    write_frame(fixture, IPB_FRAME_DISPLAY, 99, "3");
    run(fixture);
    assert_trace(fixture, "o(d)F(2)o(e)F(3)");
    g_string_truncate(fixture->trace, 0);
    /* Later markers restore the order. */
    write_text(fixture, 0, "f");
    write_marker(fixture, 0, 4);
    write_marker(fixture, 1, 4);
    write_frame(fixture, IPB_FRAME_DISPLAY, 4, "4");
    write_text(fixture, 1, "g");
    run(fixture);
    end_text(fixture);
    assert_trace(fixture, "o(f)F(4)e(g)");
}

/* A kernel closes stderr, then prints far more than a pipe holds. */
static void
test_closed_pipe(Fixture *fixture, const void *data)
{
    ipb_fd_close(&fixture->pipes[1]);
    g_autoptr(GString) expected = g_string_new("o(");
    for (uint32_t i = 1; i <= 10000; i++) {
        write_marker(fixture, 0, i);
        if (i % 2000 == 0) {
            write_frame(fixture, IPB_FRAME_DISPLAY, i, "x");
            g_string_append(expected, ")F(x)o(");
        }
        write_text(fixture, 0, "0123456789");
        g_string_append(expected, "0123456789");
        run(fixture);
    }
    finish(fixture);
    g_string_append_c(expected, ')');
    assert_trace(fixture, expected->str);
}

/* A marker follows more text than one read returns. */
static void
test_big_pipes(Fixture *fixture, const void *data)
{
    g_autofree char *text = g_strnfill(300000, 'x');
    g_autofree char *expected = g_strdup_printf("o(%s)F(1)e(%s)o(%s)F(2)", text, text, text);
    for (int i = 0; i < 2; i++)
        if (fcntl(fixture->pipes[i], F_SETPIPE_SZ, 1 << 20) < 0) {
            g_test_skip("pipes cannot be enlarged here");
            return;
        }
    write_text(fixture, 0, text);
    write_marker(fixture, 0, 1);
    write_marker(fixture, 1, 1);
    write_frame(fixture, IPB_FRAME_DISPLAY, 1, "1");
    write_text(fixture, 1, text);
    write_marker(fixture, 0, 2);
    write_marker(fixture, 1, 2);
    write_text(fixture, 0, text);
    write_marker(fixture, 0, 3);
    write_marker(fixture, 1, 3);
    write_frame(fixture, IPB_FRAME_DONE, 3, "2");
    finish(fixture);
    g_assert_true(strcmp(fixture->trace->str, expected) == 0);
}

static void
test_forged_markers(Fixture *fixture, const void *data)
{
    /* After a number far ahead, all text of that pipe is reported at once. The order of the other
     * pipe's text is kept. */
    write_marker(fixture, 0, G_MAXUINT32);
    write_text(fixture, 0, "a");
    run(fixture);
    write_text(fixture, 1, "b");
    write_marker(fixture, 1, 1);
    write_frame(fixture, IPB_FRAME_DISPLAY, 1, "1");
    write_text(fixture, 1, "c");
    write_text(fixture, 0, "d");
    run(fixture);
    write_frame(fixture, IPB_FRAME_DONE, G_MAXUINT32, "2");
    finish(fixture);
    g_assert_nonnull(strstr(fixture->trace->str, "b)F(1)"));
    g_assert_true(g_str_has_suffix(fixture->trace->str, "F(2)"));
}

/* An incomplete marker or character at the end of the output is text. */
static void
test_incomplete_at_end(Fixture *fixture, const void *data)
{
    write_bytes(fixture->pipes[0],
                "a\0"
                "0123",
                6);
    write_bytes(fixture->pipes[1], "b\xe2\x82", 3);
    run(fixture);
    g_assert_null(strstr(fixture->trace->str, "0123"));
    finish(fixture);
    assert_trace(fixture, "o(a)e(b)o(\xe2\x90\x80"
                          "0123)e(\xef\xbf\xbd)");
}

/* A character that is incomplete at the end of a cell is not completed by later text. */
static void
test_character_split_by_done(Fixture *fixture, const void *data)
{
    write_bytes(fixture->pipes[0], "x\xc3", 2);
    write_marker(fixture, 0, 1);
    write_marker(fixture, 1, 1);
    write_frame(fixture, IPB_FRAME_DONE, 1, "1");
    write_bytes(fixture->pipes[0], "\xa9y", 2);
    finish(fixture);
    assert_trace(fixture, "o(x\xef\xbf\xbd)F(1)o(\xef\xbf\xbdy)");
}

static void
test_late(Fixture *fixture, const void *data)
{
    write_text(fixture, 0, "1");
    write_text(fixture, 1, "2");
    ipb_output_mark_cell(fixture->output);
    write_text(fixture, 0, "3");
    write_marker(fixture, 0, 1);
    write_marker(fixture, 1, 1);
    write_text(fixture, 1, "4");
    run(fixture);
    end_text(fixture);
    assert_trace(fixture, "l(12)o(3)e(4)");
}

/* Late text that ends in an incomplete marker does not block the other pipe. */
static void
test_late_incomplete(Fixture *fixture, const void *data)
{
    write_bytes(fixture->pipes[0], "1\0", 2);
    ipb_output_mark_cell(fixture->output);
    write_text(fixture, 1, "2");
    run(fixture);
    ipb_fd_close(&fixture->pipes[0]);
    write_text(fixture, 1, "3");
    run(fixture);
    end_text(fixture);
    assert_trace(fixture, "l(1)e(23)");
}

static void
test_wire_end(Fixture *fixture, const void *data)
{
    write_text(fixture, 0, "a");
    write_marker(fixture, 0, 1);
    write_marker(fixture, 1, 1);
    write_frame(fixture, IPB_FRAME_DISPLAY, 1, "1");
    write_bytes(fixture->wire, "\x20\0\0\0\x41", 5); /* the wire ends within a frame */
    ipb_fd_close(&fixture->wire);
    run(fixture);
    g_assert_true(fixture->has_wire_ended);
    g_assert_false(fixture->wire_failed);
    write_text(fixture, 0, "b");
    finish(fixture);
    assert_trace(fixture, "o(a)F(1)o(b)");
}

static void
test_breach(Fixture *fixture, const void *data)
{
    write_text(fixture, 0, "a");
    write_frame(fixture, IPB_FRAME_DISPLAY, 0, "1");
    write_bytes(fixture->wire, "\x20\0\0\0\x11", 5);
    run(fixture);
    g_assert_true(fixture->has_wire_ended);
    g_assert_true(fixture->wire_failed);
    ipb_output_finish(fixture->output, /* with_frames= */ false);
    run_until_finished(fixture);
    g_assert_nonnull(strstr(fixture->trace->str, "F(1)"));
    g_assert_nonnull(strstr(fixture->trace->str, "o(a)"));
}

/* A child holds the pipes open and writes. Finishing still ends, with the output up to then. */
static void
test_finish_with_writers(Fixture *fixture, const void *data)
{
    write_text(fixture, 0, "a");
    write_marker(fixture, 0, 1); /* the kernel died between the two */
    write_text(fixture, 0, "b");
    write_text(fixture, 1, "c");
    ipb_output_finish(fixture->output, /* with_frames= */ true);
    write_text(fixture, 0, "too late");
    run_until_finished(fixture);
    assert_trace(fixture, "o(a)e(c)o(b)");
}

static void
test_paused(Fixture *fixture, const void *data)
{
    ipb_output_set_paused(fixture->output, true);
    write_text(fixture, 0, "a");
    write_frame(fixture, IPB_FRAME_DISPLAY, 0, "1");
    run(fixture);
    assert_trace(fixture, "");
    ipb_output_set_paused(fixture->output, false);
    run(fixture);
    g_assert_cmpuint(fixture->trace->len, >, 0);
    ipb_output_set_paused(fixture->output, true);
    write_text(fixture, 1, "b");
    finish(fixture); /* output is read in spite of the pause */
    g_assert_nonnull(strstr(fixture->trace->str, "e(b)"));
}

static void
pause_once(void *data)
{
    Fixture *fixture = data;
    ipb_output_set_paused(fixture->output, true);
}

static void
test_paused_in_callback(Fixture *fixture, const void *data)
{
    fixture->on_report = pause_once;
    for (int i = 0; i < 10; i++)
        write_frame(fixture, IPB_FRAME_DISPLAY, 0, "x");
    for (size_t n = 1; n <= 10; n++) {
        run(fixture);
        g_assert_cmpuint(fixture->trace->len, ==, n * 4);
        ipb_output_set_paused(fixture->output, false);
    }
}

static void
stop_output(void *data)
{
    ipb_output_stop(((Fixture *) data)->output);
}

static void
test_stopped_in_callback(Fixture *fixture, const void *data)
{
    fixture->on_report = stop_output;
    for (int i = 0; i < 10; i++)
        write_frame(fixture, IPB_FRAME_DISPLAY, 0, "x");
    write_text(fixture, 0, "a");
    run(fixture);
    assert_trace(fixture, "F(x)");
}

static void
finish_without_frames(void *data)
{
    ipb_output_finish(((Fixture *) data)->output, /* with_frames= */ false);
}

static void
test_finished_in_callback(Fixture *fixture, const void *data)
{
    fixture->on_report = finish_without_frames;
    for (int i = 0; i < 10; i++)
        write_frame(fixture, IPB_FRAME_DISPLAY, 0, "x");
    run_until_finished(fixture);
    assert_trace(fixture, "F(x)");
}

/* More frames than are reported in one turn, and more bytes than one read returns. */
static void
test_flood(Fixture *fixture, const void *data)
{
    g_autofree char *big = g_strnfill(100000, 'x');
    for (int i = 0; i < 20; i++) {
        for (int n = 0; n < 100; n++)
            write_frame(fixture, IPB_FRAME_DISPLAY, 0, "");
        write_frame(fixture, IPB_FRAME_DISPLAY, 0, big);
        run(fixture);
    }
    ipb_fd_close(&fixture->wire);
    finish(fixture);
    g_assert_cmpuint(fixture->trace->len, ==, 20 * (100 * 3 + 100003));
}

static void *
write_much(void *data)
{
    Fixture *fixture = data;
    g_autofree char *text = g_strnfill(100000, 'x');
    for (int i = 0; i < 500; i++)
        write_bytes(fixture->pipes[i % 2], text, 100000);
    g_atomic_int_set(&fixture->is_written, 1);
    g_main_context_wakeup(NULL);
    return NULL;
}

static void
clear_trace(void *data)
{
    Fixture *fixture = data;
    fixture->open_text = 0;
    g_string_truncate(fixture->trace, 0);
}

/* 50 MB are reported in bounded pieces. */
static void
test_bounded(Fixture *fixture, const void *data)
{
    fixture->on_report = clear_trace;
    GThread *thread = g_thread_new("kernel", write_much, fixture);
    while (!g_atomic_int_get(&fixture->is_written))
        g_main_context_iteration(NULL, TRUE);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    g_thread_join(thread);
    finish(fixture);
    g_assert_cmpuint(fixture->max_text, <=, 65536);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, func) g_test_add("/kernel/output/" path, Fixture, NULL, set_up, func, tear_down)
    ADD("frame-after-text", test_frame_after_text);
    ADD("pipe-ahead", test_pipe_ahead);
    g_test_add_func("/kernel/output/random-programs", test_random_programs);
    g_test_add_func("/kernel/output/split-everywhere", test_split_everywhere);
    ADD("missing-markers", test_missing_markers);
    ADD("closed-pipe", test_closed_pipe);
    ADD("big-pipes", test_big_pipes);
    ADD("forged-markers", test_forged_markers);
    ADD("incomplete-at-end", test_incomplete_at_end);
    ADD("character-split-by-done", test_character_split_by_done);
    ADD("late", test_late);
    ADD("late-incomplete", test_late_incomplete);
    ADD("wire-end", test_wire_end);
    ADD("breach", test_breach);
    ADD("finish-with-writers", test_finish_with_writers);
    ADD("paused", test_paused);
    ADD("paused-in-callback", test_paused_in_callback);
    ADD("stopped-in-callback", test_stopped_in_callback);
    ADD("finished-in-callback", test_finished_in_callback);
    ADD("flood", test_flood);
    ADD("bounded", test_bounded);
    return g_test_run();
}
