/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a process shares with no other; see the header.
 */
#include "kernel/private-memory.h"

#include <string.h>

#include <glib.h>

/* The line of @name, "Private_Dirty:      1234 kB". */
static bool
find_kib(const char *text, const char *name, uint64_t *ret_kib)
{
    const char *line = strstr(text, name);
    if (line == NULL)
        return false;
    *ret_kib = g_ascii_strtoull(line + strlen(name), NULL, 10);
    return true;
}

bool
ipb_private_memory(pid_t pid, uint64_t *ret_bytes)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/smaps_rollup", (int) pid);
    g_autofree char *text = NULL;
    uint64_t clean, dirty;
    if (!g_file_get_contents(path, &text, NULL, NULL) ||
        !find_kib(text, "\nPrivate_Clean:", &clean) || !find_kib(text, "\nPrivate_Dirty:", &dirty))
        return false;
    *ret_bytes = (clean + dirty) * 1024;
    return true;
}
