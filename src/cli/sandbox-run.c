/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command in a sandbox; see the header.
 */
#include "cli/sandbox-run.h"

#include "cli/cli.h"

int
ipb_sandbox_run(const IpbSandboxRun *run)
{
    return ipb_cli_fail(&ipb_verb_sandbox, IPB_EXIT_UNAVAILABLE,
                        "running a command is not there yet; --explain is");
}
