/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSessionPool: sessions whose kernels are ready before a client needs one. A session has the
 * workspace, the sandbox and the environment of its owner, so each waits for one owner only. The
 * pool has `size` of them: one for each of the last `size` sessions that began, of the same owner.
 * At the start, owners are served in their order.
 *
 * The pool is filled in the background, one session after the other. Each session is given away
 * once, or closed. It is closed and replaced if a file changed that a new session would read, after
 * 10 minutes, and if its kernel ended. Then there are pauses, which become longer.
 *
 * Ownership: the owner of the pool frees it, after ipb_session_pool_close() if it wants an orderly
 * end. All functions are called from the loop's thread.
 */
#pragma once

#include "session/session.h"

typedef struct IpbSessionPool IpbSessionPool;

typedef struct {
    IpbRuntime *runtime;
    unsigned size;
    size_t n_owners;
    /* Of new sessions of an owner; borrowed. Functions and data are ignored. */
    const IpbSessionOptions *(*get_options)(size_t owner, void *data);
    /* May one more session wait for the owner? @n_of_owner wait for it already, @n_all for all. */
    bool (*may_add)(size_t owner, unsigned n_of_owner, unsigned n_all, void *data);
    /* Why a session could not be made ready. May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbSessionPoolOptions;

/* It stays empty until ipb_session_pool_start(). */
IpbSessionPool *ipb_session_pool_new(const IpbSessionPoolOptions *options);
/* Begins to fill it, from the loop. @pool may be NULL. */
void ipb_session_pool_start(IpbSessionPool *pool);
/* A session of @owner that waits, or NULL. From now on it belongs to the caller, and has the
 * functions and data of @options, whose other members are not read. Its kernel is ready, or will be
 * soon. @pool may be NULL. */
IpbSession *ipb_session_pool_take(IpbSessionPool *pool, size_t owner,
                                  const IpbSessionOptions *options);
/* The answers of may_add have changed. @pool may be NULL. */
void ipb_session_pool_update(IpbSessionPool *pool);
/* Closes all. @done from the loop. Once. */
void ipb_session_pool_close(IpbSessionPool *pool, void (*done)(void *data), void *data);
/* Not in a callback of it. */
void ipb_session_pool_free(IpbSessionPool *pool);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSessionPool, ipb_session_pool_free)
