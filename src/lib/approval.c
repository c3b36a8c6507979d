/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for approval; see <ipybox/approval.h>. A session knows its requests without keeping them: when it ends they lose it.
 */
#include <ipybox/approval.h>

#include <string.h>

#include "lib/block.h"
#include "lib/lib-private.h"
#include "tools/approval-question.h"

struct IpyboxApproval {
    unsigned references;
    IpyboxSession *session; /* NULL when nothing can wait any more */
    uint64_t id;
    char *server;
    char *tool;
    char *arguments;
    char *server_params; /* or NULL */
    char *question;      /* made when it is asked for */
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
    };
    approval->question = ipb_approval_question(&request, NULL);
    return approval->question;
}

static void
leave_session(IpyboxApproval *approval)
{
    if (approval->session != NULL)
        g_ptr_array_remove_fast(approval->session->approvals, approval);
    approval->session = NULL;
}

gboolean
ipybox_approval_respond(IpyboxApproval *approval, gboolean accept)
{
    g_return_val_if_fail(approval != NULL, FALSE);
    bool was_waiting = approval->session != NULL && approval->session->core != NULL &&
                       ipb_session_respond(approval->session->core, approval->id, accept);
    leave_session(approval);
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
    leave_session(approval);
    g_free(approval->server);
    g_free(approval->tool);
    g_free(approval->arguments);
    g_free(approval->server_params);
    g_free(approval->question);
    g_free(approval);
}

void
ipb_lib_on_approval(const IpbApprovalRequest *request, void *data)
{
    IpyboxSession *session = data;
    if (session->is_freed)
        return;
    g_autoptr(IpyboxApproval) approval = g_new(IpyboxApproval, 1);
    *approval = (IpyboxApproval){
        .references = 1,
        .session = session,
        .id = request->id,
        .server = g_strdup(request->server_name),
        .tool = g_strdup(request->tool_name),
        .arguments = g_strndup(request->arguments_json, request->arguments_size),
        .server_params = g_strdup(request->server_params),
    };
    g_ptr_array_add(session->approvals, approval);
    ipb_block_enter_callback();
    session->on_approval(session, approval, session->user_data);
    ipb_block_leave_callback();
}

static IpyboxApproval *
find(IpyboxSession *session, uint64_t id)
{
    for (guint i = 0; i < session->approvals->len; i++) {
        IpyboxApproval *approval = g_ptr_array_index(session->approvals, i);
        if (approval->id == id)
            return approval;
    }
    return NULL;
}

static void
tell_withdrawn(IpyboxSession *session, void *data)
{
    if (session->is_freed)
        return;
    ipb_block_enter_callback();
    session->on_withdrawn(session, data, session->user_data);
    ipb_block_leave_callback();
}

/* Comes from within calls, too. A request that the program did not keep is nothing it could take back. */
void
ipb_lib_on_withdrawn(uint64_t request, void *data)
{
    IpyboxSession *session = data;
    IpyboxApproval *approval = session->is_freed ? NULL : find(session, request);
    if (approval == NULL)
        return;
    leave_session(approval);
    ipb_lib_session_run_soon(session, tell_withdrawn, ipybox_approval_ref(approval),
                             (GDestroyNotify) ipybox_approval_unref);
}

void
ipb_lib_drop_approvals(IpyboxSession *session)
{
    for (guint i = 0; i < session->approvals->len; i++)
        ((IpyboxApproval *) g_ptr_array_index(session->approvals, i))->session = NULL;
    g_ptr_array_set_size(session->approvals, 0);
}
