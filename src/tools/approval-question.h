/* SPDX-License-Identifier: Apache-2.0
 *
 * The question about a tool call, as a person reads it before approving. It has one form for the
 * terminal, elicitation and programs.
 *
 *     Tool call: files.write_file
 *     Server that is not registered:
 *       "command": "npx"
 *     Arguments:
 *       "path": "/data/é"
 *       "mode": 0.10
 *
 * The first line of an installation begins with "Installation of a Python package: ". Changes of a
 * staged workspace have a line each:
 *
 *     Commit of changes: ipybox.commit_changes
 *     Workspace: "/data/work"
 *       + "report.txt" (4 bytes)
 *       ~ "run.sh" (120 bytes, was 100, mode 755)
 *       - "old" (directory)
 *     SHA-256: "9f86d081…"
 *
 * Each argument is on one line, in the order in which it was sent, with its nested values. Strings
 * and names are quoted (base/display-text.h). Numbers are the text that was sent. Members with the
 * same name are all shown. So equal questions mean equal calls.
 */
#pragma once

#include "tools/approvals.h"

/* Bytes. A longer question is too long for a person to read. */
#define IPB_APPROVAL_QUESTION_MAX_SIZE (1024 * 1024)

/* Caller frees. Errors: LIMIT (it is too long), PROTOCOL (the arguments are not a JSON object). */
char *ipb_approval_question(const IpbApprovalRequest *request, GError **error);
