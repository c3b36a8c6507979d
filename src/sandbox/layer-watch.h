/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLayerWatch: what changed in a layer from one look to the next, for reports about single cells.
 * A look goes through what the layer has, not through the workspace, so it costs about 2 µs for
 * each file that the session has changed so far, and reads no more than a few MiB. What exceeds a
 * maximum is said in `cut`.
 *
 * It is information, not what a commit relies on: that compares contents, and asks the rules.
 *
 * Ownership: the owner frees it. It may be used while another thread works on the layer, but not in
 * two threads at the same time.
 */
#pragma once

#include "sandbox/layer.h"

typedef struct IpbLayerWatch IpbLayerWatch;

/* With more files and directories in the layer, no changes are listed. */
#define IPB_LAYER_WATCH_MAX_ENTRIES 4000
/* How many changes a look lists at most. */
#define IPB_LAYER_WATCH_MAX_CHANGES 100

/* If the layer has files already, call ipb_layer_watch_skip() first. */
IpbLayerWatch *ipb_layer_watch_new(const IpbLayer *layer);
/* The changes since the last look, or _skip(), by path. Of each, only path, kind and type are set.
 * What was in a directory that was removed is not listed; one that was replaced by a new one is
 * changed. Caller frees. */
IpbLayerChanges *ipb_layer_watch_look(IpbLayerWatch *watch);
/* Something else has changed the layer: what was changed until now is not reported. */
void ipb_layer_watch_skip(IpbLayerWatch *watch);
void ipb_layer_watch_free(IpbLayerWatch *watch);
