/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSignals: signals of the program as callbacks from the default main context. GLib's own sources
 * for signals need a thread, and if none can be started (ulimit -u), GLib ends the program with a
 * core dump.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#define IPB_SIGNALS_MAX 4

typedef struct IpbSignals IpbSignals;

/* From now on the signals call @func and do nothing else, even if they were ignored before. Call
 * this before another thread exists, because it blocks the signals. */
IpbSignals *ipb_signals_new(const int *numbers, size_t n_numbers,
                            void (*func)(int number, void *data), void *data, GError **error);
/* Restores the former actions of the signals. */
void ipb_signals_free(IpbSignals *signals);
