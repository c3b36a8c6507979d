/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of the workspace as resources; see the header. Each page of a list walks the directories
 * again, in the order of the names, because cells change them all the time. The walk
 * visits a bounded number of entries.
 */
#include "serve/mcp/resources.h"

#include <string.h>
#include <sys/stat.h>

#include "base/beneath.h"
#include "base/error.h"
#include "json/writer.h"
#include "serve/content-type.h"

#define SCHEME "workspace:///"
#define PAGE_SIZE 200
/* Of a walk: resources, entries that are looked at, entries of a directory, depth. */
#define MAX_LISTED 5000
#define MAX_VISITED 20000
#define MAX_ENTRIES 10000
#define MAX_DEPTH 16
/* Bytes of a file that is read, and of a URI. */
#define MAX_FILE (4 << 20)
#define MAX_URI 8192
#define RESOURCE_NOT_FOUND (-32002) /* in revisions with a handshake */

struct IpbMcpResources {
    IpbSession *session;
    /* What code may read; NULL: not made yet */
    IpbSandboxPlan *plan;
};

/* --- what may be read ------------------------------------------------------------------------- */

static bool
prepare(IpbMcpResources *resources, GError **error)
{
    if (resources->plan == NULL)
        resources->plan = ipb_session_make_reading_plan(resources->session, error);
    return resources->plan != NULL;
}

static bool
has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    g_autofree char *directory = g_strndup(path, directory_size);
    g_autofree char *entry = g_build_filename(directory, name, NULL);
    struct stat status;
    return lstat(entry, &status) == 0;
}

/* Whether the rules protect what has this name in any way. */
static bool
is_protected(const IpbSandboxPlan *plan, const char *path, IpbNameKind kind)
{
    static const IpbNameAction ACTIONS[] = {IPB_NAME_READ, IPB_NAME_WRITE, IPB_NAME_CREATE};
    for (size_t i = 0; i < G_N_ELEMENTS(ACTIONS); i++) {
        const IpbNameQuestion question = {
            .action = ACTIONS[i],
            .kind = kind,
            .path = path,
            .root_size = strlen(plan->workspace),
            .has_entry = has_entry,
        };
        if (ipb_name_rules_judge(plan->names, &question).verdict != IPB_NAME_ALLOWED)
            return true;
    }
    return false;
}

static bool
is_left_out(const char *name)
{
    return name[0] == '.' || g_str_equal(name, "mcptools") || g_str_equal(name, "__pycache__");
}

/* Whether the entry @path, relative to the workspace, is offered, or what is below it. */
static bool
is_offered(const IpbSandboxPlan *plan, const char *path, mode_t kind)
{
    g_autofree char *whole = g_build_filename(plan->workspace, path, NULL);
    IpbPlanAccess access = ipb_sandbox_plan_access(plan, whole);
    if (!access.is_readable || access.is_own)
        return false;
    if (kind == S_IFDIR)
        return true; /* directories of any name may exist; the files in them are judged */
    return kind == S_IFREG && !is_protected(plan, whole, IPB_NAME_FILE);
}

/* --- names ------------------------------------------------------------------------------------ */

static char *
make_uri(const char *path)
{
    g_autofree char *escaped = g_uri_escape_string(path, "/", FALSE);
    return g_strconcat(SCHEME, escaped, NULL);
}

/* The relative path of a URI; NULL: it has none that could be offered. */
static char *
parse_uri(const char *uri)
{
    if (strlen(uri) > MAX_URI || !g_str_has_prefix(uri, SCHEME))
        return NULL;
    g_autofree char *path = g_uri_unescape_string(uri + strlen(SCHEME), NULL);
    if (path == NULL || !g_utf8_validate(path, -1, NULL))
        return NULL;
    g_auto(GStrv) parts = g_strsplit(path, "/", -1);
    for (char **part = parts; *part != NULL; part++)
        if (**part == '\0' || is_left_out(*part))
            return NULL;
    return *parts != NULL ? g_steal_pointer(&path) : NULL;
}

/* --- resources/list --------------------------------------------------------------------------- */

typedef struct {
    const IpbSandboxPlan *plan;
    IpbJsonWriter *writer;
    unsigned n_visited, n_found;
    unsigned first; /* of this page */
    bool has_more;
} Walk;

static void
write_resource(Walk *walk, const char *path)
{
    const char *type = ipb_content_type_guess(path);
    g_autofree char *uri = make_uri(path);
    ipb_json_begin_object(walk->writer);
    ipb_json_member_string(walk->writer, "uri", uri);
    ipb_json_member_string(walk->writer, "name", path);
    if (type != NULL)
        ipb_json_member_string(walk->writer, "mimeType", type);
    ipb_json_end_object(walk->writer);
}

static void
add_file(Walk *walk, const char *path)
{
    unsigned place = walk->n_found++;
    if (place >= walk->first && place < walk->first + PAGE_SIZE)
        write_resource(walk, path);
    walk->has_more = place >= walk->first + PAGE_SIZE;
}

static bool
is_done(const Walk *walk)
{
    return walk->has_more || walk->n_found >= MAX_LISTED || walk->n_visited >= MAX_VISITED;
}

static void
walk_directory(Walk *walk, const IpbBeneath *directory, const char *path, unsigned depth)
{
    g_autoptr(GPtrArray) names = ipb_beneath_list(directory, MAX_ENTRIES, NULL);
    for (guint i = 0; names != NULL && i < names->len && !is_done(walk); i++) {
        const char *name = g_ptr_array_index(names, i);
        walk->n_visited++;
        if (is_left_out(name) || !g_utf8_validate(name, -1, NULL))
            continue;
        g_autofree char *entry = path != NULL ? g_build_filename(path, name, NULL) : g_strdup(name);
        mode_t kind = ipb_beneath_kind(directory, name);
        if (!is_offered(walk->plan, entry, kind))
            continue;
        if (kind == S_IFREG) {
            add_file(walk, entry);
            continue;
        }
        g_autoptr(IpbBeneath) below =
            depth < MAX_DEPTH ? ipb_beneath_descend(directory, name, 0, NULL) : NULL;
        if (below != NULL)
            walk_directory(walk, below, entry, depth + 1);
    }
}

static bool
read_cursor(const IpbJson *params, unsigned *ret_first)
{
    const IpbJson *cursor = ipb_json_get(params, "cursor");
    guint64 first;
    *ret_first = 0;
    if (cursor == NULL || ipb_json_is(cursor, IPB_JSON_NULL))
        return true;
    const char *text = ipb_json_string(cursor, NULL);
    if (text == NULL || !g_ascii_string_to_unsigned(text, 10, 0, MAX_LISTED, &first, NULL))
        return false;
    *ret_first = (unsigned) first;
    return true;
}

static void
fail(IpbMcpRequest *request, int code, const char *message)
{
    ipb_mcp_request_fail(request, code, message, NULL);
}

static void
reply(IpbMcpRequest *request, IpbJsonWriter *writer)
{
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    ipb_mcp_request_reply(request, text, NULL);
}

static void
fail_missing(IpbMcpRequest *request, const char *uri)
{
    bool is_modern = ipb_mcp_request_envelope(request) != NULL;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "uri", uri);
    ipb_json_end_object(writer);
    g_autofree char *data = ipb_json_writer_finish(writer, NULL);
    ipb_mcp_request_fail(request, is_modern ? IPB_RPC_INVALID_PARAMS : RESOURCE_NOT_FOUND,
                         "there is no such resource: resources/list lists them", data);
}

void
ipb_mcp_resources_list(IpbMcpResources *resources, IpbMcpRequest *request)
{
    g_autoptr(GError) error = NULL;
    Walk walk = {0};
    if (!read_cursor(ipb_mcp_request_params(request), &walk.first)) {
        fail(request, IPB_RPC_INVALID_PARAMS, "resources/list: the cursor is not one of ours");
        return;
    }
    g_autoptr(IpbBeneath) root =
        prepare(resources, &error) ? ipb_beneath_open(resources->plan->workspace, &error) : NULL;
    if (root == NULL) {
        fail(request, IPB_RPC_INTERNAL_ERROR, error->message);
        return;
    }
    walk.plan = resources->plan;
    walk.writer = ipb_json_writer_new();
    ipb_json_begin_object(walk.writer);
    ipb_json_key(walk.writer, "resources");
    ipb_json_begin_array(walk.writer);
    walk_directory(&walk, root, NULL, 0);
    ipb_json_end_array(walk.writer);
    if (walk.has_more) {
        g_autofree char *cursor = g_strdup_printf("%u", walk.first + PAGE_SIZE);
        ipb_json_member_string(walk.writer, "nextCursor", cursor);
    }
    ipb_json_end_object(walk.writer);
    reply(request, walk.writer);
}

/* --- resources/read --------------------------------------------------------------------------- */

static bool
is_text(const char *data, size_t size)
{
    return memchr(data, '\0', size) == NULL && g_utf8_validate(data, (gssize) size, NULL);
}

static void
write_contents(IpbJsonWriter *writer, const char *uri, const char *data, size_t size)
{
    const char *type = ipb_content_type_guess(uri);
    bool is_plain = is_text(data, size) && (type == NULL || !g_str_has_prefix(type, "image/") ||
                                            g_str_has_suffix(type, "xml"));
    const char *fallback = is_plain ? "text/plain" : "application/octet-stream";
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "contents");
    ipb_json_begin_array(writer);
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "uri", uri);
    ipb_json_member_string(writer, "mimeType", type != NULL ? type : fallback);
    if (is_plain) {
        ipb_json_key(writer, "text");
        ipb_json_write_string_n(writer, data, size);
    } else {
        g_autofree char *base64 = g_base64_encode((const guchar *) data, size);
        ipb_json_member_string(writer, "blob", base64);
    }
    ipb_json_end_object(writer);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
}

/* All directories on the way are judged, too: one of them may be hidden. */
static bool
is_way_offered(const IpbSandboxPlan *plan, const char *path)
{
    for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
        g_autofree char *directory = g_strndup(path, (gsize) (slash - path));
        if (!is_offered(plan, directory, S_IFDIR))
            return false;
    }
    return is_offered(plan, path, S_IFREG);
}

void
ipb_mcp_resources_read(IpbMcpResources *resources, IpbMcpRequest *request)
{
    const char *uri = ipb_json_get_string(ipb_mcp_request_params(request), "uri");
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;
    size_t size;
    if (uri == NULL) {
        fail(request, IPB_RPC_INVALID_PARAMS, "resources/read: params.uri must be a string");
        return;
    }
    if (!prepare(resources, &error)) {
        fail(request, IPB_RPC_INTERNAL_ERROR, error->message);
        return;
    }
    g_autofree char *path = parse_uri(uri);
    /* What is protected, and what does not exist, have the same answer. */
    if (path == NULL || !is_way_offered(resources->plan, path)) {
        fail_missing(request, uri);
        return;
    }
    g_autoptr(IpbBeneath) root = ipb_beneath_open(resources->plan->workspace, &error);
    if (root == NULL || !ipb_beneath_read(root, path, MAX_FILE, &text, &size, &error)) {
        bool is_missing = !g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT) &&
                          !g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
        if (is_missing)
            fail_missing(request, uri);
        else
            fail(request, IPB_RPC_INTERNAL_ERROR, error->message);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    write_contents(writer, uri, text, size);
    reply(request, writer);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpResources *
ipb_mcp_resources_new(IpbSession *session)
{
    IpbMcpResources *resources = g_new0(IpbMcpResources, 1);
    resources->session = session;
    return resources;
}

void
ipb_mcp_resources_free(IpbMcpResources *resources)
{
    if (resources == NULL)
        return;
    g_clear_pointer(&resources->plan, ipb_sandbox_plan_unref);
    g_free(resources);
}
