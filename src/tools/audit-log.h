/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbAuditLog: a file that gets one line of JSON for each decision on a tool call, before the call
 * runs. docs/how-to/approvals.md lists the members. Several sessions and processes may write to one
 * file, because each line is one write to its end.
 *
 * Ownership: its owner frees it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "json/writer.h"

typedef struct IpbAuditLog IpbAuditLog;

/* Who decided. */
typedef enum {
    IPB_DECIDED_BY_POLICY,
    IPB_DECIDED_BY_RULE,
    IPB_DECIDED_BY_USER,
    IPB_DECIDED_BY_NOBODY, /* the user had to be asked, but no one was there */
    IPB_DECIDED_BY_TIMEOUT,
    IPB_DECIDED_BY_CANCEL, /* the call ended before the user answered */
    IPB_DECIDED_BY_LIMIT,  /* too many requests waited */
} IpbDecider;

typedef struct {
    uint64_t request;
    const char *server_name;
    /* JSON of a server that is not registered: the line says so and has its command or URL. NULL:
     * registered */
    const char *server_params;
    const char *tool_name;
    const char *arguments_json;
    size_t arguments_size;
    bool is_allowed;
    IpbDecider by;
    unsigned rule;      /* the rule that decided, or said to ask; 0: none */
    const char *reason; /* or NULL */
} IpbDecision;

/* Opens the file, or creates it with mode 0600. Links below @base (may be NULL) are not followed.
 * Errors: INVALID (not a regular file), REFUSED (a link), SYSTEM. */
IpbAuditLog *ipb_audit_log_open(const char *base, const char *path, GError **error);
/* SYSTEM: the line was not written completely, so the call must not run. */
bool ipb_audit_log_write(IpbAuditLog *log, const IpbDecision *decision, GError **error);
void ipb_audit_log_free(IpbAuditLog *log);
/* The members of a line that describe @decision, in the object that @writer is in: records of
 * sessions have the same. */
void ipb_audit_log_write_decision(IpbJsonWriter *writer, const IpbDecision *decision);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbAuditLog, ipb_audit_log_free)
