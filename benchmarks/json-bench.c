/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses and writes a message like those of MCP servers, with our JSON and with others, in turn.
 * Prints the best round of each. "write" writes the whole tree and encodes every string again.
 * "pass on" is what the core does with arguments and results: it copies and compacts the value's
 * bytes.
 *
 * usage: json-bench [MEGABYTES [ROUNDS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/json.h"
#include "json/writer.h"

#define DEFAULT_MEGABYTES 10
#define DEFAULT_ROUNDS 7

typedef struct {
    const char *name;
    double parse, write; /* best, in seconds; 0: not measured */
} Contestant;

static double
now(void)
{
    return (double) g_get_monotonic_time() / 1e6;
}

static void
keep_best(double *best, double seconds)
{
    if (*best == 0 || seconds < *best)
        *best = seconds;
}

/* A record of structured content, as a search or a database tool gives it. */
static void
write_record(IpbJsonWriter *w, GRand *rand, int i)
{
    g_autofree char *name = g_strdup_printf("item-%05d", i);
    ipb_json_begin_object(w);
    ipb_json_member_int(w, "id", g_rand_int(rand));
    ipb_json_member_string(w, "name", name);
    ipb_json_member_string(w, "url", "https://example.org/repository/issues?page=1&sort=stars");
    ipb_json_member_bool(w, "private", i % 3 == 0);
    ipb_json_member_value(w, "parent", NULL);
    ipb_json_key(w, "score");
    char score[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_dtostr(score, sizeof score, g_rand_double(rand));
    ipb_json_write_raw(w, score, strlen(score));
    ipb_json_key(w, "labels");
    ipb_json_begin_array(w);
    for (int n = i % 4; n > 0; n--)
        ipb_json_write_string(w, "good first issue");
    ipb_json_end_array(w);
    ipb_json_end_object(w);
}

/* Text of some kB: source code with its escapes, prose in two scripts, base64. */
static void
write_content(IpbJsonWriter *w, int i)
{
    static const char *const pieces[] = {
        "def main(argv: list[str]) -> int:\n    print(\"hello\", argv[1:])\n    return 0\n\n",
        "The tool reads a file and returns its lines; see the documentation for the options. ",
        "Die Größe der Änderung: 12 µm. 日本語のテキスト、それから続き。",
        "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA10dzkAAAAOXRFWHRTb2Z0d2FyZQBNYXRwbG90bGliIHZl",
    };
    g_autoptr(GString) text = g_string_new(NULL);
    while (text->len < 4000)
        g_string_append(text, pieces[i % 4]);
    ipb_json_begin_object(w);
    ipb_json_member_string(w, "type", "text");
    ipb_json_member_string(w, "text", text->str);
    ipb_json_end_object(w);
}

static char *
make_message(size_t wanted, size_t *ret_size)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(1);
    int n = (int) (wanted / 6600); /* bytes of a content item and twelve records */
    IpbJsonWriter *w = ipb_json_writer_new();
    ipb_json_begin_object(w);
    ipb_json_member_string(w, "jsonrpc", "2.0");
    ipb_json_member_int(w, "id", 7);
    ipb_json_key(w, "result");
    ipb_json_begin_object(w);
    ipb_json_key(w, "content");
    ipb_json_begin_array(w);
    for (int i = 0; i < n; i++)
        write_content(w, i);
    ipb_json_end_array(w);
    ipb_json_key(w, "structuredContent");
    ipb_json_begin_array(w);
    for (int i = 0; i < n * 12; i++)
        write_record(w, rand, i);
    ipb_json_end_array(w);
    ipb_json_end_object(w);
    ipb_json_end_object(w);
    return ipb_json_writer_finish(w, ret_size);
}

static void
rewrite(IpbJsonWriter *w, const IpbJson *value)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    bool is_object = ipb_json_is(value, IPB_JSON_OBJECT);
    if (text != NULL) {
        ipb_json_write_string_n(w, text, size);
    } else if (!is_object && !ipb_json_is(value, IPB_JSON_ARRAY)) {
        ipb_json_write_value(w, value);
    } else {
        is_object ? ipb_json_begin_object(w) : ipb_json_begin_array(w);
        IPB_JSON_FOREACH (item, value) {
            if (is_object) {
                const char *name = ipb_json_name(item, &size);
                ipb_json_key_n(w, name, size);
            }
            rewrite(w, item);
        }
        is_object ? ipb_json_end_object(w) : ipb_json_end_array(w);
    }
}

static IpbJsonDoc *
parse_ours(const char *text, size_t size, double *ret_seconds)
{
    IpbJsonLimits limits = {SIZE_MAX, 512, SIZE_MAX};
    g_autoptr(GError) error = NULL;
    double start = now();
    IpbJsonDoc *doc = ipb_json_parse(text, size, &limits, &error);
    *ret_seconds = now() - start;
    if (doc == NULL)
        g_error("%s", error->message);
    return doc;
}

static void
run_ours(Contestant *contestant, const char *text, size_t size)
{
    double seconds;
    g_autoptr(IpbJsonDoc) doc = parse_ours(text, size, &seconds);
    keep_best(&contestant->parse, seconds);
    double start = now();
    IpbJsonWriter *w = ipb_json_writer_new();
    rewrite(w, ipb_json_root(doc));
    g_autofree char *written = ipb_json_writer_finish(w, NULL);
    keep_best(&contestant->write, now() - start);
    if (strcmp(written, text) != 0)
        g_error("the text came back changed");
}

/* One member found in the text without a tree, and its bytes written. */
static void
run_raw(Contestant *contestant, const char *text, size_t size)
{
    double start = now();
    IpbSpan result;
    if (!ipb_json_scan_member((IpbSpan){text, size}, "result", &result))
        g_error("there is no result");
    keep_best(&contestant->parse, now() - start);
    start = now();
    IpbJsonWriter *w = ipb_json_writer_new();
    ipb_json_write_raw(w, result.start, result.size);
    g_free(ipb_json_writer_finish(w, NULL));
    keep_best(&contestant->write, now() - start);
}

/* The others are programs that time themselves and print two numbers of seconds. */
static void
run_program(Contestant *contestant, const char *const *argv)
{
    g_autofree char *output = NULL;
    double parse, write;
    if (g_spawn_sync(NULL, (char **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &output, NULL,
                     NULL, NULL) &&
        sscanf(output, "%lf %lf", &parse, &write) == 2) {
        keep_best(&contestant->parse, parse);
        keep_best(&contestant->write, write);
    }
}

static void
run_python(Contestant *contestant, const char *path)
{
    static const char program[] =
        "import json, sys, time\n"
        "text = open(sys.argv[1], encoding='utf-8').read()\n"
        "clock = time.perf_counter\n"
        "start = clock(); value = json.loads(text); parse = clock() - start\n"
        "start = clock(); json.dumps(value, ensure_ascii=False, separators=(',', ':'))\n"
        "print(parse, clock() - start)\n";
    run_program(contestant, (const char *[]){"python3", "-c", program, path, NULL});
}

/* @helper: a program beside this one, there if its library was found when it was built. */
static void
run_helper(Contestant *contestant, const char *self, const char *helper, const char *path)
{
    g_autofree char *directory = g_path_get_dirname(self);
    g_autofree char *program = g_build_filename(directory, helper, NULL);
    if (g_file_test(program, G_FILE_TEST_IS_EXECUTABLE))
        run_program(contestant, (const char *[]){program, path, NULL});
}

static char *
write_file(const char *text, size_t size)
{
    g_autoptr(GError) error = NULL;
    char *path = NULL;
    int fd = g_file_open_tmp("json-bench-XXXXXX.json", &path, &error);
    if (fd < 0)
        g_error("%s", error->message);
    close(fd);
    if (!g_file_set_contents(path, text, (gssize) size, &error))
        g_error("%s", error->message);
    return path;
}

static void
print_speed(double megabytes, double seconds, double python)
{
    printf("%10.0f MB/s %6.1f x", megabytes / seconds, python > 0 ? python / seconds : 0.0);
}

static void
print_table(const Contestant *contestants, size_t n, double megabytes, const Contestant *python)
{
    printf("%.1f MB, best round; x: times as fast as Python's json\n\n", megabytes);
    printf("%-28s %15s %8s %14s %8s\n", "", "parse", "", "write", "");
    for (size_t i = 0; i < n; i++) {
        printf("%-28s ", contestants[i].name);
        if (contestants[i].parse == 0) {
            printf("%15s\n", "not found");
            continue;
        }
        print_speed(megabytes, contestants[i].parse, python->parse);
        print_speed(megabytes, contestants[i].write, python->write);
        printf("\n");
    }
}

int
main(int argc, char **argv)
{
    double megabytes = argc > 1 ? strtod(argv[1], NULL) : DEFAULT_MEGABYTES;
    int rounds = argc > 2 ? atoi(argv[2]) : DEFAULT_ROUNDS;
    size_t size;
    g_autofree char *text = make_message((size_t) (megabytes * 1e6), &size);
    g_autofree char *path = write_file(text, size);
    Contestant ours = {"ipybox"}, raw = {"ipybox, find and pass on"}, python = {"Python json"},
               jansson = {"jansson"}, json_glib = {"json-glib"};
    for (int i = 0; i < rounds; i++) {
        run_ours(&ours, text, size);
        run_raw(&raw, text, size);
        run_python(&python, path);
        run_helper(&jansson, argv[0], "json-bench-jansson", path);
        run_helper(&json_glib, argv[0], "json-bench-glib", path);
    }
    remove(path);
    Contestant all[] = {ours, raw, python, jansson, json_glib};
    print_table(all, G_N_ELEMENTS(all), (double) size / 1e6, &python);
    return 0;
}
