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

/* What is in it to be run again. */
static void
check_cells(const IpbRecording *recording)
{
    const GPtrArray *cells = ipb_recording_cells(recording);
    for (guint i = 0; i < cells->len; i++) {
        const IpbRecordingCell *cell = g_ptr_array_index(cells, i);
        g_assert(cell->code != NULL && cell->number > 0);
        g_assert(cell->session < ipb_recording_sessions(recording)->len);
        g_assert(ipb_outputs_get(ipb_recording_outputs(recording), cell->outputs) != NULL);
    }
}

static void
check_read(const char *path, IpbRecordingUse use)
{
    g_autoptr(GError) error = NULL;
    size_t n_torn = 0;
    g_autoptr(IpbRecording) recording = ipb_recording_read(NULL, path, use, &n_torn, &error);
    g_assert((recording == NULL) == (error != NULL));
    if (recording == NULL)
        g_assert(g_str_has_prefix(error->message, path));
    else if (use == IPB_RECORDING_DOCUMENT)
        check_documents(recording);
    else
        check_cells(recording);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("record", MFD_CLOEXEC);
    g_assert(fd >= 0 && write(fd, data, size) == (ssize_t) size);
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    check_read(path, IPB_RECORDING_DOCUMENT);
    check_read(path, IPB_RECORDING_REPLAY);
    close(fd);
    return 0;
}
