/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOutputs: the outputs of the cells of a document, as Jupyter keeps them. Text that continues a
 * stream is added to it. An update, or another display with its id, replaces all displays with
 * that id, whichever cell they are in. clear_output removes what its cell has shown, with `wait`
 * when the next output comes.
 *
 * Ownership: the owner frees it. Texts are copied; what is returned is borrowed until the next
 * change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"

typedef struct IpbOutputs IpbOutputs;

/* What displays with one id show, which they share. */
typedef struct {
    unsigned n_outputs;
    char *display_id;      /* NULL: it has none */
    char *data, *metadata; /* a MIME bundle and its metadata: the text of JSON objects */
} IpbNotebookBundle;

typedef enum {
    IPB_OUTPUT_STREAM,
    IPB_OUTPUT_DISPLAY,
    IPB_OUTPUT_RESULT,
    IPB_OUTPUT_ERROR,
} IpbOutputKind;

typedef struct {
    IpbOutputKind kind;
    /* STREAM */
    bool is_stderr;
    GString *text;
    /* DISPLAY, RESULT */
    IpbNotebookBundle *bundle;
    int64_t execution_count; /* RESULT; 0: unknown */
    /* ERROR */
    char *ename, *evalue, *traceback;
} IpbNotebookOutput;

IpbOutputs *ipb_outputs_new(void);
void ipb_outputs_free(IpbOutputs *outputs);

/* Adds a cell. Returns its index. */
size_t ipb_outputs_add_cell(IpbOutputs *outputs);
/* Displays so far are not updated any more: another kernel may use their ids again. */
void ipb_outputs_forget_displays(IpbOutputs *outputs);

void ipb_outputs_add_text(IpbOutputs *outputs, size_t cell, bool is_stderr, const char *text);
void ipb_outputs_add_error(IpbOutputs *outputs, size_t cell, const char *ename, const char *evalue,
                           const char *traceback);
/* @data: an object; @metadata: an object or NULL. @kind: DISPLAY or RESULT. PROTOCOL: a value of
 * @data does not fit its MIME type. */
bool ipb_outputs_add_bundle(IpbOutputs *outputs, size_t cell, IpbOutputKind kind,
                            const IpbJson *data, const IpbJson *metadata, const char *display_id,
                            int64_t execution_count, GError **error);
/* Likewise. An unknown id is ignored. LIMIT: see ipb_outputs_check_size(). */
bool ipb_outputs_update(IpbOutputs *outputs, const IpbJson *data, const IpbJson *metadata,
                        const char *display_id, GError **error);
/* Whether the outputs of the cell that are added from now on are of an unknown cell. A line in the
 * text says so. */
void ipb_outputs_set_unknown(IpbOutputs *outputs, size_t cell, bool is_unknown);
/* The execution count of the cell's results. */
void ipb_outputs_set_execution_count(IpbOutputs *outputs, size_t cell, int64_t execution_count);
void ipb_outputs_clear(IpbOutputs *outputs, size_t cell, bool waits);

/* The outputs of a cell: IpbNotebookOutput. */
const GPtrArray *ipb_outputs_get(const IpbOutputs *outputs, size_t cell);
/* LIMIT if the outputs that are kept are too large. */
bool ipb_outputs_check_size(const IpbOutputs *outputs, GError **error);
/* Whether values of a MIME type are any JSON; all others are text. */
bool ipb_outputs_is_json_type(const char *mime_type);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOutputs, ipb_outputs_free)
