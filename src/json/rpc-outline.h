/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcOutline: what kind of JSON-RPC message (request, answer or notification) a message is that
 * is too long to be kept, and its id. The message is read in pieces, and only the id is kept. Plain
 * struct, owned by value; initialized with zero.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define IPB_RPC_OUTLINE_MAX_ID 256

typedef struct {
    size_t depth; /* containers that are open; members of the message are at 1 */
    bool in_string, is_escaped;
    bool is_value; /* at depth 1: behind a colon */
    bool is_object, has_method, has_answer;
    char key[8]; /* the member's name, or what fits of it */
    size_t key_size;
    char id[IPB_RPC_OUTLINE_MAX_ID];
    size_t id_size; /* larger than @id: it is too long */
} IpbRpcOutline;

void ipb_rpc_outline_add(IpbRpcOutline *outline, const char *bytes, size_t size);
/* The id as JSON text; NULL if there is none that is a number or a string. Caller frees. */
char *ipb_rpc_outline_id(const IpbRpcOutline *outline);
