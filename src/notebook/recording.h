/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRecording: a record of sessions (ipybox-record(5)) that was read, as cells with their outputs.
 * The file may be hostile: what is wrong in it is an error that names the line.
 *
 * Ownership: the owner frees it; what is in it is borrowed. Immutable.
 */
#pragma once

#include "notebook/outputs.h"

typedef struct IpbRecording IpbRecording;

/* What ipybox itself did. */
typedef struct {
    char *time;
    char *text; /* for people; of a tool call one line */
} IpbRecordingNote;

typedef struct {
    size_t session; /* its index */
    int64_t number; /* in its session */
    char *code;
    int64_t execution_count; /* 0: it did not run */
    char *begin_time;        /* or NULL, as the following */
    char *end_time;
    char *status;     /* "ok", "error", "timeout", …; NULL: the record ends before it */
    GPtrArray *calls; /* IpbRecordingNote: tool calls */
    /* Of a staged session: what the cell has changed, as ipb_file_changes_text(), or NULL. */
    char *files;
    GPtrArray *reviews; /* IpbRecordingNote: commits and discards after the cell */
    /* For REPLAY: */
    bool is_silent;
    bool asks_input;
    bool is_after_discard; /* changes were discarded earlier in the session */
    size_t kernel;         /* the number of the session's kernel that ran it, from 1; 0: unknown */
    size_t outputs;        /* index in the outputs */
} IpbRecordingCell;

typedef struct {
    char *time;
    char *version; /* of ipybox */
    char *layer;   /* the name of the layer of a staged session; or NULL */
    bool has_discard;
    GPtrArray *tools; /* char *: names of packages of the program's tools: mcptools.NAME */
} IpbRecordingSession;

typedef enum {
    /* For documents: the outputs have all that was shown, also notices of ipybox. There are no
     * silent cells. */
    IPB_RECORDING_DOCUMENT,
    /* To run the cells again: the outputs have what cells wrote until they ended. */
    IPB_RECORDING_REPLAY,
} IpbRecordingUse;

/* Reads the regular file. Links below @base (may be NULL) are not followed. *@ret_n_torn:
 * incomplete lines that were ignored. Errors: PROTOCOL, LIMIT, INVALID, NOT_FOUND, REFUSED,
 * SYSTEM. */
IpbRecording *ipb_recording_read(const char *base, const char *path, IpbRecordingUse use,
                                 size_t *ret_n_torn, GError **error);
void ipb_recording_free(IpbRecording *recording);

/* IpbRecordingCell. */
const GPtrArray *ipb_recording_cells(const IpbRecording *recording);
/* IpbRecordingSession. */
const GPtrArray *ipb_recording_sessions(const IpbRecording *recording);
const IpbOutputs *ipb_recording_outputs(const IpbRecording *recording);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRecording, ipb_recording_free)
