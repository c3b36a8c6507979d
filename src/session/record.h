/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRecord: the event log of a session, a file to which lines of JSON are appended: the code of
 * cells, their output, results, errors and ends, decisions on tool calls, notices.
 * ipybox-record(5) lists the lines and their members.
 *
 * Each line is one write to the end of the file, made as soon as its event is known. So a record is
 * complete up to the moment at which this process is killed. It is not synced to the disk: a crash
 * of the machine may cost its last lines.
 *
 * What is typed for a cell (input(), passwords) is never recorded, only that it was asked for.
 *
 * The first write that fails ends the record: that call returns the error, once. Later calls, and
 * calls with NULL for the record, do nothing and succeed.
 *
 * Ownership: its owner frees it. While it is open no other session can record to its file.
 */
#pragma once

#include "kernel/event.h"
#include "session/staged-workspace.h"
#include "tools/audit-log.h"

/* The version of the format, in the header. */
#define IPB_RECORD_FORMAT 1

typedef struct IpbRecord IpbRecord;

/* Creates the file with mode 0600, or opens a record of this user to append to it, and writes a
 * header. Links below @base (may be NULL) are not followed. Errors: INVALID (it is not a record, or
 * not a regular file of this user alone with mode 0600), BUSY (another session records to it),
 * REFUSED (a link), SYSTEM. */
IpbRecord *ipb_record_open(const char *base, const char *path, GError **error);
/* Opens a record of this user to append to its last session, after that has ended. Errors: as for
 * ipb_record_open(), and NOT_FOUND. */
IpbRecord *ipb_record_resume(const char *base, const char *path, GError **error);
void ipb_record_free(IpbRecord *record);

/* A cell begins. Numbers of cells begin with 1 and rise. Errors, also of the following: SYSTEM,
 * LIMIT; the message says that the record has ended. */
bool ipb_record_cell(IpbRecord *record, uint64_t cell, const char *code, bool is_silent,
                     GError **error);
/* What happened in a cell; 0: in none. Events that a record does not keep are ignored. */
bool ipb_record_event(IpbRecord *record, uint64_t cell, const IpbEvent *event, GError **error);
/* A decision on a tool call; 0: of no cell. */
bool ipb_record_decision(IpbRecord *record, uint64_t cell, const IpbDecision *decision,
                         GError **error);
/* A call that was allowed has ended; @failure: NULL if it succeeded. @request: of its decision. */
bool ipb_record_call_end(IpbRecord *record, uint64_t request, const GError *failure,
                         GError **error);
/* The program offers tools to the session: the names of their packages. */
bool ipb_record_tools(IpbRecord *record, const GPtrArray *names, GError **error);
/* The session's workspace is staged: the directory of its layer. */
bool ipb_record_layer(IpbRecord *record, const char *directory, GError **error);
/* What became of a commit or a discard of what is in this layer; @failure: NULL if there is a
 * @result. */
bool ipb_record_changes(IpbRecord *record, const char *directory, bool is_discard,
                        const IpbStagedResult *result, const GError *failure, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRecord, ipb_record_free)
