/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/path-rules.h"

#include <string.h>

/* What a table says about a path, one letter each. */
static void
add_rule(IpbPathRules *rules, const char *path, const char *letters)
{
    IpbPathRule *rule = ipb_path_rules_get(rules, path, true);
    for (; *letters != '\0'; letters++) {
        switch (*letters) {
        case 'r':
            rule->allow_read = true;
            break;
        case 'h':
            rule->deny_read = true;
            break;
        case 'H':
            rule->deny_read = rule->hides_all_below = true;
            break;
        case 'w':
            rule->allow_write = true;
            break;
        case 'd':
            rule->deny_write = true;
            break;
        case 'k':
            rule->keep = true;
            break;
        case 'x':
            rule->expose = true;
            break;
        case 'p':
            rule->is_private = true;
            break;
        case 'O':
            ipb_path_rule_set_own(rule, IPB_OWN_DIRECTORY, "own");
            break;
        case 'S':
            ipb_path_rule_set_own(rule, IPB_OWN_PROCESSES, "own");
            break;
        default:
            g_error("unknown letter %c", *letters);
        }
    }
}

typedef struct {
    const char *rules[4][2]; /* path, letters */
    const char *path;        /* what is asked about */
    IpbPathView view;
    bool is_writable;
} Case;

static const Case CASES[] = {
    /* Nothing is said: readable, not writable. */
    {{{NULL}}, "/a", IPB_VIEW_HOST, false},
    /* Writing: allowed below; a denial wins at the same path, above and below. */
    {{{"/a", "w"}}, "/a/b", IPB_VIEW_HOST, true},
    {{{"/a", "w"}}, "/ab", IPB_VIEW_HOST, false},
    {{{"/a", "wd"}}, "/a", IPB_VIEW_HOST, false},
    {{{"/a", "w"}, {"/a/b", "d"}}, "/a/b/c", IPB_VIEW_HOST, false},
    {{{"/a", "w"}, {"/a/b", "d"}}, "/a/c", IPB_VIEW_HOST, true},
    {{{"/a", "d"}, {"/a/b", "w"}}, "/a/b", IPB_VIEW_HOST, false},
    /* Reading: hidden below; shown again below that, by name only. */
    {{{"/a", "h"}}, "/a/b", IPB_VIEW_HIDDEN, false},
    {{{"/a", "h"}, {"/a/b", "r"}}, "/a/b/c", IPB_VIEW_HOST, false},
    {{{"/a", "h"}, {"/a/b", "r"}}, "/a/c", IPB_VIEW_HIDDEN, false},
    {{{"/a", "hr"}}, "/a", IPB_VIEW_HOST, false},
    {{{"/a", "H"}, {"/a/b", "r"}}, "/a/b", IPB_VIEW_HIDDEN, false},
    {{{"/a", "r"}, {"/a/b", "h"}}, "/a/b", IPB_VIEW_HIDDEN, false},
    {{{"/a", "h"}, {"/a/b", "x"}}, "/a/b", IPB_VIEW_HOST, false},
    {{{"/a", "hx"}}, "/a", IPB_VIEW_HIDDEN, false},
    /* What may be written is shown; both for one path make it an empty directory. */
    {{{"/a", "h"}, {"/a/b", "w"}}, "/a/b", IPB_VIEW_HOST, true},
    {{{"/a", "wh"}}, "/a", IPB_VIEW_HIDDEN, true},
    /* Kept: read-only even in a writable directory and in one that is hidden completely. Below it a
     * path can be made writable by name. */
    {{{"/a", "w"}, {"/a/b", "k"}}, "/a/b", IPB_VIEW_HOST, false},
    {{{"/a", "H"}, {"/a/b", "k"}}, "/a/b", IPB_VIEW_HOST, false},
    {{{"/a", "k"}, {"/a/b", "w"}}, "/a/b", IPB_VIEW_HOST, true},
    {{{"/a", "wk"}}, "/a", IPB_VIEW_HOST, false},
    /* Own places: the host's is not seen, unless it is made writable or shown by name. */
    {{{"/t", "O"}}, "/t/x", IPB_VIEW_OWN, false},
    {{{"/t", "Ow"}}, "/t/x", IPB_VIEW_HOST, true},
    {{{"/t", "Owd"}}, "/t/x", IPB_VIEW_OWN, false},
    {{{"/t", "O"}, {"/t/x", "x"}}, "/t/x", IPB_VIEW_HOST, false},
    {{{"/t", "O"}, {"/t/x", "h"}}, "/t/x", IPB_VIEW_OWN, false},
    {{{"/", "w"}, {"/t", "O"}}, "/t", IPB_VIEW_OWN, true},
    {{{"/p", "S"}}, "/p/1", IPB_VIEW_SYSTEM, false},
    {{{"/p", "S"}, {"/p/x", "r"}}, "/p/x", IPB_VIEW_SYSTEM, false},
    {{{"/p", "S"}, {"/p/x", "w"}}, "/p/x", IPB_VIEW_SYSTEM, true},
    {{{"/p", "Sr"}}, "/p", IPB_VIEW_SYSTEM, false},
    /* Private: only where nothing else is said. */
    {{{"/a", "p"}}, "/a", IPB_VIEW_OWN, false},
    {{{"/a", "pw"}}, "/a", IPB_VIEW_HOST, true},
    {{{"/", "w"}, {"/a", "p"}}, "/a", IPB_VIEW_HOST, true},
    {{{"/a", "h"}, {"/a/b", "p"}}, "/a/b", IPB_VIEW_HIDDEN, false},
};

static void
test_access(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        const Case *test = &CASES[i];
        g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
        for (size_t j = 0; j < G_N_ELEMENTS(test->rules) && test->rules[j][0] != NULL; j++)
            add_rule(rules, test->rules[j][0], test->rules[j][1]);
        ipb_path_rules_resolve(rules);
        const IpbPathAccess *access = &ipb_path_rules_find(rules, test->path)->access;
        if (access->view != test->view || access->is_writable != test->is_writable)
            g_error("case %zu, %s: view %d, writable %d", i, test->path, access->view,
                    access->is_writable);
    }
}

static void
test_order(void)
{
    static const char *const PATHS[] = {"/", "/a", "/a/b", "/a/b/c", "/a-b", "/a.b", "/b"};
    static const size_t ADDED[] = {5, 3, 1, 6, 2, 4};
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    for (size_t i = 0; i < G_N_ELEMENTS(ADDED); i++)
        ipb_path_rules_get(rules, PATHS[ADDED[i]], true);
    ipb_path_rules_resolve(rules);
    g_assert_cmpuint(rules->sorted->len, ==, G_N_ELEMENTS(PATHS));
    for (guint i = 0; i < rules->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(rules->sorted, i);
        g_assert_cmpstr(rule->path, ==, PATHS[i]);
        g_assert_true((i == 0) == (rule->parent == NULL));
    }
    g_assert_cmpstr(ipb_path_rules_find(rules, "/a/b/c/d/e")->path, ==, "/a/b/c");
    g_assert_cmpstr(ipb_path_rules_find(rules, "/a-")->path, ==, "/");
}

static void
test_reasons(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    IpbPathRule *writable = ipb_path_rules_get(rules, "/w", true);
    writable->allow_write = true;
    ipb_path_rule_add_write_reason(writable, "first");
    ipb_path_rule_add_write_reason(writable, "second");
    IpbPathRule *hidden = ipb_path_rules_get(rules, "/w/h", true);
    hidden->deny_read = true;
    ipb_path_rule_add_read_reason(hidden, "secret");
    IpbPathRule *processes = ipb_path_rules_get(rules, "/proc", true);
    processes->deny_read = true;
    ipb_path_rule_add_read_reason(processes, "denied");
    ipb_path_rule_set_own(processes, IPB_OWN_PROCESSES, "own");
    ipb_path_rules_resolve(rules);
    g_assert_cmpstr(writable->access.reason, ==, "first");
    g_assert_cmpstr(hidden->access.reason, ==, "secret");
    g_assert_cmpstr(processes->access.reason, ==, "denied");
    g_assert_nonnull(ipb_path_rules_find(rules, "/")->access.reason);
    /* A hidden directory that may be written is an empty one of the sandbox's own. */
    g_assert_false(ipb_path_rule_hides(hidden));
    g_assert_false(ipb_path_rule_hides(writable));
    g_assert_true(ipb_path_rule_hides(processes));
}

static void
test_warnings(void)
{
    static const struct {
        const char *rules[2][2];
        const char *part;
    } WARNED[] = {
        {{{"/p", "Sw"}}, "no effect"},
        {{{"/a", "H"}, {"/a/b", "w"}}, "/a/b stays hidden"},
        {{{"/a", "wd"}}, "/a stays read-only"},
        {{{"/a", "H"}, {"/a/b", "r"}}, "allowRead: /a/b stays hidden"},
        {{{"/p", "Sr"}}, "is the sandbox's own"},
        {{{"/", "w"}}, "can be renamed"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(WARNED); i++) {
        g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
        for (size_t j = 0; j < 2 && WARNED[i].rules[j][0] != NULL; j++) {
            add_rule(rules, WARNED[i].rules[j][0], WARNED[i].rules[j][1]);
            IpbPathRule *rule = ipb_path_rules_get(rules, WARNED[i].rules[j][0], true);
            ipb_path_rule_add_read_reason(rule, "read");
            ipb_path_rule_add_write_reason(rule, "write");
        }
        ipb_path_rules_resolve(rules);
        g_assert_cmpuint(rules->warnings->len, ==, 1);
        const char *warning = g_ptr_array_index(rules->warnings, 0);
        if (strstr(warning, WARNED[i].part) == NULL)
            g_error("case %zu: %s", i, warning);
    }
}

/* A kept path has a second name only where nothing would be there otherwise. */
static void
test_aliases(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    add_rule(rules, "/hidden", "h");
    ipb_path_rules_add_alias(rules, "/hidden/python", "/usr/bin/python");
    ipb_path_rules_add_alias(rules, "/shown/python", "/usr/bin/python");
    ipb_path_rules_resolve(rules);
    g_assert_cmpuint(rules->aliases->len, ==, 1);
    const IpbPathAlias *alias = g_ptr_array_index(rules->aliases, 0);
    g_assert_cmpstr(alias->path, ==, "/hidden/python");
    g_assert_cmpstr(alias->real, ==, "/usr/bin/python");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/path-rules/access", test_access);
    g_test_add_func("/sandbox/path-rules/order", test_order);
    g_test_add_func("/sandbox/path-rules/reasons", test_reasons);
    g_test_add_func("/sandbox/path-rules/warnings", test_warnings);
    g_test_add_func("/sandbox/path-rules/aliases", test_aliases);
    return g_test_run();
}
