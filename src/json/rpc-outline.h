/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcOutline: the kind of a JSON-RPC message (request, response or notification) that is too
 * long to be kept, and its id. The message is read in pieces, and only the id is kept. Plain
 * struct, owned by value; initialized with zero.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define IPB_RPC_OUTLINE_MAX_ID 256

typedef struct {
    /* Number of open containers; members of the message are at 1 */
    size_t depth;
    bool in_string, is_escaped;
    /* At depth 1: after a colon */
    bool is_value;
    bool is_object, has_method, has_answer;
    /* The beginning of the member's name */
    char key[8];
    size_t key_size;
    char id[IPB_RPC_OUTLINE_MAX_ID];
    /* If it is larger than @id, the id is too long. */
    size_t id_size;
} IpbRpcOutline;

void ipb_rpc_outline_add(IpbRpcOutline *outline, const char *bytes, size_t size);
/* The id as JSON text; NULL if there is no id that is a number or a string. Caller frees. */
char *ipb_rpc_outline_id(const IpbRpcOutline *outline);
