/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of records, and the documents of what it accepts: the notebook is JSON, the page has
 * no script, and all documents are UTF-8. An error names the line.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "notebook/html.h"
#include "notebook/ipynb.h"
#include "notebook/markdown.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_documents(const IpbRecording *recording)
{
    size_t size;
    g_autofree char *notebook = ipb_ipynb_make(recording, &size);
    g_assert(strlen(notebook) == size && g_utf8_validate(notebook, -1, NULL));
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(notebook, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    g_assert(document != NULL && ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT));
    g_autofree char *page = ipb_html_make(recording, &size);
    g_assert(strlen(page) == size && g_utf8_validate(page, -1, NULL));
    g_assert(strstr(page, "<script") == NULL && strstr(page, "<svg") == NULL);
    g_autofree char *text = ipb_markdown_make(recording, &size);
    g_assert(strlen(text) == size && g_utf8_validate(text, -1, NULL));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("record", MFD_CLOEXEC);
    g_assert(fd >= 0 && write(fd, data, size) == (ssize_t) size);
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    g_autoptr(GError) error = NULL;
    size_t n_torn = 0;
    g_autoptr(IpbRecording) recording = ipb_recording_read(path, &n_torn, &error);
    close(fd);
    g_assert((recording == NULL) == (error != NULL));
    if (recording != NULL)
        check_documents(recording);
    else
        g_assert(g_str_has_prefix(error->message, path));
    return 0;
}
