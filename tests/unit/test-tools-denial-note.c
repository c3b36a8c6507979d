/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>

#include "tools/denial-note.h"

static const char DENIED[] = "fs.read_file: EACCES: permission denied, open '.env'";

static void
test_sandboxed(void)
{
    static const char *const PARAMS[] = {
        "{\"command\": \"node\", \"sandbox\": true}",
        "{\"command\": \"node\", \"sandbox\": {\"filesystem\": {}}}",
        "{\"command\": \"srt\", \"args\": [\"node\"]}",
        "{\"command\": \"/usr/bin/ipybox\", \"args\": [\"sandbox\", \"--\", \"node\"]}",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(PARAMS); i++) {
        const char *note = ipb_denial_note(PARAMS[i], DENIED);
        g_assert_nonnull(note);
        g_assert_true(g_str_has_prefix(note, "operation not permitted: "));
        g_assert_nonnull(ipb_denial_note(PARAMS[i], "[Errno 30] Read-only file system: 'x'"));
        g_assert_null(ipb_denial_note(PARAMS[i], "no such file"));
    }
}

static void
test_not_sandboxed(void)
{
    static const char *const PARAMS[] = {
        "{\"command\": \"node\"}",
        "{\"command\": \"node\", \"sandbox\": false}",
        "{\"command\": \"ipybox\", \"args\": [\"mcp\"]}",
        "{\"command\": \"ipybox\"}",
        "{\"url\": \"https://srt\"}",
        "[]",
        "{",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(PARAMS); i++)
        g_assert_null(ipb_denial_note(PARAMS[i], DENIED));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/denial-note/sandboxed", test_sandboxed);
    g_test_add_func("/denial-note/not-sandboxed", test_not_sandboxed);
    return g_test_run();
}
