/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a process has waited for a CPU: on a machine that is too busy, that time is not its own.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Of its main thread, since it exists; 0 where the system does not tell. */
uint64_t ipb_cpu_wait_us(pid_t pid);
