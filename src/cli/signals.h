/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSignals: signals of the program as callbacks from the default main context. GLib's own sources
 * for signals need a thread. If none can be started (ulimit -u), GLib ends the program with a core
 * dump.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#define IPB_SIGNALS_MAX 4

typedef struct IpbSignals IpbSignals;

/* The signals call @func from now on, also if they were ignored before, and do nothing else. Call
 * this before another thread exists, because the signals are blocked. */
IpbSignals *ipb_signals_new(const int *numbers, size_t n_numbers,
                            void (*func)(int number, void *data), void *data, GError **error);
/* Restores what the signals did before. */
void ipb_signals_free(IpbSignals *signals);
