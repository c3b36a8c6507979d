/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbDone: what a caller wants called when something is done: once, with its data. Plain struct.
 */
#pragma once

typedef struct {
    void (*func)(void *data);
    void *data;
} IpbDone;
