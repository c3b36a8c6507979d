/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox selftest`: attacks a sandbox on this machine from inside, and reports which attacks were
 * stopped. Each attack also runs without a sandbox. If it fails there as well, its result says
 * nothing about the sandbox, and the report says so.
 *
 * With --staged, the workspace is staged. What the attacks leave is committed, and then the
 * workspace itself is checked.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd-limit.h"
#include "base/fd.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/selftest-attacks.h"
#include "json/writer.h"
#include "sandbox/layer.h"
#include "sandbox/sandbox.h"

#define TICK_US 10000 /* the system's clock for /proc: USER_HZ */
#define MAX_REPORT_SIZE 65536
#define N_LISTENERS 4

/* A configuration as srt reads it: the workspace is writable, two files in it cannot be read, and
 * there is no network. Memory is not limited, because a program with a sanitizer could not run. */
static const char POLICY[] = "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": []},"
                             " \"filesystem\": {\"denyRead\": [\".env\", \"later/.env\"],"
                             " \"allowWrite\": [\".\"], \"denyWrite\": []},"
                             " \"limits\": {\"memory\": \"none\"}}";

/* In place of an errno: the attack did not run. */
#define NOT_RUN (-1)

typedef struct {
    char *directory, *workspace, *outside, *abstract, *program;
    char *words[7]; /* the command that attacks */
    char *layers;   /* where the layer is */
    bool is_staged;
    int listeners[N_LISTENERS];
    int port;
    int host_end, attack_end; /* of a socket: attacks ask the host to do something */
    GThread *host;
    IpbAttackTargets targets; /* what checks need */
    IpbLayer *layer;          /* of a staged workspace; or NULL */
    size_t n_attacks;
    int *inside, *without;          /* errno of each attack */
    bool *has_effect, *has_without; /* of those that are checked on the host */
    char *unnamed;                  /* why names are not judged on this machine; NULL: they are */
    GMainLoop *main_loop;
    GError *failure;
} Selftest;

/* --- the place -------------------------------------------------------------------------------- */

static bool
make_file(const char *directory, const char *name, GError **error)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    if (g_mkdir_with_parents(parent, 0755) < 0 || !g_file_set_contents(path, "text", -1, NULL) ||
        chmod(path, 0666) < 0)
        return ipb_error_set_errno(error, errno, "cannot make %s", path);
    return true;
}

static bool
listen_at(Selftest *test, int index, const void *address, socklen_t size, int family,
          GError **error)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    test->listeners[index] = fd;
    if (fd < 0 || bind(fd, address, size) < 0 || listen(fd, 8) < 0)
        return ipb_error_set_errno(error, errno, "cannot listen");
    return true;
}

static bool
listen_at_path(Selftest *test, int index, const char *directory, GError **error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    g_autofree char *path = g_build_filename(directory, "socket", NULL);
    if (strlen(path) >= sizeof address.sun_path)
        return ipb_error_set_errno(error, ENAMETOOLONG, "cannot listen at %s", path);
    strcpy(address.sun_path, path);
    return listen_at(test, index, &address, sizeof address, AF_UNIX, error);
}

/* Opens the services that the sandbox must not reach. */
static bool
open_listeners(Selftest *test, GError **error)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un abstract = {.sun_family = AF_UNIX};
    socklen_t size = sizeof loopback;
    test->abstract = g_strdup_printf("ipybox-selftest-%d", (int) getpid());
    memcpy(abstract.sun_path + 1, test->abstract, strlen(test->abstract));
    if (!listen_at(test, 0, &loopback, sizeof loopback, AF_INET, error) ||
        !listen_at(
            test, 1, &abstract,
            (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(test->abstract)),
            AF_UNIX, error) ||
        !listen_at_path(test, 2, test->outside, error) ||
        !listen_at_path(test, 3, test->workspace, error))
        return false;
    if (getsockname(test->listeners[0], (struct sockaddr *) &loopback, &size) < 0)
        return ipb_error_set_errno(error, errno, "cannot ask for a port");
    test->port = ntohs(loopback.sin_port);
    return true;
}

static bool
make_names(const Selftest *test, GError **error)
{
    g_autofree char *config = g_build_filename(test->workspace, ".git/config", NULL);
    g_autofree char *later = g_build_filename(test->workspace, "later", NULL);
    if (!g_file_set_contents(config, "[core]\n", -1, NULL) || mkdir(later, 0755) < 0)
        return ipb_error_set_errno(error, errno, "cannot make files in %s", test->workspace);
    return true;
}

/* It has a directory of its own, which the sandbox hides, as that of sessions. */
static bool
make_layer(Selftest *test, GError **error)
{
    test->layers = g_build_filename(test->directory, "layers", NULL);
    g_autofree char *directory = g_build_filename(test->layers, "layer", NULL);
    if (!ipb_file_make_directories(directory, 0700, error))
        return false;
    test->layer = ipb_layer_new(directory, test->workspace, error);
    return test->layer != NULL && ipb_attacks_make_area(&test->targets, error);
}

/* Makes the files in the state directory, because a sandbox has a /tmp of its own. */
static bool
make_place(Selftest *test, GError **error)
{
    g_autofree char *parent = g_build_filename(g_get_user_state_dir(), "ipybox", NULL);
    if (g_mkdir_with_parents(parent, 0700) < 0)
        return ipb_error_set_errno(error, errno, "cannot make %s", parent);
    test->directory = ipb_file_make_temp_directory(parent, "selftest-", error);
    if (test->directory == NULL)
        return false;
    test->workspace = g_build_filename(test->directory, "workspace", NULL);
    test->outside = g_build_filename(test->directory, "outside", NULL);
    if (!make_file(test->workspace, "mine", error) || !make_file(test->workspace, ".env", error) ||
        !make_file(test->workspace, ".git/hooks/sample", error) ||
        !make_file(test->outside, "file", error) || !make_names(test, error))
        return false;
    test->targets = (IpbAttackTargets){.outside = test->outside, .workspace = test->workspace};
    if (test->is_staged && !make_layer(test, error))
        return false;
    /* The sandbox must refuse access, not the mode of the files. */
    if (chmod(test->directory, 0755) < 0 || chmod(test->outside, 0777) < 0)
        return ipb_error_set_errno(error, errno, "cannot change the mode of %s", test->directory);
    return open_listeners(test, error);
}

static bool
make_command(Selftest *test, GError **error)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size < 0)
        return ipb_error_set_errno(error, errno, "cannot find the path of this program");
    test->program = g_strndup(path, (size_t) size);
    /* Processes inside must start in a later tick of the system's clock than this one. */
    g_usleep(2 * TICK_US);
    char **word = test->words;
    *word++ = g_strdup(test->program);
    *word++ = g_strdup("selftest");
    *word++ = g_strdup_printf("--attack=%d:%d:%llu", test->port, (int) getpid(),
                              ipb_attack_start_time(getpid()));
    *word++ = g_strdup(test->outside);
    *word++ = g_strdup(test->abstract);
    if (test->layer != NULL)
        *word++ = g_strdup(ipb_layer_directory(test->layer));
    return true;
}

/* Called before anything is printed, because printing may wait for the reader. */
static void
remove_place(Selftest *test)
{
    for (int i = 0; i < N_LISTENERS; i++)
        ipb_fd_close(&test->listeners[i]);
    ipb_layer_close(g_steal_pointer(&test->layer), true);
    if (test->directory != NULL)
        ipb_file_remove_tree(test->directory, NULL);
}

static void
clear(Selftest *test)
{
    for (size_t i = 0; i < G_N_ELEMENTS(test->words); i++)
        g_free(test->words[i]);
    g_free(test->directory);
    g_free(test->workspace);
    g_free(test->outside);
    g_free(test->layers);
    g_free(test->has_effect);
    g_free(test->has_without);
    g_free(test->abstract);
    g_free(test->program);
    g_free(test->unnamed);
    g_free(test->inside);
    g_free(test->without);
    g_clear_error(&test->failure);
}

/* --- the host's part -------------------------------------------------------------------------- */

/* Writes a new file and renames it, as g_file_set_contents() does. */
static void *
act_as_host(void *data)
{
    const Selftest *test = data;
    g_autofree char *config = g_build_filename(test->workspace, ".git", "config", NULL);
    g_autofree char *hidden = g_build_filename(test->workspace, "later", ".env", NULL);
    char what;
    while (read(test->host_end, &what, 1) == 1) {
        bool is_done =
            what == IPB_ATTACK_REPLACE
                ? g_file_set_contents(config, "[core]\n", -1, NULL)
                : g_file_set_contents(hidden, "text", -1, NULL) && chmod(hidden, 0644) == 0;
        if (is_done && write(test->host_end, &what, 1) != 1)
            break;
    }
    return NULL;
}

static bool
start_host(Selftest *test, GError **error)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return ipb_error_set_errno(error, errno, "cannot make a socket");
    test->host_end = ends[0];
    test->attack_end = ends[1];
    test->host = g_thread_new("host", act_as_host, test);
    return true;
}

static void
end_host(Selftest *test)
{
    if (test->host != NULL) {
        shutdown(test->host_end, SHUT_RDWR);
        g_thread_join(test->host);
    }
    ipb_fd_close(&test->host_end);
    ipb_fd_close(&test->attack_end);
}

/* --- running the attacks ---------------------------------------------------------------------- */

static int *
read_results(const char *text, size_t n)
{
    int *results = g_new(int, n);
    for (size_t i = 0; i < n; i++)
        results[i] = NOT_RUN;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        char *end;
        guint64 index = g_ascii_strtoull(*line, &end, 10);
        if (*end == ' ' && index < n)
            results[index] = (int) g_ascii_strtoll(end + 1, NULL, 10);
    }
    return results;
}

/* Reads the results of the attacks inside. They are not trusted: only MAX_REPORT_SIZE bytes are
 * read. */
static int *
read_report(int fd, size_t n)
{
    char text[MAX_REPORT_SIZE];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    text[MAX(size, 0)] = '\0';
    return read_results(text, n);
}

static bool
has_effect(const Selftest *test, size_t i)
{
    return IPB_ATTACKS[i].has_effect != NULL && IPB_ATTACKS[i].has_effect(&test->targets);
}

/* In the child that attacks without a sandbox. */
static void
set_up_child(void *data)
{
    const Selftest *test = data;
    dup2(test->attack_end, STDIN_FILENO);
    ipb_fd_limit_restore(NULL);
}

static bool
attack_without(Selftest *test, GError **error)
{
    g_autofree char *output = NULL;
    if (!g_spawn_sync(test->workspace, test->words, NULL, G_SPAWN_DEFAULT, set_up_child, test,
                      &output, NULL, NULL, NULL)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "cannot run %s", test->program);
        return false;
    }
    test->without = read_results(output, test->n_attacks);
    for (size_t i = 0; i < test->n_attacks; i++)
        test->has_without[i] = has_effect(test, i);
    return test->layer == NULL || ipb_attacks_make_area(&test->targets, error);
}

static void
on_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    Selftest *test = data;
    if (error != NULL)
        test->failure = g_error_copy(error);
    else if (wait_status != 0)
        test->failure = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                                    "the attacks ended with status %d", wait_status);
    g_main_loop_quit(test->main_loop);
}

static void
on_unnamed(IpbSandbox *sandbox, const char *why, void *data)
{
    Selftest *test = data;
    g_free(test->unnamed);
    test->unnamed = g_strdup(why);
}

static IpbSandboxPlan *
make_plan(const Selftest *test, GError **error)
{
    g_autoptr(IpbSandboxPolicy) policy =
        ipb_sandbox_policy_parse(POLICY, strlen(POLICY), NULL, error);
    const char *const keep[] = {test->program, NULL};
    const char *const hide[] = {test->layers, NULL};
    const char *layer = test->layer != NULL ? ipb_layer_directory(test->layer) : NULL;
    return policy == NULL
               ? NULL
               : ipb_sandbox_plan_new(&(IpbPlanOptions){.policy = policy,
                                                        .workspace = test->workspace,
                                                        .home = g_get_home_dir(),
                                                        .keep = keep,
                                                        .hide = hide,
                                                        .layer = layer,
                                                        .limits = IPB_SANDBOX_LIMITS_DEFAULT},
                                      error);
}

/* Only a commit that writes what is harmless can show that it does not write the rest. */
static bool
check_harmless(const Selftest *test, GError **error)
{
    g_autofree char *path = g_build_filename(test->workspace, "area", "harmless", NULL);
    g_autofree char *text = NULL;
    if (g_file_get_contents(path, &text, NULL, NULL) && g_str_equal(text, IPB_ATTACK_HARMLESS))
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                        "the commit did not write a harmless file, so it shows nothing");
    return false;
}

/* What the attacks have left is committed as that of a session. */
static bool
commit(Selftest *test, IpbSandboxPlan *plan, GError **error)
{
    for (size_t i = 0; i < test->n_attacks; i++)
        test->has_effect[i] = IPB_ATTACKS[i].is_live && has_effect(test, i);
    g_autofree char *digest = NULL;
    g_autoptr(IpbLayerChanges) frozen = ipb_layer_freeze(test->layer, plan, NULL, &digest, error);
    g_autoptr(IpbLayerChanges) committed =
        frozen != NULL ? ipb_layer_commit(test->layer, plan, error) : NULL;
    if (committed == NULL || !check_harmless(test, error))
        return false;
    for (size_t i = 0; i < test->n_attacks; i++)
        if (!IPB_ATTACKS[i].is_live)
            test->has_effect[i] = has_effect(test, i);
    return true;
}

static bool
attack_inside(Selftest *test, GError **error)
{
    IpbLoop *loop = ipb_loop_new(NULL, error);
    g_autoptr(IpbSandboxPlan) plan = loop != NULL ? make_plan(test, error) : NULL;
    ipb_autofd report = memfd_create("ipybox-selftest", MFD_CLOEXEC);
    g_auto(GStrv) env = g_get_environ();
    IpbSandbox *sandbox = NULL;
    test->main_loop = g_main_loop_new(NULL, FALSE);
    if (plan != NULL)
        sandbox = ipb_sandbox_new(loop,
                                  &(IpbSandboxOptions){
                                      .plan = plan,
                                      .argv = (const char *const *) test->words,
                                      .env = (const char *const *) env,
                                      .cwd = test->workspace,
                                      .stdin_fd = test->attack_end,
                                      .stdout_fd = report,
                                      .stderr_fd = STDERR_FILENO,
                                      .on_end = on_end,
                                      .on_unnamed = on_unnamed,
                                      .data = test,
                                  },
                                  error);
    if (sandbox != NULL)
        g_main_loop_run(test->main_loop);
    ipb_sandbox_free(sandbox);
    g_clear_pointer(&loop, ipb_loop_unref);
    g_main_loop_unref(test->main_loop);
    if (test->failure != NULL)
        g_propagate_error(error, g_steal_pointer(&test->failure));
    else if (sandbox != NULL)
        test->inside = read_report(report, test->n_attacks);
    return test->inside != NULL && (test->layer == NULL || commit(test, plan, error));
}

/* --- the result ------------------------------------------------------------------------------- */

static bool
is_broken(const Selftest *test, size_t i)
{
    if (IPB_ATTACKS[i].has_effect != NULL)
        return test->has_effect[i] || test->inside[i] == NOT_RUN;
    return test->inside[i] == 0 || test->inside[i] == NOT_RUN;
}

/* Is it not stopped because this machine cannot judge names? */
static bool
is_for_lack_of_names(const Selftest *test, size_t i)
{
    return is_broken(test, i) && test->unnamed != NULL && IPB_ATTACKS[i].needs_names;
}

static bool
works_without(const Selftest *test, size_t i)
{
    return IPB_ATTACKS[i].has_effect != NULL ? test->has_without[i] : test->without[i] == 0;
}

static const char *
verdict(const Selftest *test, size_t i)
{
    if (is_broken(test, i))
        return is_for_lack_of_names(test, i) ? "NOT STOPPED (names are not judged)" : "NOT STOPPED";
    return works_without(test, i) ? "stopped" : "stopped (it fails without a sandbox, too)";
}

static size_t
count_broken(const Selftest *test)
{
    size_t n = 0;
    for (size_t i = 0; i < test->n_attacks; i++)
        n += is_broken(test, i);
    return n;
}

static void
print_text(const Selftest *test)
{
    const char *section = "";
    for (size_t i = 0; i < test->n_attacks; i++) {
        if (!g_str_equal(section, IPB_ATTACKS[i].section))
            printf("%s%s\n", i > 0 ? "\n" : "", IPB_ATTACKS[i].section);
        section = IPB_ATTACKS[i].section;
        printf("  %-44s  %s\n", IPB_ATTACKS[i].name, verdict(test, i));
    }
    size_t n_broken = count_broken(test);
    if (n_broken == 0)
        printf("\nAll %zu attacks were stopped.\n", test->n_attacks);
    else
        printf("\n%zu of %zu attacks were NOT stopped.\n", n_broken, test->n_attacks);
    if (test->unnamed != NULL)
        printf("Names are not judged here: %s\n", test->unnamed);
}

static void
write_error_name(IpbJsonWriter *writer, const char *key, int number)
{
    ipb_json_member_string(writer, key, number > 0 ? strerrorname_np(number) : NULL);
}

static void
print_json(const Selftest *test)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (size_t i = 0; i < test->n_attacks; i++) {
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "section", IPB_ATTACKS[i].section);
        ipb_json_member_string(writer, "attack", IPB_ATTACKS[i].name);
        ipb_json_key(writer, "held");
        ipb_json_write_bool(writer, !is_broken(test, i));
        write_error_name(writer, "error", test->inside[i]);
        ipb_json_key(writer, "worksWithout");
        ipb_json_write_bool(writer, works_without(test, i));
        ipb_json_member_string(writer, "why", is_for_lack_of_names(test, i) ? test->unnamed : NULL);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
}

static int
attack(bool is_staged, bool as_json)
{
    g_autoptr(GError) error = NULL;
    Selftest test = {.listeners = {-1, -1, -1, -1},
                     .host_end = -1,
                     .attack_end = -1,
                     .is_staged = is_staged,
                     .n_attacks = ipb_attacks_count(is_staged)};
    int status;
    test.has_effect = g_new0(bool, test.n_attacks);
    test.has_without = g_new0(bool, test.n_attacks);
    bool is_done = make_place(&test, &error) && make_command(&test, &error) &&
                   start_host(&test, &error) && attack_without(&test, &error) &&
                   attack_inside(&test, &error);
    end_host(&test);
    remove_place(&test);
    if (!is_done) {
        status = ipb_cli_fail(&ipb_verb_selftest, ipb_cli_status(error), "%s", error->message);
    } else {
        if (as_json)
            print_json(&test);
        else
            print_text(&test);
        status = count_broken(&test) == 0 ? IPB_EXIT_OK : IPB_EXIT_FAILED;
    }
    clear(&test);
    return status;
}

/* --- the verb --------------------------------------------------------------------------------- */

/* This process is the command that attacks. */
static int
run_attacks(const char *numbers, char **words)
{
    /* The last one is the layer, or NULL. */
    IpbAttackTargets targets = {.outside = words[0], .abstract = words[1], .layer = words[2]};
    if (sscanf(numbers, "%d:%d:%llu", &targets.port, &targets.pid, &targets.started) != 3)
        return IPB_EXIT_USAGE;
    int status = ipb_attacks_run(&targets) ? IPB_EXIT_OK : IPB_EXIT_FAILED;
    /* Without handlers at exit: a search for leaks needs ptrace. */
    _exit(status);
}

static int
run_selftest(int argc, char **argv)
{
    int as_json = 0, is_staged = 0;
    char *numbers = NULL;
    const GOptionEntry options[] = {
        {"staged", 0, 0, G_OPTION_ARG_NONE, &is_staged,
         "attack a staged workspace, too, and what is committed of it", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print JSON", NULL},
        {"attack", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &numbers, NULL,
         "PORT:PID:STARTED"},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (ipb_cli_parse(
            &ipb_verb_selftest, options,
            "Exit status: 0 all attacks were stopped, 1 some were not, 3 no sandbox can be made.",
            &argc, &argv, &status)) {
        if (numbers != NULL && (argc == 3 || argc == 4))
            status = run_attacks(numbers, argv + 1);
        else if (numbers != NULL || argc > 1)
            status = ipb_cli_fail(&ipb_verb_selftest, IPB_EXIT_USAGE, "unexpected argument");
        else
            status = attack(is_staged, as_json);
    }
    g_free(numbers);
    return status;
}

const IpbVerb ipb_verb_selftest = {
    "selftest", "", "attack a sandbox from inside, and report what was stopped", run_selftest};
