/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking at the terminal; see the header. A question is in one of three states: in the queue; shown
 * after the user presses Enter; or shown, in pages that fit the screen. The terminal stays in line
 * mode, and no escape sequence moves the cursor. So this works on every terminal, and the user can
 * scroll back.
 */
#include "cli/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <glib-unix.h>

#include "base/fd.h"
#include "base/display-text.h"
#include "base/display-text.h"
#include "base/thread.h"

/* Bytes of a line that the user types. A longer one is not an answer. */
#define MAX_ANSWER 4096
/* A window changes its size many times while the user resizes it. */
#define RESIZE_DELAY_MS 100
/* The size of a terminal that does not report it. */
#define DEFAULT_WIDTH 80
#define DEFAULT_HEIGHT 24
/* Resets colours and line graphics that other programs may have left on the terminal. */
#define RESET "\033[0m\033(B\017"

#define ALLOW "Allow? [y]es, [n]o, [a]lways for this tool"
#define VIEW ", [v]iew again"
#define ENTER "Another tool call needs an answer. Press Enter to see it: "

/* About a call, or for input. */
typedef struct {
    IpyboxSession *session; /* of the input; borrowed. NULL: the question is about a call */
    guint64 input;
    bool is_password;
    IpyboxApproval *approval;
    char *text; /* the whole question; NULL: it is too long. The prompt of the input */
    char *tool; /* "always" is for this: the tool, and the server's parameters that the call has */
} Question;

typedef enum {
    FREE,        /* no question; nothing is read */
    READ_INPUT,  /* the head of the queue is for input */
    ENTER_FIRST, /* the head of the queue is shown when the user enters an empty line */
    SHOWN,       /* the head of the queue is shown, up to next_row */
} State;

struct IpbPrompt {
    IpbPromptBusyFunc on_busy;
    gpointer data;
    int tty;
    bool is_silent; /* the terminal does not show what is typed: `shown` does */
    struct termios shown;
    bool is_gone;  /* the terminal is closed: all questions are refused */
    bool is_ascii; /* the terminal shows ASCII only */
    bool is_plain; /* the terminal has no escape sequences */
    guint watch, resize_watch, resize_timer;
    GString *typed; /* the beginning of a line */
    bool is_overlong;
    GQueue questions; /* Question; the head is asked */
    State state;
    bool is_withdrawn; /* the last question was withdrawn, so the next line may be meant for it */
    GPtrArray *rows;   /* of the head while it is shown */
    unsigned next_row;
    unsigned width, height; /* of the screen when it was shown */
    GHashTable *always;     /* set of Question.tool */
};

static void show_next(IpbPrompt *prompt);

static void
free_question(void *data)
{
    Question *question = data;
    g_clear_pointer(&question->approval, ipybox_approval_unref);
    g_free(question->text);
    g_free(question->tool);
    g_free(question);
}

/* --- the terminal ----------------------------------------------------------------------------- */

static void
print(IpbPrompt *prompt, const char *text)
{
    /* An error is ignored: reading from a closed terminal refuses the question. */
    ipb_fd_write_all(prompt->tty, text, strlen(text), NULL);
}

/* Whether the locale's name says UTF-8. The locale need not be installed. */
static bool
is_utf8(void)
{
    static const char *const NAMES[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        const char *value = g_getenv(NAMES[i]);
        if (value == NULL || *value == '\0')
            continue;
        const char *dot = strchr(value, '.');
        return dot != NULL && (g_ascii_strncasecmp(dot, ".UTF-8", 6) == 0 ||
                               g_ascii_strncasecmp(dot, ".utf8", 5) == 0);
    }
    return false;
}

static void
read_size(const IpbPrompt *prompt, unsigned *ret_width, unsigned *ret_height)
{
    struct winsize size = {0};
    bool is_known = ioctl(prompt->tty, TIOCGWINSZ, &size) == 0;
    *ret_width = is_known && size.ws_col > 0 ? size.ws_col : DEFAULT_WIDTH;
    *ret_height = is_known && size.ws_row > 0 ? size.ws_row : DEFAULT_HEIGHT;
}

/* Drops lines that were typed and not read, and the beginning of a line. */
static void
drop_typed(IpbPrompt *prompt)
{
    tcflush(prompt->tty, TCIFLUSH);
    g_string_truncate(prompt->typed, 0);
    prompt->is_overlong = false;
}

/* Prints the text before the user types. Earlier input cannot be meant for it. */
static void
print_prompt(IpbPrompt *prompt, const char *text)
{
    drop_typed(prompt);
    print(prompt, text);
}

/* For a password. */
static void
set_silent(IpbPrompt *prompt, bool is_silent)
{
    if (is_silent == prompt->is_silent || (is_silent && tcgetattr(prompt->tty, &prompt->shown) < 0))
        return;
    struct termios settings = prompt->shown;
    if (is_silent)
        settings.c_lflag &= ~(tcflag_t) ECHO;
    prompt->is_silent = is_silent;
    tcsetattr(prompt->tty, TCSADRAIN, &settings);
}

/* --- showing ---------------------------------------------------------------------------------- */

/* The rows of the screen that @text takes, with a short answer after it. */
static unsigned
rows_of(const IpbPrompt *prompt, const char *text)
{
    return (unsigned) strlen(text) / prompt->width + 1;
}

static unsigned
page_size(const IpbPrompt *prompt)
{
    unsigned used = rows_of(prompt, ALLOW VIEW ": ") + 1; /* 1: the empty row above */
    return prompt->height > used ? prompt->height - used : 1;
}

static bool
is_whole(const IpbPrompt *prompt)
{
    return prompt->next_row == prompt->rows->len;
}

static void
ask_answer(IpbPrompt *prompt)
{
    if (!is_whole(prompt)) {
        g_autofree char *text = g_strdup_printf(
            "%u of %u lines. [Enter] more, [n]o: ", prompt->next_row, prompt->rows->len);
        print_prompt(prompt, text);
        return;
    }
    bool has_pages = prompt->rows->len > page_size(prompt);
    print_prompt(prompt, has_pages ? ALLOW VIEW ": " : ALLOW ": ");
}

static void
show_page(IpbPrompt *prompt)
{
    g_autoptr(GString) page = g_string_new(prompt->next_row == 0 ? "\n" : "");
    unsigned end = prompt->next_row + MIN(page_size(prompt), prompt->rows->len - prompt->next_row);
    for (; prompt->next_row < end; prompt->next_row++) {
        g_string_append(page, g_ptr_array_index(prompt->rows, prompt->next_row));
        g_string_append_c(page, '\n');
    }
    print(prompt, page->str);
    ask_answer(prompt);
}

/* Shows the head of the queue from its first row. */
static void
show(IpbPrompt *prompt)
{
    const Question *question = g_queue_peek_head(&prompt->questions);
    g_autofree char *ascii = prompt->is_ascii ? ipb_display_text_to_ascii(question->text) : NULL;
    read_size(prompt, &prompt->width, &prompt->height);
    g_clear_pointer(&prompt->rows, g_ptr_array_unref);
    prompt->rows = ipb_display_text_rows(ascii != NULL ? ascii : question->text, prompt->width);
    prompt->next_row = 0;
    prompt->state = SHOWN;
    prompt->is_withdrawn = false;
    if (!prompt->is_plain)
        print(prompt, RESET);
    show_page(prompt);
}

/* Shows the question again, because its rows may not fit the screen any more. */
static gboolean
on_resized(gpointer data)
{
    IpbPrompt *prompt = data;
    unsigned width, height;
    prompt->resize_timer = 0;
    read_size(prompt, &width, &height);
    if (prompt->state == SHOWN && (width != prompt->width || height != prompt->height)) {
        print(prompt, "\n");
        show(prompt);
    }
    return G_SOURCE_REMOVE;
}

static gboolean
on_resize_signal(gpointer data)
{
    IpbPrompt *prompt = data;
    g_clear_handle_id(&prompt->resize_timer, g_source_remove);
    prompt->resize_timer = g_timeout_add(RESIZE_DELAY_MS, on_resized, prompt);
    return G_SOURCE_CONTINUE;
}

/* Shows the prompt of the input. */
static void
show_input(IpbPrompt *prompt)
{
    const Question *question = g_queue_peek_head(&prompt->questions);
    g_autofree char *text = ipb_display_text_printable(question->text);
    if (prompt->is_withdrawn)
        drop_typed(prompt);
    prompt->is_withdrawn = false;
    prompt->state = READ_INPUT;
    set_silent(prompt, question->is_password);
    print(prompt, text);
}

/* --- questions -------------------------------------------------------------------------------- */

static void
respond_to_head(IpbPrompt *prompt, bool accept)
{
    Question *question = g_queue_pop_head(&prompt->questions);
    if (question->session != NULL)
        ipybox_session_refuse_input(question->session, question->input, "EOF when reading a line");
    else
        ipybox_approval_respond(question->approval, accept);
    free_question(question);
}

/* Whether the question is decided without the user: it was answered with "always", or cannot be
 * asked. */
static bool
is_decided(IpbPrompt *prompt, const Question *question, bool *ret_accept)
{
    *ret_accept = false;
    if (prompt->is_gone || question->session != NULL)
        return prompt->is_gone;
    if (question->text == NULL) {
        print(
            prompt,
            "\nA tool call was refused: its question is too long to read. To allow such calls, use "
            "--approve with a file of rules.\n");
        return true;
    }
    *ret_accept = g_hash_table_contains(prompt->always, question->tool);
    return *ret_accept;
}

/* Ends the question that is on the screen. */
static void
leave(IpbPrompt *prompt)
{
    g_clear_handle_id(&prompt->watch, g_source_remove);
    g_clear_pointer(&prompt->rows, g_ptr_array_unref);
    set_silent(prompt, false);
    if (prompt->state == FREE)
        return;
    prompt->state = FREE;
    prompt->on_busy(FALSE, prompt->data);
}

/* Refuses all questions, now and later. */
static void
lose_person(IpbPrompt *prompt)
{
    print(prompt, "\n(end of input: calls that need an answer are refused from now on)\n");
    prompt->is_gone = true;
    leave(prompt);
    show_next(prompt);
}

static void
answer_head(IpbPrompt *prompt, bool accept)
{
    respond_to_head(prompt, accept);
    leave(prompt);
    show_next(prompt);
}

static void
take_input(IpbPrompt *prompt, const char *line)
{
    Question *question = g_queue_pop_head(&prompt->questions);
    g_autofree char *valid = g_utf8_make_valid(line, -1);
    g_autoptr(GError) error = NULL;
    if (prompt->is_silent)
        print(prompt, "\n");
    if (!ipybox_session_answer_input(question->session, question->input, valid, &error))
        ipybox_session_refuse_input(question->session, question->input, error->message);
    free_question(question);
    leave(prompt);
    show_next(prompt);
}

static bool
is_word(const char *word, const char *name)
{
    return g_str_equal(word, name) || (word[0] == name[0] && word[1] == '\0');
}

static void
take_answer(IpbPrompt *prompt, const char *line)
{
    g_autofree char *word = g_strstrip(g_ascii_strdown(line, -1));
    const Question *question = g_queue_peek_head(&prompt->questions);
    if (prompt->state == ENTER_FIRST && *word != '\0') {
        print_prompt(prompt, ENTER); /* it is the answer to the withdrawn question */
    } else if (prompt->state == ENTER_FIRST) {
        show(prompt);
    } else if (is_word(word, "no")) {
        answer_head(prompt, false);
    } else if (!is_whole(prompt)) {
        if (*word == '\0')
            show_page(prompt);
        else
            print_prompt(prompt, "Not all of it was shown yet. [Enter] more, [n]o: ");
    } else if (is_word(word, "yes")) {
        answer_head(prompt, true);
    } else if (is_word(word, "always")) {
        g_hash_table_add(prompt->always, g_strdup(question->tool));
        answer_head(prompt, true);
    } else if (is_word(word, "view")) {
        show(prompt);
    } else {
        print_prompt(prompt, "Please answer y, n or a: ");
    }
}

/* One line is one answer; what follows it was typed before the next prompt. */
static gboolean
on_tty(int fd, GIOCondition condition, gpointer data)
{
    IpbPrompt *prompt = data;
    char chunk[1024];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return G_SOURCE_CONTINUE;
    if (n <= 0 && prompt->state == READ_INPUT && (condition & (G_IO_HUP | G_IO_ERR)) == 0) {
        print(prompt, "\n");
        answer_head(prompt, false);
        return G_SOURCE_CONTINUE;
    }
    if (n <= 0) {
        lose_person(prompt);
        return G_SOURCE_CONTINUE; /* the watch is removed already */
    }
    size_t size = (size_t) n, length = 0;
    while (length < size && chunk[length] != '\n' && chunk[length] != '\r')
        length++;
    if (prompt->typed->len + length > MAX_ANSWER)
        prompt->is_overlong = true;
    else
        g_string_append_len(prompt->typed, chunk, (gssize) length);
    if (length == size)
        return G_SOURCE_CONTINUE;
    g_autofree char *line = g_strdup(prompt->is_overlong ? "?" : prompt->typed->str);
    g_string_truncate(prompt->typed, 0);
    prompt->is_overlong = false;
    if (prompt->state == READ_INPUT)
        take_input(prompt, line);
    else
        take_answer(prompt, line);
    return G_SOURCE_CONTINUE;
}

/* Asks the head of the queue, unless a question is being asked. */
static void
show_next(IpbPrompt *prompt)
{
    const Question *question;
    bool accept;
    if (prompt->state != FREE)
        return;
    while ((question = g_queue_peek_head(&prompt->questions)) != NULL &&
           is_decided(prompt, question, &accept))
        respond_to_head(prompt, accept);
    if (question == NULL)
        return;
    prompt->watch = g_unix_fd_add(prompt->tty, G_IO_IN | G_IO_HUP | G_IO_ERR, on_tty, prompt);
    bool is_input = question->session != NULL;
    prompt->state = is_input ? READ_INPUT : prompt->is_withdrawn ? ENTER_FIRST : SHOWN;
    prompt->on_busy(TRUE, prompt->data);
    if (is_input)
        show_input(prompt);
    else if (prompt->state == SHOWN)
        show(prompt);
    else
        print_prompt(prompt, ENTER);
}

/* --- the interface ---------------------------------------------------------------------------- */

IpbPrompt *
ipb_prompt_new(IpbPromptBusyFunc on_busy, gpointer data)
{
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (tty < 0)
        return NULL;
    const char *term = g_getenv("TERM");
    IpbPrompt *prompt = g_new0(IpbPrompt, 1);
    prompt->on_busy = on_busy;
    prompt->data = data;
    prompt->tty = tty;
    prompt->is_ascii = !is_utf8();
    prompt->is_plain = term == NULL || *term == '\0' || g_str_equal(term, "dumb");
    if (ipb_thread_check(NULL)) /* GLib needs a thread here, and would end the program */
        prompt->resize_watch = g_unix_signal_add(SIGWINCH, on_resize_signal, prompt);
    prompt->typed = g_string_new(NULL);
    g_queue_init(&prompt->questions);
    prompt->always = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return prompt;
}

void
ipb_prompt_ask(IpbPrompt *prompt, IpyboxApproval *approval)
{
    const char *text = ipybox_approval_get_question(approval);
    const char *arguments = text != NULL ? strstr(text, "\nArguments:") : NULL;
    Question *question = g_new0(Question, 1);
    question->approval = ipybox_approval_ref(approval);
    question->text = g_strdup(text);
    if (arguments != NULL)
        question->tool = g_strndup(text, (gsize) (arguments - text));
    g_queue_push_tail(&prompt->questions, question);
    show_next(prompt);
}

void
ipb_prompt_ask_input(IpbPrompt *prompt, IpyboxSession *session, const IpyboxEvent *event)
{
    Question *question = g_new0(Question, 1);
    question->session = session;
    question->input = ipybox_event_get_input(event);
    question->is_password = ipybox_event_get_is_password(event);
    question->text = g_strdup(ipybox_event_get_text(event));
    g_queue_push_tail(&prompt->questions, question);
    show_next(prompt);
}

/* Withdraws the head while the user may be typing the answer. */
static void
take_back_head(IpbPrompt *prompt)
{
    if (prompt->state == FREE)
        return;
    print(prompt, "(no longer asked)\n");
    drop_typed(prompt);
    prompt->is_withdrawn = true;
    leave(prompt);
}

/* The question about @approval, or for @input if @approval is NULL. */
static void
withdraw(IpbPrompt *prompt, const IpyboxApproval *approval, guint64 input)
{
    for (GList *link = prompt->questions.head; link != NULL; link = link->next) {
        Question *question = link->data;
        if (question->approval != approval || question->input != input)
            continue;
        bool is_head = link == prompt->questions.head;
        g_queue_delete_link(&prompt->questions, link);
        free_question(question);
        if (is_head)
            take_back_head(prompt);
        show_next(prompt);
        return;
    }
}

void
ipb_prompt_withdraw(IpbPrompt *prompt, const IpyboxApproval *approval)
{
    withdraw(prompt, approval, 0);
}

void
ipb_prompt_withdraw_input(IpbPrompt *prompt, guint64 input)
{
    withdraw(prompt, NULL, input);
}

void
ipb_prompt_withdraw_all(IpbPrompt *prompt)
{
    g_queue_clear_full(&prompt->questions, free_question);
    take_back_head(prompt);
}

void
ipb_prompt_free(IpbPrompt *prompt)
{
    if (prompt == NULL)
        return;
    set_silent(prompt, false);
    g_clear_handle_id(&prompt->watch, g_source_remove);
    g_clear_handle_id(&prompt->resize_timer, g_source_remove);
    g_clear_handle_id(&prompt->resize_watch, g_source_remove);
    g_string_free(prompt->typed, TRUE);
    g_queue_clear_full(&prompt->questions, free_question);
    g_clear_pointer(&prompt->rows, g_ptr_array_unref);
    g_hash_table_unref(prompt->always);
    ipb_fd_close(&prompt->tty);
    g_free(prompt);
}
