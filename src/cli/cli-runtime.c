/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime of a verb's kernels; see the header.
 */
#include "cli/cli-runtime.h"

IpbRuntime *
ipb_cli_runtime_new(const IpbKernelArguments *arguments, GError **error)
{
    g_auto(GStrv) preload = ipb_options_split(arguments->preload);
    IpbRuntimeOptions options = {.python = arguments->python,
                                 .preload = (const char *const *) preload};
    return ipb_runtime_new(NULL, &options, error);
}
