/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCall: an operation under way, from an `_async` function until its callback was called. A GTask
 * is created only at its end. It calls the callback from the context and never from within a call,
 * so callbacks never see an object in the middle of a change.
 *
 * Ownership: reference-counted. A session keeps its calls until its core has ended them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <gio/gio.h>

typedef struct IpbCall IpbCall;

struct IpbCall {
    unsigned references;
    GMainContext *context;
    void *tag; /* the _async function */
    GAsyncReadyCallback callback;
    gpointer user_data;
    bool has_ended; /* a GTask has its result; later results are dropped */

    GSource *cancel_source;
    void (*on_cancel)(IpbCall *call);

    void *owner;     /* the session or runtime */
    uint64_t number; /* that of the core, to cancel it */
    void *data;      /* depends on the operation */
    GDestroyNotify free_data;
};

/* @tag: the _async function, by which _finish checks that the result is its own. */
IpbCall *ipb_call_new(GMainContext *context, void *tag, GAsyncReadyCallback callback,
                      gpointer user_data);
IpbCall *ipb_call_ref(IpbCall *call);
void ipb_call_unref(IpbCall *call);
/* Calls @on_cancel from the context, once, when @cancellable (may be NULL) is cancelled before the
 * end. */
void ipb_call_watch(IpbCall *call, GCancellable *cancellable, void (*on_cancel)(IpbCall *call));

/* These end the call. They take the value or error. */
void ipb_call_return(IpbCall *call, gpointer value, GDestroyNotify free_value);
void ipb_call_return_error(IpbCall *call, GError *error);
/* Copies @error. */
void ipb_call_return_copy(IpbCall *call, const GError *error);

/* For _finish: the value, which the caller owns; NULL with @error. */
gpointer ipb_call_finish(GAsyncResult *result, void *tag, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbCall, ipb_call_unref)
