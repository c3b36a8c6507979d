/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPrompt: asks the person at the terminal whether a tool call may run: yes, no, always. Uses /dev/tty, so that standard input and output
 * stay the program's. What always holds:
 *
 * - One question at a time, and nothing of ours is written between it and its end; the owner holds its output back meanwhile.
 * - A yes counts only after every row of the question was shown.
 * - What was typed before the question was shown is not read. A question that comes after one that was withdrawn
 *   is shown only after the person pressed Enter, so that an answer to the one is not taken for the other.
 */
#pragma once

#include <ipybox/approval.h>

typedef struct IpbPrompt IpbPrompt;

/* The terminal is taken for questions, or is free again. Comes from within ask and withdraw, and from the loop; may call neither. */
typedef void (*IpbPromptBusyFunc)(gboolean is_busy, gpointer data);

/* NULL if there is no terminal: then nobody can be asked. Answers come in the default context. */
IpbPrompt *ipb_prompt_new(IpbPromptBusyFunc on_busy, gpointer data);
/* Asks, and responds to it, at once if the same tool was allowed "always". */
void ipb_prompt_ask(IpbPrompt *prompt, IpyboxApproval *approval);
/* Its answer is not waited for any more. */
void ipb_prompt_withdraw(IpbPrompt *prompt, const IpyboxApproval *approval);
/* No answer to any question is waited for any more. */
void ipb_prompt_withdraw_all(IpbPrompt *prompt);
void ipb_prompt_free(IpbPrompt *prompt);
