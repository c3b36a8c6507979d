/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPrompt: asks the person at the terminal whether a tool call may run: yes, no, always. Requests are asked one after the
 * other. Uses /dev/tty, so that standard input and output stay the program's.
 */
#pragma once

#include <ipybox/approval.h>

typedef struct IpbPrompt IpbPrompt;

/* NULL if there is no terminal: then nobody can be asked. Answers come in the default context. */
IpbPrompt *ipb_prompt_new(void);
/* Asks, and responds to it, at once if the same tool was allowed "always". */
void ipb_prompt_ask(IpbPrompt *prompt, IpyboxApproval *approval);
/* Its answer is not waited for any more. */
void ipb_prompt_withdraw(IpbPrompt *prompt, const IpyboxApproval *approval);
void ipb_prompt_free(IpbPrompt *prompt);
