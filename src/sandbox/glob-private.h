/* SPDX-License-Identifier: Apache-2.0
 *
 * What the automaton of a glob offers to the walk: sets of states, one byte a state.
 */
#pragma once

#include "sandbox/glob.h"

size_t ipb_glob_n_states(const IpbGlob *glob);
void ipb_glob_start(const IpbGlob *glob, unsigned char *states);
/* The states after @text; false if none is left. @ret_states may be @states. */
bool ipb_glob_feed(const IpbGlob *glob, const unsigned char *states, const char *text,
                   unsigned char *ret_states);
bool ipb_glob_accepts(const IpbGlob *glob, const unsigned char *states);
