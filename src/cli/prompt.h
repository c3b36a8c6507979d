/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPrompt: asks the person at the terminal whether a tool call may run: yes, no, always. Requests are asked one after the
 * other. Uses /dev/tty, so that standard input and output stay the program's.
 */
#pragma once

#include "tools/approval.h"

typedef struct IpbPrompt IpbPrompt;

typedef void (*IpbPromptAnswerFunc)(uint64_t request, bool accept, void *data);

/* NULL if there is no terminal: then nobody can be asked. */
IpbPrompt *ipb_prompt_new(IpbLoop *loop, IpbPromptAnswerFunc on_answer, void *data);
/* Asks, unless the same tool was allowed "always"; everything shown is copied. */
void ipb_prompt_ask(IpbPrompt *prompt, const IpbApprovalRequest *request);
void ipb_prompt_free(IpbPrompt *prompt);
