/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for approval; see the header and <ipybox/approval.h>.
 */
#include "lib/approval.h"

#include <string.h>

#include "tools/approval-question.h"

struct IpyboxApproval {
    IpbWaiting waiting;
    unsigned references;
    char *server;
    char *tool;
    char *arguments;
    char *server_params; /* or NULL */
    IpbApprovalSubject subject;
    char *question; /* made by its getter */
};

const char *
ipybox_approval_get_server(const IpyboxApproval *approval)
{
    g_return_val_if_fail(approval != NULL, NULL);
    return approval->server;
}

const char *
ipybox_approval_get_server_params(const IpyboxApproval *approval)
{
    g_return_val_if_fail(approval != NULL, NULL);
    return approval->server_params;
}

const char *
ipybox_approval_get_tool(const IpyboxApproval *approval)
{
    g_return_val_if_fail(approval != NULL, NULL);
    return approval->tool;
}

const char *
ipybox_approval_get_arguments(const IpyboxApproval *approval)
{
    g_return_val_if_fail(approval != NULL, NULL);
    return approval->arguments;
}

const char *
ipybox_approval_get_question(IpyboxApproval *approval)
{
    g_return_val_if_fail(approval != NULL, NULL);
    if (approval->question != NULL)
        return approval->question;
    IpbApprovalRequest request = {
        .server_name = approval->server,
        .tool_name = approval->tool,
        .arguments_json = approval->arguments,
        .arguments_size = strlen(approval->arguments),
        .server_params = approval->server_params,
        .subject = approval->subject,
    };
    approval->question = ipb_approval_question(&request, NULL);
    return approval->question;
}

gboolean
ipybox_approval_respond(IpyboxApproval *approval, gboolean accept)
{
    g_return_val_if_fail(approval != NULL, FALSE);
    const IpbWaiting *waiting = &approval->waiting;
    bool was_waiting =
        waiting->core != NULL && ipb_session_respond(waiting->core, waiting->id, accept);
    ipb_waiting_detach(&approval->waiting);
    return was_waiting;
}

IpyboxApproval *
ipybox_approval_ref(IpyboxApproval *approval)
{
    g_return_val_if_fail(approval != NULL, NULL);
    approval->references++;
    return approval;
}

void
ipybox_approval_unref(IpyboxApproval *approval)
{
    if (approval == NULL || --approval->references > 0)
        return;
    ipb_waiting_detach(&approval->waiting);
    g_free(approval->server);
    g_free(approval->tool);
    g_free(approval->arguments);
    g_free(approval->server_params);
    g_free(approval->question);
    g_free(approval);
}

/* --- for the session ------------------------------------------------------------------------- */

IpyboxApproval *
ipb_lib_approval_new(const IpbApprovalRequest *request, IpbSession *core, GPtrArray *waiting)
{
    IpyboxApproval *approval = g_new(IpyboxApproval, 1);
    *approval = (IpyboxApproval){
        .references = 1,
        .server = g_strdup(request->server_name),
        .tool = g_strdup(request->tool_name),
        .arguments = g_strndup(request->arguments_json, request->arguments_size),
        .server_params = g_strdup(request->server_params),
        .subject = request->subject,
    };
    ipb_waiting_attach(&approval->waiting, core, waiting, request->id);
    return approval;
}
