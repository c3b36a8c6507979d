/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbAuditLog: a file that gets one line of JSON for each decision on a tool call, before the call runs
 * (docs/how-to/approvals.md has the members). Lines of several sessions and processes may go to one file: each is one write to the end of it.
 *
 * Ownership: its owner frees it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

typedef struct IpbAuditLog IpbAuditLog;

/* Who decided. */
typedef enum {
    IPB_DECIDED_BY_POLICY,
    IPB_DECIDED_BY_RULE,
    IPB_DECIDED_BY_USER,
    IPB_DECIDED_BY_NOBODY, /* somebody should have been asked, and nobody was there */
    IPB_DECIDED_BY_TIMEOUT,
    IPB_DECIDED_BY_CANCEL, /* the call ended before an answer */
    IPB_DECIDED_BY_LIMIT,  /* too many wait */
} IpbDecider;

typedef struct {
    uint64_t request;
    const char *server_name;
    /* JSON, only of a server that is not registered: the line says so, with its command or URL. NULL:
     * registered */
    const char *server_params;
    const char *tool_name;
    const char *arguments_json;
    size_t arguments_size;
    bool is_allowed;
    IpbDecider by;
    unsigned rule;      /* of IPB_DECIDED_BY_RULE, or of the rule that said to ask; 0: none */
    const char *reason; /* or NULL */
} IpbDecision;

/* Opens or makes (0600) the file. INVALID: it is no regular file, or a symbolic link; SYSTEM. */
IpbAuditLog *ipb_audit_log_open(const char *path, GError **error);
/* SYSTEM: the line is not (wholly) in the file; the call must not run. */
bool ipb_audit_log_write(IpbAuditLog *log, const IpbDecision *decision, GError **error);
void ipb_audit_log_free(IpbAuditLog *log);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbAuditLog, ipb_audit_log_free)
