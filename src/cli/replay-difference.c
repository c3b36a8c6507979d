/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares outputs; see the header.
 */
#include "cli/replay-difference.h"

#include <string.h>

/* What is before the address in the repr() of an object. */
#define BEFORE_ADDRESS " at 0x"

static void
free_difference(void *data)
{
    IpbReplayDifference *difference = data;
    g_free(difference->recorded);
    g_free(difference->now);
    g_free(difference);
}

GPtrArray *
ipb_replay_differences_new(void)
{
    return g_ptr_array_new_with_free_func(free_difference);
}

/* --- texts ------------------------------------------------------------------------------------ */

static const char *
skip_hex(const char *text)
{
    while (g_ascii_isxdigit(*text))
        text++;
    return text;
}

static bool
is_after_at(const char *start, const char *text)
{
    size_t size = strlen(BEFORE_ADDRESS);
    return (size_t) (text - start) >= size && strncmp(text - size, BEFORE_ADDRESS, size) == 0;
}

/* The beginnings of the first lines that differ; false: the texts are equal. */
static bool
find_line(const char *recorded, const char *now, const char **ret_recorded, const char **ret_now,
          size_t *ret_line)
{
    const char *start = recorded;
    *ret_recorded = recorded;
    *ret_now = now;
    *ret_line = 1;
    while (true) {
        if (is_after_at(start, recorded) && g_ascii_isxdigit(*recorded) && g_ascii_isxdigit(*now)) {
            recorded = skip_hex(recorded);
            now = skip_hex(now);
        }
        if (*recorded != *now)
            return true;
        if (*recorded == '\0')
            return false;
        bool is_end = *recorded == '\n';
        recorded++;
        now++;
        if (is_end) {
            *ret_recorded = recorded;
            *ret_now = now;
            (*ret_line)++;
        }
    }
}

/* The beginning of a text, with whole characters. */
static char *
copy_start(const char *text)
{
    size_t size = strnlen(text, IPB_REPLAY_MAX_TEXT);
    while (text[size] != '\0' && size > 0 && ((unsigned char) text[size] & 0xC0) == 0x80)
        size--;
    return g_strndup(text, size);
}

void
ipb_replay_compare(GPtrArray *differences, const char *what, const char *recorded, const char *now)
{
    size_t line = 1;
    const char *at_recorded = recorded, *at_now = now;
    if (recorded == NULL && now == NULL)
        return;
    if (recorded != NULL && now != NULL && !find_line(recorded, now, &at_recorded, &at_now, &line))
        return;
    IpbReplayDifference *difference = g_new0(IpbReplayDifference, 1);
    difference->what = what;
    difference->line = line;
    difference->recorded = recorded != NULL ? copy_start(at_recorded) : NULL;
    difference->now = now != NULL ? copy_start(at_now) : NULL;
    g_ptr_array_add(differences, difference);
}

/* --- outputs ---------------------------------------------------------------------------------- */

/* What is compared of the outputs of a cell. NULL: there is none. */
typedef struct {
    GString *out, *err;
    char *result;
    GString *displays; /* a line of MIME types each */
    const char *error;
} Summary;

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* The types in the order of the alphabet, since the order in a bundle says nothing. */
static char *
list_types(const IpbJson *data)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    IPB_JSON_FOREACH (value, data)
        g_ptr_array_add(names, (void *) ipb_json_name(value, NULL));
    g_ptr_array_sort(names, compare_names);
    g_ptr_array_add(names, NULL);
    return g_strjoinv(", ", (char **) names->pdata);
}

static void
add_bundle(Summary *summary, const IpbNotebookOutput *output)
{
    const char *text = output->bundle->data;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_MESSAGE, NULL);
    const IpbJson *data = document != NULL ? ipb_json_root(document) : NULL;
    const char *plain = ipb_json_get_string(data, "text/plain");
    g_autofree char *types = list_types(data);
    if (output->kind == IPB_OUTPUT_RESULT) {
        g_free(summary->result);
        summary->result = g_strdup(plain != NULL ? plain : types);
        return;
    }
    if (summary->displays == NULL)
        summary->displays = g_string_new(NULL);
    g_string_append_printf(summary->displays, "%s\n", types);
}

static void
add_stream(GString **text, const GString *added)
{
    if (*text == NULL)
        *text = g_string_new(NULL);
    g_string_append_len(*text, added->str, (gssize) added->len);
}

static void
init_summary(Summary *summary, const GPtrArray *outputs)
{
    *summary = (Summary){0};
    for (guint i = 0; i < outputs->len; i++) {
        const IpbNotebookOutput *output = g_ptr_array_index(outputs, i);
        switch (output->kind) {
        case IPB_OUTPUT_STREAM:
            add_stream(output->is_stderr ? &summary->err : &summary->out, output->text);
            break;
        case IPB_OUTPUT_DISPLAY:
        case IPB_OUTPUT_RESULT:
            add_bundle(summary, output);
            break;
        case IPB_OUTPUT_ERROR:
            summary->error = output->ename;
            break;
        }
    }
}

static void
clear_string(GString *string)
{
    if (string != NULL)
        g_string_free(string, TRUE);
}

static void
clear_summary(Summary *summary)
{
    clear_string(summary->out);
    clear_string(summary->err);
    clear_string(summary->displays);
    g_free(summary->result);
}

static const char *
text_of(const GString *string)
{
    return string != NULL ? string->str : NULL;
}

void
ipb_replay_compare_outputs(GPtrArray *differences, const GPtrArray *recorded, const GPtrArray *now)
{
    Summary then, again;
    init_summary(&then, recorded);
    init_summary(&again, now);
    ipb_replay_compare(differences, "stdout", text_of(then.out), text_of(again.out));
    ipb_replay_compare(differences, "stderr", text_of(then.err), text_of(again.err));
    ipb_replay_compare(differences, "displays", text_of(then.displays), text_of(again.displays));
    ipb_replay_compare(differences, "result", then.result, again.result);
    ipb_replay_compare(differences, "error", then.error, again.error);
    clear_summary(&then);
    clear_summary(&again);
}
