/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPrompt: asks the user at the terminal whether a tool call may run: yes, no, always. It uses
 * /dev/tty, so that the program keeps its standard input and output. Invariants:
 *
 * - There is one question at a time. ipybox writes nothing else to the terminal until it ends; the
 *   owner holds output back.
 * - A yes counts only after every row of the question was shown.
 * - What was typed before the question was shown is not read. A question after one that was
 *   withdrawn is shown only after the user presses Enter, so that an answer to the first is not
 *   taken for the second.
 */
#pragma once

#include <ipybox/approval.h>

typedef struct IpbPrompt IpbPrompt;

/* The terminal is taken for questions, or is free again. Called from ask, withdraw and the loop. It
 * may call neither ask nor withdraw. */
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
