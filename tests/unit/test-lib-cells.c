/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells through the library: what they tell, what is left of them, and every way to end them.
 */
#include "lib-fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- results -----------------------------------------------------------------------------------
 * */

static void
test_state(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "x = 6", "");
    assert_prints(fixture.session, "print('a'); x * 7", "a\n42");
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_reset(fixture.session, &error));
    g_assert_no_error(error);
    assert_prints(fixture.session, "'x' in globals()", "False");
}

static void
test_exception(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxResult) result =
        run(fixture.session, "print('before')\nraise ValueError('no')", IPYBOX_STATUS_ERROR);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "before");
    g_assert_cmpstr(ipybox_result_get_error_name(result), ==, "ValueError");
    g_assert_cmpstr(ipybox_result_get_error_value(result), ==, "no");
    g_assert_nonnull(strstr(ipybox_result_get_traceback(result), "raise ValueError"));
    g_assert_null(ipybox_result_get_message(result));
    g_assert_cmpint(ipybox_result_get_execution_count(result), ==, 1);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_result_check(result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_CODE);
    g_assert_cmpstr(error->message, ==, "ValueError: no");
}

static void
test_images(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxResult) result =
        run(fixture.session,
            "import base64\nfrom IPython.display import display\n"
            "png = "
            "b'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
            "RU5ErkJggg=='\ndisplay({'image/png': png.decode()}, raw=True)",
            IPYBOX_STATUS_OK);
    const char *const *images = ipybox_result_get_images(result);
    g_assert_nonnull(images[0]);
    g_assert_null(images[1]);
    g_assert_true(g_str_has_prefix(images[0], ipybox_session_get_workspace(fixture.session)));
    g_assert_true(g_file_test(images[0], G_FILE_TEST_IS_REGULAR));
}

static void
test_text_is_cut(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.max_text_chars = 3;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(fixture.session, "print('äöüß')", &options, NULL, NULL);
    g_assert_cmpstr(ipybox_result_get_text(result), ==,
                    "äö\n\n[Output cut here: 1 of 4 characters left out]\n\nß");
    g_assert_true(ipybox_result_is_truncated(result));
}

static void
test_timeout(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.timeout_ms = 100;
    assert_prints(fixture.session, "y = 1", "");
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(fixture.session, "while True: pass", &options, NULL, NULL);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_result_check(result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT);
    assert_prints(fixture.session, "y", "1");
}

static void
test_lost(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(IpyboxResult) result =
        run(fixture.session, "import os\nos._exit(3)", IPYBOX_STATUS_LOST);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_result_check(result, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED);
    g_assert_nonnull(strstr(error->message, "exit status 3"));
    assert_prints(fixture.session, "1", "1");
}

static void
assert_valid(const char *text)
{
    g_assert_nonnull(text);
    g_assert_true(g_utf8_validate(text, -1, NULL));
}

static void
on_any_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    if (ipybox_event_get_type(event) != IPYBOX_EVENT_ERROR)
        return;
    assert_valid(ipybox_event_get_text(event));
    assert_valid(ipybox_event_get_error_name(event));
    assert_valid(ipybox_event_get_error_value(event));
}

/* Python's strings may hold what UTF-8 and C cannot. */
static void
test_strings_of_python(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_any_event;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(
        fixture.session, "raise ValueError('a\\ud800b\\0c')", &options, NULL, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_ERROR);
    assert_valid(ipybox_result_get_error_name(result));
    assert_valid(ipybox_result_get_error_value(result));
    assert_valid(ipybox_result_get_traceback(result));
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_result_check(result, &error));
    assert_valid(error->message);
    g_test_message("%s", error->message);
}

/* --- events ------------------------------------------------------------------------------------
 * */

/* "type=text|" for each event, in order. */
static void
on_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    static const char *const NAMES[] = {"out",   "err",   "late",  "display",  "update",
                                        "clear", "value", "error", "progress", "notice"};
    const char *text = ipybox_event_get_text(event);
    if (text == NULL)
        text = ipybox_event_get_data(event, "text/plain");
    g_assert_true(text == NULL || g_utf8_validate(text, -1, NULL));
    g_string_append_printf(data, "%s=%s|", NAMES[ipybox_event_get_type(event)],
                           text != NULL ? text : "");
}

static char *
events_of(IpyboxSession *session, const char *code)
{
    GString *order = g_string_new(NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_event;
    options.user_data = order;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(session, code, &options, NULL, NULL);
    g_assert_true(ipybox_result_check(result, NULL));
    g_string_append(order, "end");
    return g_string_free(order, FALSE);
}

static void
on_bundle(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    const char *text = ipybox_event_get_bundle_text(event);
    g_string_append_printf(data, "%s|", text != NULL ? text : "-");
}

static void
test_bundle_text(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GString) texts = g_string_new(NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_bundle;
    options.user_data = texts;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(fixture.session,
                               "from IPython.display import HTML, Markdown\n"
                               "display(1, Markdown('*m*'), HTML('<p>h</p>'))\n"
                               "display({'image/png': 'iVBORw0KGgo='}, raw=True)\nprint('x')",
                               &options, NULL, NULL);
    g_assert_true(ipybox_result_check(result, NULL));
    g_assert_cmpstr(texts->str, ==, "1|*m*|h|-|-|");
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "1\n*m*\nh\nx");
}

static void
test_events_in_order(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *order =
        events_of(fixture.session, "import sys\nfrom IPython.display import display, clear_output\n"
                                   "print('a', flush=True)\nprint('b', file=sys.stderr)\n"
                                   "h = display('c', display_id=True)\nh.update('d')\n"
                                   "clear_output(wait=True)\n'e'");
    g_assert_cmpstr(order, ==, "out=a\n|err=b\n|display='c'|update='d'|clear=|value='e'|end");
}

typedef struct {
    char *bundle, *metadata, *json, *plain, *display_id;
    bool wait;
} Shown;

static void
on_shown(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    Shown *shown = data;
    if (ipybox_event_get_type(event) == IPYBOX_EVENT_CLEAR_OUTPUT)
        shown->wait = ipybox_event_get_wait(event);
    if (ipybox_event_get_type(event) != IPYBOX_EVENT_DISPLAY)
        return;
    shown->bundle = g_strdup(ipybox_event_get_bundle(event));
    shown->metadata = g_strdup(ipybox_event_get_metadata(event));
    shown->json = g_strdup(ipybox_event_get_data(event, "application/json"));
    shown->plain = g_strdup(ipybox_event_get_data(event, "text/plain"));
    shown->display_id = g_strdup(ipybox_event_get_display_id(event));
    g_assert_true(ipybox_event_get_bundle(event) == ipybox_event_get_bundle(event));
    g_assert_null(ipybox_event_get_data(event, "image/png"));
    g_assert_null(ipybox_event_get_image_path(event));
    g_assert_null(ipybox_event_get_text(event));
    g_assert_null(ipybox_event_get_error_name(event));
}

static void
test_bundle(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    Shown shown = {0};
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_shown;
    options.user_data = &shown;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(
        fixture.session,
        "from IPython.display import display, clear_output\nclear_output(wait=True)\n"
        "display({'text/plain': 'a\\ud800b\\0c', 'application/json': {'n': 2**70}}, raw=True,\n"
        "    metadata={'m': 1}, display_id='d1')",
        &options, NULL, NULL);
    g_assert_true(ipybox_result_check(result, NULL));
    g_assert_true(shown.wait);
    g_assert_true(g_utf8_validate(shown.plain, -1, NULL));
    g_assert_true(g_str_has_prefix(shown.plain, "a") && g_str_has_suffix(shown.plain, "c"));
    g_assert_cmpstr(shown.json, ==, "{\"n\":1180591620717411303424}");
    g_assert_cmpstr(shown.metadata, ==, "{\"m\":1}");
    g_assert_cmpstr(shown.display_id, ==, "d1");
    g_assert_nonnull(strstr(shown.bundle, "\"a\\ud800b\\u0000c\""));
    g_assert_true(g_utf8_validate(ipybox_result_get_text(result), -1, NULL));
    g_free(shown.bundle);
    g_free(shown.metadata);
    g_free(shown.json);
    g_free(shown.plain);
    g_free(shown.display_id);
}

/* --- the ends of cells -------------------------------------------------------------------------
 * */

static IpyboxResult *
finish(Answer *answer)
{
    wait_for(answer);
    g_autoptr(GError) error = NULL;
    IpyboxResult *result = ipybox_session_execute_finish(NULL, answer->result, &error);
    g_assert_no_error(error);
    return result;
}

static void
assert_status(Answer *answer, IpyboxStatus status)
{
    g_autoptr(IpyboxResult) result = finish(answer);
    g_assert_cmpint(ipybox_result_get_status(result), ==, status);
}

static void
assert_fails(Answer *answer, int code)
{
    wait_for(answer);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipybox_session_execute_finish(NULL, answer->result, &error));
    g_assert_error(error, IPYBOX_ERROR, code);
}

static void
test_cancelled_before(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_cancellable_cancel(cancellable);
    g_auto(Answer) answer = {0};
    ipybox_session_execute_async(fixture.session, "open('ran', 'w')", NULL, cancellable, on_answer,
                                 &answer);
    g_assert_cmpuint(answer.n_told, ==, 0); /* never from within the call */
    assert_status(&answer, IPYBOX_STATUS_CANCELLED);
    assert_prints(fixture.session, "import os; os.path.exists('ran')", "False");
}

/* A cell that waits is dropped; the running one continues. */
static void
test_cancelled_while_waiting(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    g_auto(Answer) first = {0}, second = {0}, third = {0};
    ipybox_session_execute_async(fixture.session, "x = 1", NULL, NULL, on_answer, &first);
    ipybox_session_execute_async(fixture.session, "x = 2", NULL, cancellable, on_answer, &second);
    ipybox_session_execute_async(fixture.session, "print(x)", NULL, NULL, on_answer, &third);
    g_cancellable_cancel(cancellable);
    assert_status(&second, IPYBOX_STATUS_CANCELLED);
    g_assert_cmpuint(first.n_told, ==, 0);
    assert_status(&first, IPYBOX_STATUS_OK);
    g_autoptr(IpyboxResult) result = finish(&third);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "1");
}

static void
cancel_at_output(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    if (ipybox_event_get_type(event) == IPYBOX_EVENT_STDOUT)
        g_cancellable_cancel(data);
}

static void
test_cancelled_while_running(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = cancel_at_output;
    options.user_data = cancellable;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(
        fixture.session, "z = 1\nprint('go', flush=True)\nimport time\ntime.sleep(1000)", &options,
        cancellable, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_CANCELLED);
    g_assert_nonnull(ipybox_result_get_message(result));
    assert_prints(fixture.session, "z", "1");
}

static void *
cancel_in_thread(void *data)
{
    g_cancellable_cancel(data);
    return NULL;
}

/* A blocking call is ended from another thread. */
static void
test_cancelled_by_a_thread(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    GThread *thread = g_thread_new(NULL, cancel_in_thread, cancellable);
    g_autoptr(IpyboxResult) result = ipybox_session_execute(
        fixture.session, "import time\ntime.sleep(1000)", NULL, cancellable, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_CANCELLED);
    g_thread_join(thread);
}

static void
interrupt_at_output(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    ipybox_session_interrupt(session);
}

static void
test_interrupted(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = interrupt_at_output;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(
        fixture.session, "print('go', flush=True)\nwhile True: pass", &options, NULL, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_CANCELLED);
    g_assert_cmpstr(ipybox_result_get_error_name(result), ==, "KeyboardInterrupt");
    ipybox_session_interrupt(fixture.session); /* nothing runs: nothing happens */
    assert_prints(fixture.session, "1", "1");
}

/* One that catches it and runs to its end is as good as any other. */
static void
test_interrupt_that_is_handled(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = interrupt_at_output;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(fixture.session,
                                                            "try:\n"
                                                            "    print('go', flush=True)\n"
                                                            "    while True: pass\n"
                                                            "except KeyboardInterrupt: x = 5",
                                                            &options, NULL, NULL);
    g_assert_cmpint(ipybox_result_get_status(result), ==, IPYBOX_STATUS_OK);
    g_assert_null(ipybox_result_get_message(result));
    assert_prints(fixture.session, "x", "5");
}

static void
on_notice(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    if (ipybox_event_get_type(event) == IPYBOX_EVENT_NOTICE)
        g_ptr_array_add(data, g_strdup(ipybox_event_get_text(event)));
}

static void
test_notices(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autofree char *images =
        g_build_filename(ipybox_session_get_workspace(fixture.session), "images", NULL);
    g_assert_true(g_file_set_contents(images, "no directory", -1, NULL));
    g_autoptr(GPtrArray) told = g_ptr_array_new_with_free_func(g_free);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_notice;
    options.user_data = told;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(
        fixture.session, "display({'image/png': 'iVBORw0KGgo='}, raw=True)\nprint('{}')", &options,
        NULL, NULL);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "{}");
    const char *const *notices = ipybox_result_get_notices(result);
    g_assert_true(g_str_has_prefix(notices[0], "[ipybox] image not saved: "));
    g_assert_null(notices[1]);
    g_assert_cmpuint(told->len, ==, 1);
    g_assert_cmpstr(g_ptr_array_index(told, 0), ==, notices[0]);
    g_autoptr(IpyboxResult) next = ipybox_session_execute(fixture.session, "1", NULL, NULL, NULL);
    g_assert_null(ipybox_result_get_notices(next)[0]);
}

/* Reset and close end what runs and what waits. */
static void
test_lost_by_reset_and_close(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) first = {0}, second = {0}, reset = {0}, third = {0}, closed = {0};
    ipybox_session_execute_async(fixture.session, "while True: pass", NULL, NULL, on_answer,
                                 &first);
    ipybox_session_execute_async(fixture.session, "2", NULL, NULL, on_answer, &second);
    ipybox_session_reset_async(fixture.session, on_answer, &reset);
    assert_status(&first, IPYBOX_STATUS_LOST);
    assert_status(&second, IPYBOX_STATUS_LOST);
    wait_for(&reset);
    g_assert_true(ipybox_session_reset_finish(NULL, reset.result, NULL));
    ipybox_session_execute_async(fixture.session, "while True: pass", NULL, NULL, on_answer,
                                 &third);
    ipybox_session_close_async(fixture.session, on_answer, &closed);
    assert_status(&third, IPYBOX_STATUS_LOST);
    wait_for(&closed);
    g_assert_true(ipybox_session_close_finish(NULL, closed.result, NULL));
}

static void
test_code_that_is_refused(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_auto(Answer) answer = {0}, large = {0};
    ipybox_session_execute_async(fixture.session, "\xff", NULL, NULL, on_answer, &answer);
    assert_fails(&answer, IPYBOX_ERROR_INVALID);
    g_autofree char *code = g_strnfill((32u << 20) + 1, ' ');
    ipybox_session_execute_async(fixture.session, code, NULL, NULL, on_answer, &large);
    assert_fails(&large, IPYBOX_ERROR_LIMIT);
}

/* Each of the thousand cells that wait gets an end. */
static void
test_too_many_cells(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    Answer answers[1002] = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(answers); i++)
        ipybox_session_execute_async(fixture.session, "1", NULL, NULL, on_answer, &answers[i]);
    assert_fails(&answers[G_N_ELEMENTS(answers) - 1], IPYBOX_ERROR_LIMIT);
    g_clear_pointer(&fixture.session, ipybox_session_free);
    for (size_t i = 0; i < G_N_ELEMENTS(answers); i++) {
        wait_for(&answers[i]);
        answer_clear(&answers[i]);
    }
}

/* Callbacks are not needed. */
static void
test_without_callbacks(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    ipybox_session_execute_async(fixture.session, "x = 5\nprint(x)", NULL, NULL, NULL, NULL);
    ipybox_session_reset_async(fixture.session, NULL, NULL);
    ipybox_session_execute_async(fixture.session, "x = 6", NULL, NULL, NULL, NULL);
    assert_prints(fixture.session, "x", "6");
    ipybox_session_close_async(fixture.session, NULL, NULL);
    ipybox_runtime_close_async(fixture.runtime, NULL, NULL);
}

static void
pause_session(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    GString *text = data;
    g_string_append(text, ipybox_event_get_text(event));
    ipybox_session_set_paused(session, TRUE);
    ipybox_session_set_paused(session, FALSE);
}

static void
test_paused(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = pause_session;
    options.user_data = text;
    g_autoptr(IpyboxResult) result = ipybox_session_execute(
        fixture.session, "for i in range(20000): print(i)", &options, NULL, NULL);
    g_assert_true(ipybox_result_check(result, NULL));
    g_strchomp(text->str);
    g_assert_cmpstr(text->str, ==, ipybox_result_get_text(result));
}

/* --- input -------------------------------------------------------------------------------------
 * */

typedef struct {
    const char *answer; /* NULL: it is refused */
    guint64 input;
    unsigned n_requests, n_withdrawn;
    gboolean is_password;
} Asked;

static void
on_input(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    Asked *asked = data;
    if (ipybox_event_get_type(event) == IPYBOX_EVENT_INPUT_WITHDRAWN)
        asked->n_withdrawn += ipybox_event_get_input(event) == asked->input;
    if (ipybox_event_get_type(event) != IPYBOX_EVENT_INPUT_REQUEST)
        return;
    asked->n_requests++;
    asked->input = ipybox_event_get_input(event);
    asked->is_password = ipybox_event_get_is_password(event);
    g_assert_cmpstr(ipybox_event_get_text(event), ==, "Name? ");
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_session_answer_input(session, asked->input, "\xff", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    if (asked->answer == NULL)
        ipybox_session_refuse_input(session, asked->input, NULL);
    else if (*asked->answer != '\0')
        g_assert_true(ipybox_session_answer_input(session, asked->input, asked->answer, &error));
}

static IpyboxResult *
ask(IpyboxSession *session, const char *code, Asked *asked, unsigned input_timeout_ms)
{
    IpyboxExecuteOptions options = IPYBOX_EXECUTE_OPTIONS_INIT;
    options.on_event = on_input;
    options.user_data = asked;
    options.allow_input = TRUE;
    options.input_timeout_ms = input_timeout_ms;
    g_autoptr(GError) error = NULL;
    IpyboxResult *result = ipybox_session_execute(session, code, &options, NULL, &error);
    g_assert_no_error(error);
    return result;
}

static void
test_input(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    Asked asked = {.answer = "Ann"};
    g_autoptr(IpyboxResult) result = ask(fixture.session, "input('Name? ')", &asked, 0);
    g_assert_cmpstr(ipybox_result_get_text(result), ==, "'Ann'");
    g_assert_cmpuint(asked.n_requests, ==, 1);
    g_assert_false(asked.is_password);
    g_autoptr(GError) error = NULL;
    g_assert_false(ipybox_session_answer_input(fixture.session, asked.input, "late", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_autoptr(IpyboxResult) secret =
        ask(fixture.session, "import getpass; getpass.getpass('Name? ')", &asked, 0);
    g_assert_cmpstr(ipybox_result_get_text(secret), ==, "'Ann'");
    g_assert_true(asked.is_password);
}

static void
test_input_is_refused(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    Asked asked = {.answer = NULL};
    g_autoptr(IpyboxResult) refused = ask(fixture.session, "input('Name? ')", &asked, 0);
    g_assert_cmpstr(ipybox_result_get_error_name(refused), ==, "EOFError");
    g_assert_cmpstr(ipybox_result_get_error_value(refused), ==, "the input was refused");
    g_assert_cmpuint(asked.n_withdrawn, ==, 0);
    asked.answer = "";
    g_autoptr(IpyboxResult) late = ask(fixture.session, "input('Name? ')", &asked, 100);
    g_assert_cmpstr(ipybox_result_get_error_value(late), ==, "no answer came within 0.1 s");
    g_assert_cmpuint(asked.n_withdrawn, ==, 1);
    g_autoptr(IpyboxResult) plain = run(fixture.session, "input('Name? ')", IPYBOX_STATUS_ERROR);
    g_assert_cmpstr(ipybox_result_get_error_name(plain), ==, "StdinNotImplementedError");
}

/* --- late output -------------------------------------------------------------------------------
 * */

/* "type cell=text|" for each late event, in order. */
static void
on_late_event(IpyboxSession *session, const IpyboxEvent *event, gpointer data)
{
    if (!ipybox_event_get_is_late(event)) {
        g_assert_cmpint(ipybox_event_get_execution_count(event), ==, 0);
        return;
    }
    const char *text = ipybox_event_get_text(event);
    if (text == NULL)
        text = ipybox_event_get_bundle_text(event);
    g_string_append_printf(data, "%d %" PRId64 "=%s|", ipybox_event_get_type(event),
                           ipybox_event_get_execution_count(event), text != NULL ? text : "");
}

static void
test_late_output(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    g_autoptr(GString) late = g_string_new(NULL), late_of_cell = g_string_new(NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.on_event = on_late_event;
    options.user_data = late;
    IpyboxSession *session = new_session(&fixture, &options);
    assert_prints(session, "x = 1", "");
    assert_prints(session,
                  "import threading\ngo, done = threading.Event(), threading.Event()\n"
                  "def work():\n    go.wait()\n    print('out')\n    display('shown')\n"
                  "    done.set()\nthreading.Thread(target=work).start()",
                  "");
    g_assert_cmpstr(late->str, ==, "");
    IpyboxExecuteOptions cell = IPYBOX_EXECUTE_OPTIONS_INIT;
    cell.on_event = on_late_event;
    cell.user_data = late_of_cell;
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(session, "go.set(); done.wait(); None", &cell, NULL, NULL);
    g_assert_true(ipybox_result_check(result, NULL));
    g_autofree char *display = g_strdup_printf("%d 2='shown'|", IPYBOX_EVENT_DISPLAY);
    g_autofree char *all = g_strdup_printf("%d 2=out\n|%s", IPYBOX_EVENT_STDOUT, display);
    g_assert_cmpstr(late->str, ==, all);
    /* The cell that runs has it, too, without marks. */
    g_assert_cmpstr(late_of_cell->str, ==, display);
    g_assert_nonnull(strstr(ipybox_result_get_text(result), "out\n"));
    g_assert_nonnull(strstr(ipybox_result_get_text(result), "'shown'"));
    ipybox_session_free(session);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/cells/state", test_state);
    add_test("/cells/exception", test_exception);
    add_test("/cells/images", test_images);
    add_test("/cells/text-is-cut", test_text_is_cut);
    add_test("/cells/timeout", test_timeout);
    add_test("/cells/lost", test_lost);
    add_test("/cells/strings-of-python", test_strings_of_python);
    add_test("/cells/events-in-order", test_events_in_order);
    add_test("/cells/late-output", test_late_output);
    add_test("/cells/bundle", test_bundle);
    add_test("/cells/bundle-text", test_bundle_text);
    add_test("/cells/cancelled-before", test_cancelled_before);
    add_test("/cells/cancelled-while-waiting", test_cancelled_while_waiting);
    add_test("/cells/cancelled-while-running", test_cancelled_while_running);
    add_test("/cells/cancelled-by-a-thread", test_cancelled_by_a_thread);
    add_test("/cells/interrupted", test_interrupted);
    add_test("/cells/interrupt-that-is-handled", test_interrupt_that_is_handled);
    add_test("/cells/notices", test_notices);
    add_test("/cells/lost-by-reset-and-close", test_lost_by_reset_and_close);
    add_test("/cells/code-that-is-refused", test_code_that_is_refused);
    add_test("/cells/too-many", test_too_many_cells);
    add_test("/cells/without-callbacks", test_without_callbacks);
    add_test("/cells/paused", test_paused);
    add_test("/cells/input", test_input);
    add_test("/cells/input-is-refused", test_input_is_refused);
    return g_test_run();
}
