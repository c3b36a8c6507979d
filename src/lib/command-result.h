/* SPDX-License-Identifier: Apache-2.0
 *
 * Public results of commands as their session makes them; see <ipybox/command.h>.
 */
#pragma once

#include <ipybox/command.h>

#include "kernel/kernel.h"

/* Copies @result. */
IpyboxCommandResult *ipb_lib_command_result_new(const IpbCommandResult *result);
