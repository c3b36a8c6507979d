/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPrompt: asks the user at the terminal whether a tool call may run: yes, no, always; and for
 * the input of cells. It uses /dev/tty, so standard input and output stay free for the program.
 * Invariants:
 *
 * - There is one question at a time. While it is on the terminal, ipybox writes nothing else there;
 *   the owner holds output back.
 * - A yes counts only after every row of the question was shown.
 * - What was typed before a question about a call was shown is not read. After a question was
 *   withdrawn, the next one is shown only when the user presses Enter, so that an answer to the
 *   first is not taken for the second. Input of a cell may be typed ahead.
 */
#pragma once

#include <ipybox/session.h>

typedef struct IpbPrompt IpbPrompt;

/* Called when a question appears on the terminal (@is_busy) or disappears, from ask, withdraw and
 * the loop. It may call neither ask nor withdraw. */
typedef void (*IpbPromptBusyFunc)(gboolean is_busy, gpointer data);

/* Returns NULL if there is no terminal. Answers arrive in the default main context. */
IpbPrompt *ipb_prompt_new(IpbPromptBusyFunc on_busy, gpointer data);
/* Asks the user, and responds to the approval. If the same tool was allowed with "always", it
 * responds at once. */
void ipb_prompt_ask(IpbPrompt *prompt, IpyboxApproval *approval);
/* Asks the user for a line of text, and answers the input of the session's cell. @event:
 * INPUT_REQUEST. What is typed for a password is not shown. The end of input is a refusal. */
void ipb_prompt_ask_input(IpbPrompt *prompt, IpyboxSession *session, const IpyboxEvent *event);
/* The caller does not need the input any more. */
void ipb_prompt_withdraw_input(IpbPrompt *prompt, guint64 input);
/* The caller does not need the answer any more. */
void ipb_prompt_withdraw(IpbPrompt *prompt, const IpyboxApproval *approval);
/* The caller needs no answer any more. */
void ipb_prompt_withdraw_all(IpbPrompt *prompt);
void ipb_prompt_free(IpbPrompt *prompt);
