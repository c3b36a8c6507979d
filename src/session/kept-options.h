/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbKeptOptions: a copy of the options of a session, for the sessions that are forked from it.
 * Relative paths are made absolute, because the program may change its directory.
 *
 * Ownership: the owner frees it. The provider in the options is borrowed.
 */
#pragma once

#include "session/session.h"

typedef struct IpbKeptOptions IpbKeptOptions;

IpbKeptOptions *ipb_kept_options_new(const IpbSessionOptions *options);
/* Borrowed. The callbacks and their data are NULL. */
const IpbSessionOptions *ipb_kept_options_get(const IpbKeptOptions *kept);
void ipb_kept_options_free(IpbKeptOptions *kept);
