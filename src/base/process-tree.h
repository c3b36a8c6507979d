/* SPDX-License-Identifier: Apache-2.0
 *
 * A process and what it started, looked at from outside by /proc.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

/* Does the process @root, which @pidfd refers to, or one that descends from it, hold a socket with this @inode? Never true for
 * a process that is not in the tree when it is looked at, also where process ids are used again meanwhile. False also if @root
 * has ended, where /proc does not tell, and for what lies beyond the bounds: 512 processes, 32 generations, 16,384 open files. A
 * process whose parent has ended is in the tree no more. */
bool ipb_process_tree_has_socket(pid_t root, int pidfd, uint64_t inode);
