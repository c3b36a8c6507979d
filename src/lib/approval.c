/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for approval; see the header and <ipybox/approval.h>.
 */
#include "lib/approval.h"

#include <string.h>

#include "tools/approval-question.h"

struct IpyboxApproval {
    unsigned references;
    IpbSession *core;   /* NULL: it does not wait any more */
    GPtrArray *waiting; /* the session's; valid while core is */
    uint64_t id;
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

static void
detach(IpyboxApproval *approval)
{
    if (approval->core != NULL)
        g_ptr_array_remove_fast(approval->waiting, approval);
    approval->core = NULL;
}

gboolean
ipybox_approval_respond(IpyboxApproval *approval, gboolean accept)
{
    g_return_val_if_fail(approval != NULL, FALSE);
    bool was_waiting =
        approval->core != NULL && ipb_session_respond(approval->core, approval->id, accept);
    detach(approval);
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
    detach(approval);
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
        .core = core,
        .waiting = waiting,
        .id = request->id,
        .server = g_strdup(request->server_name),
        .tool = g_strdup(request->tool_name),
        .arguments = g_strndup(request->arguments_json, request->arguments_size),
        .server_params = g_strdup(request->server_params),
        .subject = request->subject,
    };
    g_ptr_array_add(waiting, approval);
    return approval;
}

IpyboxApproval *
ipb_lib_approval_detach(GPtrArray *waiting, uint64_t id)
{
    for (guint i = 0; i < waiting->len; i++) {
        IpyboxApproval *approval = g_ptr_array_index(waiting, i);
        if (approval->id != id)
            continue;
        detach(approval);
        return approval;
    }
    return NULL;
}

void
ipb_lib_approval_detach_all(GPtrArray *waiting)
{
    while (waiting->len > 0)
        detach(g_ptr_array_index(waiting, 0));
}
