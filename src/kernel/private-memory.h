/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a process shares with no other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The sum of Private_Clean and Private_Dirty in /proc/PID/smaps_rollup. It takes about a
 * millisecond for each 100 MB. False: there is no such process, or it must not be examined. */
bool ipb_private_memory(pid_t pid, uint64_t *ret_bytes);
