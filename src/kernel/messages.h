/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMessage: the contents of frames of the kernel wire. It makes checked events of a kernel's
 * hostile JSON, and writes the JSON for a kernel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json.h"
#include "kernel/kernel.h"
#include "kernel/wire.h"

/* The content of a frame. The texts and values of the event live as long as the message. */
typedef struct {
    IpbFrameType type;
    /* not for HELLO, REPLY, PIPES_TAKEN and BRANCHED; cell 0: belongs to no cell */
    IpbEvent event;
    IpbJsonDoc *document;
    /* REPLY: which, and its result (any value) or the error's text; INPUT_*; BRANCHED */
    uint64_t request;
    const IpbJson *result;
    const char *error;
    int64_t branch_pid; /* BRANCHED: of the branch; 0: it was refused, for the reasons in @texts */
    char **texts;       /* BRANCHED: reasons or warnings; UTF-8, owned */
    IpbComm comm;       /* of the event COMM */
    char *owned[4];     /* texts that had to be changed */
    unsigned n_owned;
    IpbSpan *buffers; /* of the comm, each of them owned */
    size_t n_buffers;
} IpbMessage;

/* Errors: PROTOCOL, with what is wrong in which frame. */
bool ipb_message_parse(const IpbFrame *frame, IpbMessage *ret_message, GError **error);
void ipb_message_clear(IpbMessage *message);

typedef struct {
    const char *key;        /* hexadecimal */
    int64_t id;             /* of the fork */
    const char *const *env; /* "NAME=value" */
    const char *cwd;
    const char *const *path; /* NULL: none */
    GBytes *packages;        /* see IpbKernelOptions; or NULL */
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    bool rehearses;
} IpbStartMessage;

/* These build whole frames, which the caller frees; NULL with LIMIT if a frame is too large.
 * Strings that are not UTF-8 (environment, paths) are sent as Python's surrogateescape writes
 * them. */
char *ipb_message_build_start(const IpbStartMessage *start, size_t *ret_size, GError **error);
char *ipb_message_build_execute(uint64_t cell, const IpbKernelCode *code, size_t *ret_size,
                                GError **error);
/* @params: text of a JSON object. */
char *ipb_message_build_request(uint64_t id, const char *method, const char *params,
                                size_t *ret_size, GError **error);
/* @value: what was typed; NULL: @why there is no answer. */
char *ipb_message_build_input(uint64_t id, const char *value, const char *why, size_t *ret_size,
                              GError **error);
/* @has_pipes: two descriptors come with the frame; else the kernel keeps the pipes that it has. */
char *ipb_message_build_pipes(bool has_pipes, size_t *ret_size);
/* Three descriptors come with it: the wire of the branch, and its pipes for stdout and stderr.
 * @token: of the forerunner, for calls of tools, or NULL. @files: see IpbBranchOptions. */
char *ipb_message_build_branch(IpbBranchKind kind, uint64_t id, const char *token,
                               const char *files, size_t *ret_size);
char *ipb_message_build_shutdown(size_t *ret_size);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbMessage, ipb_message_clear)
