/* SPDX-License-Identifier: Apache-2.0
 *
 * The message channel of standard input and output: one message on each line.
 */
#pragma once

#include "serve/message-channel.h"

/* Moves fd 0 and 1 to private numbers, so that nothing else can read or write the protocol's bytes:
 * /dev/null replaces fd 0, and stderr replaces fd 1. */
bool ipb_stdio_channel_take_over(int *ret_in, int *ret_out, GError **error);

/* Takes @in and @out, even on failure. */
IpbMessageChannel *ipb_stdio_channel_new(IpbLoop *loop, int in, int out, GError **error);
