/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking at the terminal; see the header. Everything in a request is untrusted text, so it is made printable; long
 * arguments are shown in part and wholly on demand, never silently cut.
 */
#include "cli/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <glib-unix.h>

#include "base/fd.h"
#include "cli/cli.h"

/* Of the arguments this much is shown before "view" is offered. */
#define MAX_SHOWN 2000
#define MAX_ANSWER 4096

typedef struct {
    IpyboxApproval *approval;
    char *tool; /* "server.tool" */
    char *arguments;
} Question;

struct IpbPrompt {
    int tty;
    guint watch;        /* 0: nobody is there any more */
    GString *typed;     /* of a line that has not ended */
    GQueue questions;   /* Question; the head is the one that is asked */
    GHashTable *always; /* set of "server.tool" */
};

static void
free_question(Question *question)
{
    ipybox_approval_unref(question->approval);
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
respond_to_head(IpbPrompt *prompt, bool accept)
{
    Question *question = g_queue_pop_head(&prompt->questions);
    ipybox_approval_respond(question->approval, accept);
    free_question(question);
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
        respond_to_head(prompt, true);
    }
}

static void
answer_head(IpbPrompt *prompt, bool accept)
{
    respond_to_head(prompt, accept);
    ask_head(prompt);
}

static void
take_answer(IpbPrompt *prompt, const char *line)
{
    const Question *question = g_queue_peek_head(&prompt->questions);
    if (question == NULL)
        return; /* typed ahead */
    g_autofree char *word = g_strstrip(g_ascii_strdown(line, -1));
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
take_lines(IpbPrompt *prompt)
{
    const char *newline;
    while ((newline = strchr(prompt->typed->str, '\n')) != NULL) {
        size_t size = (size_t) (newline - prompt->typed->str);
        g_autofree char *line = g_strndup(prompt->typed->str, size);
        g_string_erase(prompt->typed, 0, (gssize) size + 1);
        take_answer(prompt, line);
    }
}

/* Everything that is asked is refused. */
static gboolean
leave_tty(IpbPrompt *prompt)
{
    if (prompt->watch != 0 && !g_queue_is_empty(&prompt->questions))
        print(prompt, "\n"); /* the line of the question has no other end */
    prompt->watch = 0;
    while (!g_queue_is_empty(&prompt->questions))
        respond_to_head(prompt, false);
    return G_SOURCE_REMOVE;
}

static gboolean
on_tty(int fd, GIOCondition condition, gpointer data)
{
    IpbPrompt *prompt = data;
    char chunk[1024];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return G_SOURCE_CONTINUE;
    if (n <= 0 || prompt->typed->len + (size_t) n > MAX_ANSWER)
        return leave_tty(prompt);
    g_string_append_len(prompt->typed, chunk, n);
    take_lines(prompt);
    return G_SOURCE_CONTINUE;
}

IpbPrompt *
ipb_prompt_new(void)
{
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return NULL;
    IpbPrompt *prompt = g_new0(IpbPrompt, 1);
    prompt->tty = tty;
    prompt->watch = g_unix_fd_add(tty, G_IO_IN | G_IO_HUP | G_IO_ERR, on_tty, prompt);
    prompt->typed = g_string_new(NULL);
    g_queue_init(&prompt->questions);
    prompt->always = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return prompt;
}

void
ipb_prompt_ask(IpbPrompt *prompt, IpyboxApproval *approval)
{
    g_autofree char *tool = g_strdup_printf("%s.%s", ipybox_approval_get_server(approval),
                                            ipybox_approval_get_tool(approval));
    Question *question = g_new0(Question, 1);
    question->approval = ipybox_approval_ref(approval);
    question->tool = ipb_cli_printable(tool);
    question->arguments = ipb_cli_printable(ipybox_approval_get_arguments(approval));
    g_queue_push_tail(&prompt->questions, question);
    if (prompt->watch == 0)
        leave_tty(prompt);
    else if (g_queue_get_length(&prompt->questions) == 1)
        ask_head(prompt);
}

void
ipb_prompt_withdraw(IpbPrompt *prompt, const IpyboxApproval *approval)
{
    for (GList *link = prompt->questions.head; link != NULL; link = link->next) {
        Question *question = link->data;
        if (question->approval != approval)
            continue;
        bool is_shown = link == prompt->questions.head;
        g_queue_delete_link(&prompt->questions, link);
        free_question(question);
        if (is_shown) {
            print(prompt, "(no longer asked)\n");
            ask_head(prompt);
        }
        return;
    }
}

void
ipb_prompt_free(IpbPrompt *prompt)
{
    if (prompt == NULL)
        return;
    if (prompt->watch != 0)
        g_source_remove(prompt->watch);
    g_string_free(prompt->typed, TRUE);
    g_queue_clear_full(&prompt->questions, (GDestroyNotify) free_question);
    g_hash_table_unref(prompt->always);
    ipb_fd_close(&prompt->tty);
    g_free(prompt);
}
