/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCall: an operation under way, from an `_async` function until its callback was called. What it gives becomes a GTask
 * only at its end, which GTask then tells from the context and never from within a call: so callbacks meet no half-done work.
 *
 * Ownership: reference-counted. The session keeps its calls until its core has told their end, however that came.
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
    bool is_told; /* its end was given to GTask; what comes after is dropped */

    GSource *cancel_source;
    void (*on_cancel)(IpbCall *call);

    void *owner;     /* the session or runtime */
    uint64_t number; /* that of the core, to cancel it */
    void *data;      /* of the kind of operation */
    GDestroyNotify free_data;
};

/* @tag: the _async function, which _finish asks for. */
IpbCall *ipb_call_new(GMainContext *context, void *tag, GAsyncReadyCallback callback,
                      gpointer user_data);
IpbCall *ipb_call_ref(IpbCall *call);
void ipb_call_unref(IpbCall *call);
/* Calls @on_cancel from the context, once, when @cancellable (may be NULL) is cancelled before the end. */
void ipb_call_watch(IpbCall *call, GCancellable *cancellable, void (*on_cancel)(IpbCall *call));

/* The end. Takes what is given. */
void ipb_call_return(IpbCall *call, gpointer value, GDestroyNotify free_value);
void ipb_call_return_error(IpbCall *call, GError *error);
/* Of a copy of @error. */
void ipb_call_return_copy(IpbCall *call, const GError *error);

/* For _finish: what was returned, the caller's; NULL with @error. */
gpointer ipb_call_finish(GAsyncResult *result, void *tag, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbCall, ipb_call_unref)
