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

/* What ipybox itself did in a cell. */
typedef struct {
    char *time;
    char *text; /* for people, one line */
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
    size_t outputs;   /* index in the outputs */
} IpbRecordingCell;

typedef struct {
    char *time;
    char *version; /* of ipybox */
} IpbRecordingSession;

/* Reads the regular file. *@ret_n_torn: incomplete lines that were ignored. Errors: PROTOCOL,
 * LIMIT, INVALID, NOT_FOUND, SYSTEM. */
IpbRecording *ipb_recording_read(const char *path, size_t *ret_n_torn, GError **error);
void ipb_recording_free(IpbRecording *recording);

/* IpbRecordingCell, without silent ones. */
const GPtrArray *ipb_recording_cells(const IpbRecording *recording);
/* IpbRecordingSession. */
const GPtrArray *ipb_recording_sessions(const IpbRecording *recording);
const IpbOutputs *ipb_recording_outputs(const IpbRecording *recording);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRecording, ipb_recording_free)
