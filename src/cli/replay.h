/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox record --replay`: runs the cells of a recorded session again, in a session of its own,
 * and reports what differed.
 */
#pragma once

#include "cli/cli.h"
#include "cli/run-options.h"
#include "notebook/recording.h"

typedef struct {
    IpbRunArguments run;
    const char *session; /* the text of its number, from 1; NULL: the only one */
    bool is_json;
} IpbReplayArguments;

/* Returns the exit status: OK if nothing differed, FAILED if something did, USAGE if the cells
 * could not be run or the report could not be written. INVALID if there is no such session. */
int ipb_replay(const IpbVerb *verb, const IpbReplayArguments *arguments,
               const IpbRecording *recording, GError **error);
