/* SPDX-License-Identifier: Apache-2.0
 *
 * One sandbox and the kernel processes in it; see the header.
 *
 * A member's function may remove members, so no list is walked while one is called: the sandbox is
 * kept by `n_calls`, and members are looked up again.
 */
#include "kernel/walls.h"

#include "base/error.h"
#include "base/fd.h"
#include "kernel/orphans.h"

typedef struct {
    const IpbWallsFuncs *funcs;
    void *data;
    bool is_waiting; /* to enter */
    pid_t pid;       /* inside, once it is to be adopted; 0 before */
} Member;

struct IpbWalls {
    IpbSandbox *sandbox;
    IpbSandboxPlan *plan;
    IpbKernelSandboxFuncs sandboxing;
    void *reach; /* what code inside can reach; NULL before the sandbox is ready */
    GPtrArray *members;
    unsigned n_calls; /* of functions of members, that have not returned */
    bool is_ready;    /* and has not ended */
};

static void
free_reach(IpbWalls *walls)
{
    void *reach = g_steal_pointer(&walls->reach);
    if (reach != NULL)
        walls->sandboxing.free_reach(reach);
}

static void
free_walls(IpbWalls *walls)
{
    if (walls->sandboxing.walls != NULL && *walls->sandboxing.walls == walls)
        *walls->sandboxing.walls = NULL;
    ipb_sandbox_free(walls->sandbox);
    ipb_sandbox_plan_unref(walls->plan);
    free_reach(walls);
    g_ptr_array_unref(walls->members);
    g_free(walls);
}

static void
free_if_empty(IpbWalls *walls)
{
    if (walls->members->len == 0 && walls->n_calls == 0)
        free_walls(walls);
}

static Member *
find_member(const IpbWalls *walls, const void *data)
{
    for (guint i = 0; i < walls->members->len; i++) {
        Member *member = g_ptr_array_index(walls->members, i);
        if (member->data == data)
            return member;
    }
    return NULL;
}

static Member *
find_waiting(const IpbWalls *walls)
{
    for (guint i = 0; i < walls->members->len; i++) {
        Member *member = g_ptr_array_index(walls->members, i);
        if (member->is_waiting)
            return member;
    }
    return NULL;
}

static Member *
find_pid(const IpbWalls *walls, pid_t pid)
{
    for (guint i = 0; i < walls->members->len; i++) {
        Member *member = g_ptr_array_index(walls->members, i);
        if (member->pid == pid)
            return member;
    }
    return NULL;
}

/* --- callbacks of the sandbox ----------------------------------------------------------------- */

/* If it cannot be opened, the sandbox is about to end. */
static void
take_workspace(const IpbWalls *walls)
{
    IpbLayerUser user;
    if (walls->sandboxing.take_workspace == NULL)
        return;
    int workspace = ipb_sandbox_open_workspace(walls->sandbox, &user, NULL);
    if (workspace >= 0)
        walls->sandboxing.take_workspace(workspace, &user, walls->reach);
}

static void
on_ready(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data)
{
    IpbWalls *walls = data;
    walls->reach = walls->sandboxing.take_listeners(listeners, n_listeners, walls->sandboxing.data);
    take_workspace(walls);
    walls->is_ready = true;
    walls->n_calls++;
    for (Member *member; walls->is_ready && (member = find_waiting(walls)) != NULL;) {
        member->is_waiting = false;
        member->funcs->on_ready(member->data);
    }
    walls->n_calls--;
    free_if_empty(walls);
}

static void
report_end(IpbWalls *walls, const char *cause, bool is_waiting)
{
    g_autoptr(GPtrArray) reported = g_ptr_array_new();
    for (guint i = 0; i < walls->members->len; i++) {
        const Member *member = g_ptr_array_index(walls->members, i);
        if (member->is_waiting == is_waiting)
            g_ptr_array_add(reported, member->data);
    }
    for (guint i = 0; i < reported->len; i++) {
        const Member *member = find_member(walls, g_ptr_array_index(reported, i));
        if (member != NULL)
            member->funcs->on_end(cause, member->data);
    }
}

static void
on_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    IpbWalls *walls = data;
    g_autofree char *cause = g_strdup(error != NULL ? error->message : "its sandbox ended");
    walls->is_ready = false;
    /* No process enters it any more. */
    if (walls->sandboxing.walls != NULL)
        *walls->sandboxing.walls = NULL;
    walls->n_calls++;
    report_end(walls, cause, /* is_waiting= */ false);
    free_reach(walls);
    report_end(walls, cause, /* is_waiting= */ true); /* they may make another sandbox */
    walls->n_calls--;
    free_if_empty(walls);
}

static void
on_denied(IpbSandbox *sandbox, const IpbSandboxDenial *denial, void *data)
{
    IpbWalls *walls = data;
    if (walls->reach != NULL)
        walls->sandboxing.on_denied(denial, walls->reach);
}

static void
on_unnamed(IpbSandbox *sandbox, const char *why, void *data)
{
    IpbWalls *walls = data;
    if (walls->reach != NULL)
        walls->sandboxing.on_unnamed(why, walls->reach);
}

static void
on_adopted(IpbSandbox *sandbox, pid_t pid_inside, pid_t pid, int pidfd, const GError *error,
           void *data)
{
    IpbWalls *walls = data;
    const Member *member = find_pid(walls, pid_inside);
    if (member == NULL) { /* it has left */
        if (pidfd >= 0)
            ipb_pidfd_signal(pidfd, SIGKILL, NULL);
        ipb_fd_close(&pidfd);
        return;
    }
    walls->n_calls++;
    member->funcs->on_adopted(pid, pidfd, error, member->data);
    walls->n_calls--;
    free_if_empty(walls);
}

static void
on_reaped(IpbSandbox *sandbox, pid_t pid_inside, int wait_status, void *data)
{
    IpbWalls *walls = data;
    const Member *member = find_pid(walls, pid_inside);
    if (member == NULL)
        return;
    walls->n_calls++;
    member->funcs->on_reaped(wait_status, member->data);
    walls->n_calls--;
    free_if_empty(walls);
}

/* --- members ---------------------------------------------------------------------------------- */

static void
add_member(IpbWalls *walls, const IpbWallsFuncs *funcs, void *data, bool is_waiting)
{
    Member *member = g_new0(Member, 1);
    member->funcs = funcs;
    member->data = data;
    member->is_waiting = is_waiting;
    g_ptr_array_add(walls->members, member);
}

IpbWalls *
ipb_walls_new(IpbLoop *loop, const IpbSandboxPlan *plan, const IpbKernelSandboxFuncs *sandboxing,
              const IpbWallsFuncs *funcs, void *data, GError **error)
{
    IpbWalls *walls = g_new0(IpbWalls, 1);
    walls->sandboxing = *sandboxing;
    walls->plan = ipb_sandbox_plan_ref((IpbSandboxPlan *) plan);
    walls->members = g_ptr_array_new_with_free_func(g_free);
    IpbSandboxOptions options = {
        .plan = plan,
        .stdin_fd = -1,
        .stdout_fd = -1,
        .stderr_fd = -1,
        .on_ready = on_ready,
        .on_end = on_end,
        .on_denied = on_denied,
        .on_unnamed = on_unnamed,
        .on_adopted = on_adopted,
        .on_reaped = on_reaped,
        .data = walls,
    };
    walls->sandbox = ipb_sandbox_new(loop, &options, error);
    if (walls->sandbox == NULL) {
        free_walls(walls);
        return NULL;
    }
    add_member(walls, funcs, data, /* is_waiting= */ true);
    if (sandboxing->walls != NULL)
        *sandboxing->walls = walls;
    return walls;
}

bool
ipb_walls_enter(IpbWalls *walls, const IpbWallsFuncs *funcs, void *data)
{
    add_member(walls, funcs, data, /* is_waiting= */ !walls->is_ready);
    return walls->is_ready;
}

void
ipb_walls_join(IpbWalls *walls, const IpbWallsFuncs *funcs, void *data)
{
    add_member(walls, funcs, data, /* is_waiting= */ false);
}

void
ipb_walls_reach(IpbWalls *walls, void *owner)
{
    if (walls->reach != NULL)
        walls->sandboxing.join(walls->reach, owner);
}

bool
ipb_walls_adopt(IpbWalls *walls, void *data, pid_t pid, GError **error)
{
    Member *member = find_member(walls, data);
    if (find_pid(walls, pid) != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "the kernel named a branch that is another kernel");
        return false;
    }
    member->pid = pid;
    return ipb_sandbox_adopt(walls->sandbox, pid, error);
}

bool
ipb_walls_end(IpbWalls *walls)
{
    if (walls->members->len > 1 || !ipb_sandbox_kill(walls->sandbox))
        return false;
    walls->is_ready = false; /* what is to enter waits for the end, and makes another one */
    return true;
}

void
ipb_walls_leave(IpbWalls *walls, void *data, int64_t id)
{
    g_ptr_array_remove(walls->members, find_member(walls, data));
    if (walls->members->len > 0 && id != 0)
        ipb_orphans_kill(&id, 1);
    free_if_empty(walls);
}

const IpbSandboxPlan *
ipb_walls_plan(const IpbWalls *walls)
{
    return walls->plan;
}

IpbSandbox *
ipb_walls_sandbox(const IpbWalls *walls)
{
    return walls->sandbox;
}
