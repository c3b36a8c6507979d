/* SPDX-License-Identifier: Apache-2.0
 *
 * The code that runs in a child between clone and exec. It is async-signal-safe: no GLib, no
 * malloc. The child shares the parent's memory, and writes only to the plan's report.
 */
#pragma once

#include "base/exec-plan.h"

/* For functions of the child: ASan does not know its stack, and would report it as broken. */
#define IPB_CHILD_SIDE __attribute__((no_sanitize("address")))

/* Executes the program, or reports the failure and exits with status 127. Never returns. */
IPB_CHILD_SIDE void ipb_exec_child_run(IpbExecPlan *plan) __attribute__((noreturn));
