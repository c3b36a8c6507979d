/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcParams: the parameters of a request, read one by one. The first that is not as it must be is remembered with what was
 * wanted; in the end one look tells whether all were right, and whether there were some that nobody asked for: a misspelt
 * name must not be a setting without effect. null stands for an absent parameter.
 *
 * Ownership: a plain struct, cleared by its owner; what it gives out is borrowed from the request unless a line says other.
 */
#pragma once

#include "json/json.h"

typedef struct {
    const IpbJson *object;
    GPtrArray *known; /* names asked for */
    GError *error;
} IpbRpcParams;

/* @object may be NULL: no parameters. INVALID if it is no object. */
void ipb_rpc_params_init(IpbRpcParams *params, const IpbJson *object);
void ipb_rpc_params_clear(IpbRpcParams *params);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbRpcParams, ipb_rpc_params_clear)

/* The value, or NULL if it is absent. */
const IpbJson *ipb_rpc_params_get(IpbRpcParams *params, const char *name);
/* Must be there. */
const char *ipb_rpc_params_need_string(IpbRpcParams *params, const char *name);
const IpbJson *ipb_rpc_params_need_object(IpbRpcParams *params, const char *name);
/* NULL if absent. */
const char *ipb_rpc_params_string(IpbRpcParams *params, const char *name);
const char *ipb_rpc_params_path(IpbRpcParams *params, const char *name); /* absolute, UTF-8 */
const IpbJson *ipb_rpc_params_object(IpbRpcParams *params, const char *name);
bool ipb_rpc_params_bool(IpbRpcParams *params, const char *name, bool fallback);
int64_t ipb_rpc_params_int(IpbRpcParams *params, const char *name, int64_t fallback, int64_t min,
                           int64_t max);
/* Seconds above 0, as milliseconds; absent: @fallback. */
int64_t ipb_rpc_params_ms(IpbRpcParams *params, const char *name, int64_t fallback);
/* An array of strings; NULL if absent. Caller frees. */
char **ipb_rpc_params_strings(IpbRpcParams *params, const char *name);
/* An object of strings as "NAME=value"; NULL if absent. What is not UTF-8 comes as in Python's os.environ, as the lone surrogates
 * U+DC80 … U+DCFF, and is bytes then. Caller frees. */
char **ipb_rpc_params_environment(IpbRpcParams *params, const char *name);
/* An object of strings as name, value, name, value, …; NULL if absent. Caller frees. */
char **ipb_rpc_params_pairs(IpbRpcParams *params, const char *name);
/* "ask", "allow" or "deny" and the like: the index in @words (NULL-terminated), or @fallback. */
int ipb_rpc_params_word(IpbRpcParams *params, const char *name, const char *const *words,
                        int fallback);
/* Remembers that @name must be @wanted, if nothing was wrong before. */
void ipb_rpc_params_refuse(IpbRpcParams *params, const char *name, const char *wanted);

/* After all were read: false with the first error. */
bool ipb_rpc_params_finish(IpbRpcParams *params, GError **error);
