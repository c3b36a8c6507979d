/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcOutline: what a JSON-RPC message is that is too long to be kept: request, answer or notification, and its id. It is read in
 * pieces, and nothing of it stays but the id. Plain struct, owned by value; zero is its beginning.
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
