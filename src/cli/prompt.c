/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking at the terminal; see the header. Everything in a request is untrusted text, so it is made printable; long
 * arguments are shown in part and wholly on demand, never silently cut.
 */
#include "cli/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "json/lines.h"

/* Of the arguments this much is shown before "view" is offered. */
#define MAX_SHOWN 2000
#define MAX_ANSWER 4096

typedef struct {
    uint64_t id;
    char *tool; /* "server.tool" */
    char *arguments;
} Question;

struct IpbPrompt {
    int tty;
    IpbWatch *watch;
    IpbLineReader lines;
    GQueue questions;   /* Question; the head is the one that is asked */
    GHashTable *always; /* set of "server.tool" */
    IpbPromptAnswerFunc on_answer;
    void *data;
};

static void
free_question(Question *question)
{
    g_free(question->tool);
    g_free(question->arguments);
    g_free(question);
}

static void
print(IpbPrompt *prompt, const char *text)
{
    ipb_fd_write_all(prompt->tty, text, strlen(text),
                     NULL); /* a terminal that is gone answers no */
}

static void
show(IpbPrompt *prompt, bool whole)
{
    const Question *question = g_queue_peek_head(&prompt->questions);
    bool is_cut = !whole && strlen(question->arguments) > MAX_SHOWN;
    g_autofree char *head =
        is_cut ? g_utf8_substring(question->arguments, 0,
                                  MIN(MAX_SHOWN / 4, g_utf8_strlen(question->arguments, -1)))
               : g_strdup(question->arguments);
    g_autofree char *text = g_strdup_printf(
        "\nTool call: %s\nArguments: %s%s\nAllow? [y]es, [n]o, [a]lways for this tool%s: ",
        question->tool, head, is_cut ? " … (cut)" : "", is_cut ? ", [v]iew all arguments" : "");
    print(prompt, text);
}

static void
ask_head(IpbPrompt *prompt)
{
    const Question *question;
    while ((question = g_queue_peek_head(&prompt->questions)) != NULL) {
        if (!g_hash_table_contains(prompt->always, question->tool)) {
            show(prompt, false);
            return;
        }
        Question *allowed = g_queue_pop_head(&prompt->questions);
        prompt->on_answer(allowed->id, true, prompt->data);
        free_question(allowed);
    }
}

static void
answer_head(IpbPrompt *prompt, bool accept)
{
    Question *question = g_queue_pop_head(&prompt->questions);
    prompt->on_answer(question->id, accept, prompt->data);
    free_question(question);
    ask_head(prompt);
}

static void
take_answer(IpbPrompt *prompt, const char *line, size_t size)
{
    const Question *question = g_queue_peek_head(&prompt->questions);
    if (question == NULL)
        return; /* typed ahead */
    g_autofree char *word = g_strstrip(g_ascii_strdown(line, (gssize) size));
    if (g_str_equal(word, "y") || g_str_equal(word, "yes")) {
        answer_head(prompt, true);
    } else if (g_str_equal(word, "n") || g_str_equal(word, "no")) {
        answer_head(prompt, false);
    } else if (g_str_equal(word, "a") || g_str_equal(word, "always")) {
        g_hash_table_add(prompt->always, g_strdup(question->tool));
        answer_head(prompt, true);
    } else if (g_str_equal(word, "v") || g_str_equal(word, "view")) {
        show(prompt, true);
    } else {
        print(prompt, "Please answer y, n or a: ");
    }
}

static void
on_tty(uint32_t events, void *data)
{
    IpbPrompt *prompt = data;
    char chunk[1024];
    ssize_t n = read(prompt->tty, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0 || !ipb_line_reader_push(&prompt->lines, chunk, (size_t) n, NULL)) {
        /* Nobody is there any more: everything that is asked is refused. */
        ipb_watch_set_events(prompt->watch, 0);
        while (!g_queue_is_empty(&prompt->questions))
            answer_head(prompt, false);
        return;
    }
    const char *line;
    size_t size;
    while (ipb_line_reader_next(&prompt->lines, &line, &size)) {
        g_autofree char *copy = g_strndup(line, size);
        take_answer(prompt, copy, strlen(copy));
    }
}

IpbPrompt *
ipb_prompt_new(IpbLoop *loop, IpbPromptAnswerFunc on_answer, void *data)
{
    ipb_autofd tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return NULL;
    IpbPrompt *prompt = g_new0(IpbPrompt, 1);
    prompt->watch = ipb_watch_new(loop, tty, EPOLLIN, on_tty, prompt, NULL);
    if (prompt->watch == NULL) {
        g_free(prompt);
        return NULL;
    }
    prompt->tty = ipb_fd_steal(&tty);
    ipb_line_reader_init(&prompt->lines, MAX_ANSWER);
    g_queue_init(&prompt->questions);
    prompt->always = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    prompt->on_answer = on_answer;
    prompt->data = data;
    return prompt;
}

void
ipb_prompt_ask(IpbPrompt *prompt, const IpbApprovalRequest *request)
{
    g_autofree char *tool = g_strdup_printf("%s.%s", request->server_name, request->tool_name);
    g_autofree char *arguments = g_strndup(request->arguments_json, request->arguments_size);
    Question *question = g_new0(Question, 1);
    question->id = request->id;
    question->tool = ipb_cli_printable(tool);
    question->arguments = ipb_cli_printable(arguments);
    g_queue_push_tail(&prompt->questions, question);
    if (g_queue_get_length(&prompt->questions) == 1)
        ask_head(prompt);
}

void
ipb_prompt_free(IpbPrompt *prompt)
{
    if (prompt == NULL)
        return;
    ipb_watch_free(prompt->watch);
    ipb_line_reader_clear(&prompt->lines);
    g_queue_clear_full(&prompt->questions, (GDestroyNotify) free_question);
    g_hash_table_unref(prompt->always);
    ipb_fd_close(&prompt->tty);
    g_free(prompt);
}
