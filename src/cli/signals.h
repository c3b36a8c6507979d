/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSignals: signals of the program as callbacks from the default main context. GLib's own sources for them need a thread, and GLib
 * ends the program with a core dump where there can be none (ulimit -u).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>

#define IPB_SIGNALS_MAX 4

typedef struct IpbSignals IpbSignals;

/* From now on the signals do nothing but call @func, also where they were ignored. To be called before there is another thread, since
 * they are blocked. */
IpbSignals *ipb_signals_new(const int *numbers, size_t n_numbers,
                            void (*func)(int number, void *data), void *data, GError **error);
/* They do again what they did before. */
void ipb_signals_free(IpbSignals *signals);
