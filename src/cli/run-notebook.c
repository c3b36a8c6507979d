/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes a notebook file; see the header.
 */
#include "cli/run-notebook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/fd.h"
#include "cli/run-outputs.h"
#include "json/writer.h"
#include "notebook/ipynb.h"
#include "notebook/notebook.h"

#define MAX_SIZE (256u * 1024 * 1024)

struct IpbRunNotebook {
    char *path; /* for messages */
    IpbBeneath *directory;
    char *name;
    struct stat status;
    bool saves;
    char *text; /* as it was read */
    size_t size;
    IpbNotebook *notebook;
    IpbRunOutputs *outputs; /* of the cells that were begun: their indexes are equal */
    size_t n_begun;
};

/* --- the file --------------------------------------------------------------------------------- */

/* Finds the directory of the file, and its name there. */
static bool
find_place(IpbRunNotebook *notebook, const char *base, const char *path, GError **error)
{
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    g_autofree char *parent = g_path_get_dirname(absolute);
    if (base != NULL && ipb_beneath_contains(base, parent)) {
        notebook->directory = ipb_beneath_open_in(base, parent, 0, error);
        notebook->name = g_path_get_basename(absolute);
        return notebook->directory != NULL;
    }
    char *real = realpath(absolute, NULL);
    if (real == NULL)
        return ipb_error_set_errno(error, errno, "cannot open it");
    g_autofree char *directory = g_path_get_dirname(real);
    notebook->name = g_path_get_basename(real);
    free(real);
    notebook->directory = ipb_beneath_open(directory, error);
    return notebook->directory != NULL;
}

/* Before hours of work. */
static bool
check_writable(const IpbRunNotebook *notebook, GError **error)
{
    int directory = ipb_beneath_fd(notebook->directory);
    if (faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) < 0)
        return ipb_error_set_errno(error, errno, "cannot save it: its directory");
    if (notebook->status.st_uid == geteuid() || geteuid() == 0)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "cannot save it: it belongs to another user; copy it");
    return false;
}

static bool
read_notebook(IpbRunNotebook *notebook, const char *base, const char *path, GError **error)
{
    if (!find_place(notebook, base, path, error) ||
        !ipb_beneath_read(notebook->directory, notebook->name, MAX_SIZE, &notebook->text,
                          &notebook->size, error))
        return false;
    if (fstatat(ipb_beneath_fd(notebook->directory), notebook->name, &notebook->status,
                AT_SYMLINK_NOFOLLOW) < 0)
        return ipb_error_set_errno(error, errno, "cannot open it");
    notebook->notebook = ipb_notebook_parse(notebook->text, notebook->size, error);
    return notebook->notebook != NULL && (!notebook->saves || check_writable(notebook, error));
}

IpbRunNotebook *
ipb_run_notebook_open(const char *base, const char *path, bool saves, GError **error)
{
    IpbRunNotebook *notebook = g_new0(IpbRunNotebook, 1);
    notebook->path = g_strdup(path);
    notebook->saves = saves;
    notebook->outputs = ipb_run_outputs_new();
    if (!read_notebook(notebook, base, path, error)) {
        g_prefix_error(error, "%s: ", path);
        g_clear_pointer(&notebook, ipb_run_notebook_free);
    }
    return notebook;
}

void
ipb_run_notebook_free(IpbRunNotebook *notebook)
{
    if (notebook == NULL)
        return;
    ipb_run_outputs_free(notebook->outputs);
    ipb_notebook_free(notebook->notebook);
    ipb_beneath_free(notebook->directory);
    g_free(notebook->text);
    g_free(notebook->name);
    g_free(notebook->path);
    g_free(notebook);
}

/* --- cells ------------------------------------------------------------------------------------ */

static const IpbNotebookCell *
current_cell(const IpbRunNotebook *notebook)
{
    return g_ptr_array_index(ipb_notebook_cells(notebook->notebook), notebook->n_begun - 1);
}

const char *
ipb_run_notebook_next(IpbRunNotebook *notebook)
{
    if (notebook->n_begun == ipb_notebook_cells(notebook->notebook)->len)
        return NULL;
    notebook->n_begun++;
    ipb_run_outputs_begin_cell(notebook->outputs);
    return current_cell(notebook)->source;
}

size_t
ipb_run_notebook_number(const IpbRunNotebook *notebook)
{
    return current_cell(notebook)->number;
}

void
ipb_run_notebook_add(IpbRunNotebook *notebook, const IpyboxEvent *event)
{
    if (notebook->saves)
        ipb_run_outputs_add(notebook->outputs, event);
}

bool
ipb_run_notebook_end_cell(IpbRunNotebook *notebook, const IpyboxResult *result)
{
    IpyboxStatus status = ipybox_result_get_status(result);
    const char *message = ipybox_result_get_message(result);
    ipb_run_outputs_end_cell(notebook->outputs, ipybox_result_get_execution_count(result));
    if (message != NULL && status != IPYBOX_STATUS_OK) {
        g_autofree char *text = g_strdup_printf("[ipybox] %s", message);
        ipb_run_outputs_add_line(notebook->outputs, text);
    }
    return ipb_run_outputs_error(notebook->outputs) == NULL &&
           (status == IPYBOX_STATUS_OK ||
            (status == IPYBOX_STATUS_ERROR && current_cell(notebook)->may_raise));
}

/* --- saving ----------------------------------------------------------------------------------- */

/* Whether the file still has what was read. */
static bool
check_unchanged(const IpbRunNotebook *notebook, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_beneath_read(notebook->directory, notebook->name, MAX_SIZE, &text, &size, error))
        return false;
    if (size == notebook->size && memcmp(text, notebook->text, size) == 0)
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                        "it was changed by another program, or by its own cells: run it again");
    return false;
}

/* As the file was: its mode, and, for root, its owner. */
static bool
write_file(const IpbRunNotebook *notebook, const char *name, const char *text, size_t size,
           GError **error)
{
    const struct stat *status = &notebook->status;
    ipb_autofd fd = ipb_beneath_create(notebook->directory, name, 0600);
    if (fd < 0)
        return ipb_error_set_errno(error, errno, "cannot write beside it");
    if (!ipb_fd_write_all(fd, text, size, error))
        return false;
    bool is_owner = status->st_uid == geteuid() && status->st_gid == getegid();
    if ((!is_owner && fchown(fd, status->st_uid, status->st_gid) < 0) ||
        fchmod(fd, status->st_mode & 0777) < 0 || fsync(fd) < 0)
        return ipb_error_set_errno(error, errno, "cannot write beside it");
    return true;
}

static char *
make_text(IpbRunNotebook *notebook, size_t *ret_size)
{
    for (size_t i = 0; i < notebook->n_begun; i++) {
        int64_t count = ipb_run_outputs_count(notebook->outputs, i);
        IpbJsonWriter *writer = ipb_json_writer_new();
        ipb_ipynb_write_outputs(writer, ipb_run_outputs_get(notebook->outputs), i);
        g_autofree char *outputs = ipb_json_writer_finish(writer, NULL);
        ipb_notebook_set_outputs(notebook->notebook, i, outputs, count);
    }
    return ipb_notebook_write(notebook->notebook, ret_size);
}

static bool
replace_file(IpbRunNotebook *notebook, GError **error)
{
    size_t size;
    g_autofree char *text = make_text(notebook, &size);
    g_autofree char *id = g_uuid_string_random();
    g_autofree char *name = g_strconcat(".ipybox-", id, ".ipynb", NULL);
    bool is_saved = write_file(notebook, name, text, size, error) &&
                    check_unchanged(notebook, error) &&
                    ipb_beneath_swap(notebook->directory, name, notebook->name, error);
    return ipb_beneath_remove_tree(notebook->directory, name, is_saved ? error : NULL) && is_saved;
}

bool
ipb_run_notebook_save(IpbRunNotebook *notebook, GError **error)
{
    if (!notebook->saves)
        return true;
    if (ipb_run_outputs_error(notebook->outputs) != NULL)
        g_propagate_error(error, g_error_copy(ipb_run_outputs_error(notebook->outputs)));
    else if (notebook->n_begun == 0 || replace_file(notebook, error))
        return true;
    g_prefix_error(error, "%s is not saved: ", notebook->path);
    return false;
}
