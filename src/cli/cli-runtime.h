/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime of a verb's kernels, as its options want it.
 */
#pragma once

#include "cli/options.h"
#include "session/runtime.h"

/* NULL with an error. Caller unrefs. */
IpbRuntime *ipb_cli_runtime_new(const IpbKernelArguments *arguments, GError **error);
