/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcParams: the parameters of a request, read one by one. The first wrong parameter becomes the
 * error that ipb_rpc_params_finish returns. That also finds parameters that were never read, so a
 * misspelt name is an error and not a setting without effect. null is the same as absent.
 *
 * Ownership: a plain struct, which its owner clears. Values are borrowed from the request, unless
 * their function says something else.
 */
#pragma once

#include "json/json.h"

typedef struct {
    const IpbJson *object;
    GPtrArray *known; /* names that were read */
    GError *error;
} IpbRpcParams;

/* @object may be NULL: no parameters. INVALID if it is not an object. */
void ipb_rpc_params_init(IpbRpcParams *params, const IpbJson *object);
void ipb_rpc_params_clear(IpbRpcParams *params);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbRpcParams, ipb_rpc_params_clear)

/* The value, or NULL if it is absent. */
const IpbJson *ipb_rpc_params_get(IpbRpcParams *params, const char *name);
/* These must be given; NULL with an error. */
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
/* An array of strings; NULL if absent. The caller frees it. */
char **ipb_rpc_params_strings(IpbRpcParams *params, const char *name);
/* As ipb_rpc_params_strings(), with bytes that are not UTF-8 as ipb_rpc_params_environment() has
 * them. */
char **ipb_rpc_params_arguments(IpbRpcParams *params, const char *name);
/* The id of a request, which must be given, as JSON text; NULL with an error. The caller frees
 * it. */
char *ipb_rpc_params_need_id(IpbRpcParams *params, const char *name);
/* The bytes of a string in base64; NULL if absent. The caller frees it. */
GBytes *ipb_rpc_params_bytes(IpbRpcParams *params, const char *name);
/* An object of strings as "NAME=value"; NULL if absent. Bytes that are not UTF-8 are given as the
 * lone surrogates U+DC80 to U+DCFF, as in Python's os.environ. The caller frees it. */
char **ipb_rpc_params_environment(IpbRpcParams *params, const char *name);
/* An object of strings as name, value, name, value, …; NULL if absent. The caller frees it. */
char **ipb_rpc_params_pairs(IpbRpcParams *params, const char *name);
/* One of some words, such as "ask": its index in @words (NULL-terminated), or @fallback. */
int ipb_rpc_params_word(IpbRpcParams *params, const char *name, const char *const *words,
                        int fallback);
/* Sets the error "@name must be @wanted", unless there is an error already. */
void ipb_rpc_params_refuse(IpbRpcParams *params, const char *name, const char *wanted);

/* Call this after all were read: false with the first error. */
bool ipb_rpc_params_finish(IpbRpcParams *params, GError **error);
