/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of the gateway; see the header.
 */
#include "serve/gateway/sessions.h"

#include <stdarg.h>
#include <string.h>

#include "base/error.h"

/* Several sessions may have one kernel, so the number of kernels does not limit them. */
#define MAX_SESSIONS 1000
/* Bytes of the texts that a client gives. A path may be as long as Linux's. */
#define MAX_PATH 4096
#define MAX_NAME 1024
#define MAX_TYPE 256
#define MAX_KERNEL_TEXT 256
#define NOTEBOOK "notebook"

struct IpbGatewaySession {
    char *id;
    char *path;
    char *name; /* or NULL */
    char *type;
    IpbGatewayKernel *kernel; /* borrowed */
};

struct IpbGatewaySessions {
    GPtrArray *sessions; /* IpbGatewaySession, the oldest first */
};

/* --- what clients say ------------------------------------------------------------------------- */

static bool invalid(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

static bool
invalid(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, text);
    return false;
}

/* Leaves *@text as it is if the object has no such member, or null. */
static bool
read_text(const IpbJson *object, const char *name, size_t max_size, const char **text,
          GError **error)
{
    const IpbJson *value = ipb_json_get(object, name);
    if (value == NULL || ipb_json_is(value, IPB_JSON_NULL))
        return true;
    const char *found = ipb_json_get_string(object, name);
    if (found == NULL)
        return invalid(error, "%s must be a string without NUL characters", name);
    if (strlen(found) > max_size)
        return invalid(error, "%s has %zu bytes, and may have %zu", name, strlen(found), max_size);
    *text = found;
    return true;
}

/* *ret_object is NULL if there is no such member, or null. */
static bool
read_object(const IpbJson *root, const char *name, const IpbJson **ret_object, GError **error)
{
    const IpbJson *value = ipb_json_get(root, name);
    *ret_object = NULL;
    if (value == NULL || ipb_json_is(value, IPB_JSON_NULL))
        return true;
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return invalid(error, "%s must be an object", name);
    *ret_object = value;
    return true;
}

/* Older clients give the path of a notebook as its name or path in "notebook". */
static bool
read_notebook(const IpbJson *root, IpbGatewaySessionFields *fields, GError **error)
{
    const IpbJson *notebook;
    if (!read_object(root, NOTEBOOK, &notebook, error))
        return false;
    if (notebook == NULL)
        return true;
    const char *path = NULL;
    if (!read_text(notebook, "path", MAX_PATH, &path, error) ||
        (path == NULL && !read_text(notebook, "name", MAX_PATH, &path, error)))
        return false;
    if (path != NULL)
        fields->path = path;
    fields->type = NOTEBOOK;
    return true;
}

bool
ipb_gateway_session_fields_parse(IpbSpan body, IpbJsonDoc **ret_doc,
                                 IpbGatewaySessionFields *ret_fields, GError **error)
{
    IpbGatewaySessionFields fields = {0};
    const IpbJson *kernel;
    if (body.size == 0)
        return invalid(error, "the request has no body; it must be a JSON object");
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(body.start, body.size, &IPB_JSON_LIMITS_SMALL, error);
    if (doc == NULL) {
        (*error)->code = IPYBOX_ERROR_INVALID;
        return false;
    }
    const IpbJson *root = ipb_json_root(doc);
    if (!ipb_json_is(root, IPB_JSON_OBJECT))
        return invalid(error, "the body is not a JSON object");
    if (!read_text(root, "path", MAX_PATH, &fields.path, error) ||
        !read_text(root, "name", MAX_NAME, &fields.name, error) ||
        !read_text(root, "type", MAX_TYPE, &fields.type, error) ||
        !read_notebook(root, &fields, error) || !read_object(root, "kernel", &kernel, error) ||
        !read_text(kernel, "id", MAX_KERNEL_TEXT, &fields.kernel_id, error) ||
        !read_text(kernel, "name", MAX_KERNEL_TEXT, &fields.kernel_name, error))
        return false;
    *ret_doc = g_steal_pointer(&doc);
    *ret_fields = fields;
    return true;
}

/* --- a session -------------------------------------------------------------------------------- */

static void
free_session(IpbGatewaySession *session)
{
    g_free(session->id);
    g_free(session->path);
    g_free(session->name);
    g_free(session->type);
    g_free(session);
}

const char *
ipb_gateway_session_id(const IpbGatewaySession *session)
{
    return session->id;
}

IpbGatewayKernel *
ipb_gateway_session_kernel(const IpbGatewaySession *session)
{
    return session->kernel;
}

void
ipb_gateway_session_set_kernel(IpbGatewaySession *session, IpbGatewayKernel *kernel)
{
    session->kernel = kernel;
}

static void
replace(char **text, const char *with)
{
    if (with == NULL)
        return;
    g_free(*text);
    *text = g_strdup(with);
}

void
ipb_gateway_session_update(IpbGatewaySession *session, const IpbGatewaySessionFields *fields)
{
    replace(&session->path, fields->path);
    replace(&session->name, fields->name);
    replace(&session->type, fields->type);
}

void
ipb_gateway_session_describe(const IpbGatewaySession *session, IpbJsonWriter *writer)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "id", session->id);
    ipb_json_member_string(writer, "path", session->path);
    ipb_json_member_string(writer, "name", session->name);
    ipb_json_member_string(writer, "type", session->type);
    ipb_json_key(writer, "kernel");
    ipb_gateway_kernel_describe(session->kernel, writer);
    if (strcmp(session->type, NOTEBOOK) == 0) {
        ipb_json_key(writer, NOTEBOOK);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "path", session->path);
        ipb_json_member_string(writer, "name", session->name);
        ipb_json_end_object(writer);
    }
    ipb_json_end_object(writer);
}

/* --- all sessions ----------------------------------------------------------------------------- */

IpbGatewaySessions *
ipb_gateway_sessions_new(void)
{
    IpbGatewaySessions *sessions = g_new0(IpbGatewaySessions, 1);
    sessions->sessions = g_ptr_array_new_with_free_func((GDestroyNotify) free_session);
    return sessions;
}

void
ipb_gateway_sessions_free(IpbGatewaySessions *sessions)
{
    if (sessions == NULL)
        return;
    g_ptr_array_unref(sessions->sessions);
    g_free(sessions);
}

bool
ipb_gateway_sessions_check_room(const IpbGatewaySessions *sessions, GError **error)
{
    if (sessions->sessions->len < MAX_SESSIONS)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "Resource Limit: there are %d sessions, and there may be no more; delete some",
                MAX_SESSIONS);
    return false;
}

IpbGatewaySession *
ipb_gateway_sessions_add(IpbGatewaySessions *sessions, const IpbGatewaySessionFields *fields,
                         IpbGatewayKernel *kernel)
{
    IpbGatewaySession *session = g_new0(IpbGatewaySession, 1);
    session->id = g_uuid_string_random();
    session->kernel = kernel;
    ipb_gateway_session_update(session, fields);
    g_ptr_array_add(sessions->sessions, session);
    return session;
}

IpbGatewaySession *
ipb_gateway_sessions_find(const IpbGatewaySessions *sessions, const char *id)
{
    for (guint i = 0; i < sessions->sessions->len; i++) {
        IpbGatewaySession *session = g_ptr_array_index(sessions->sessions, i);
        if (strcmp(session->id, id) == 0)
            return session;
    }
    return NULL;
}

IpbGatewaySession *
ipb_gateway_sessions_find_path(const IpbGatewaySessions *sessions, const char *path)
{
    for (guint i = 0; i < sessions->sessions->len; i++) {
        IpbGatewaySession *session = g_ptr_array_index(sessions->sessions, i);
        if (strcmp(session->path, path) == 0)
            return session;
    }
    return NULL;
}

void
ipb_gateway_sessions_forget_kernel(IpbGatewaySessions *sessions, const IpbGatewayKernel *kernel)
{
    for (guint i = sessions->sessions->len; i-- > 0;) {
        const IpbGatewaySession *session = g_ptr_array_index(sessions->sessions, i);
        if (session->kernel == kernel)
            g_ptr_array_remove_index(sessions->sessions, i);
    }
}

void
ipb_gateway_sessions_describe(const IpbGatewaySessions *sessions, IpbJsonWriter *writer)
{
    ipb_json_begin_array(writer);
    for (guint i = 0; i < sessions->sessions->len; i++)
        ipb_gateway_session_describe(g_ptr_array_index(sessions->sessions, i), writer);
    ipb_json_end_array(writer);
}
