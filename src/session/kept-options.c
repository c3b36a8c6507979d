/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of the options of a session; see the header.
 */
#include "session/kept-options.h"

struct IpbKeptOptions {
    IpbSessionOptions options;
    GStringChunk *texts;
    GPtrArray *lists; /* const char **, whose texts are in @texts */
};

static void
keep_text(const IpbKeptOptions *kept, const char **text)
{
    if (*text != NULL)
        *text = g_string_chunk_insert_const(kept->texts, *text);
}

static void
keep_path(const IpbKeptOptions *kept, const char **path)
{
    if (*path == NULL)
        return;
    g_autofree char *absolute = g_canonicalize_filename(*path, NULL);
    *path = g_string_chunk_insert_const(kept->texts, absolute);
}

static void
keep_list(const IpbKeptOptions *kept, const char *const **list)
{
    if (*list == NULL)
        return;
    guint n = g_strv_length((char **) *list);
    const char **copy = g_new0(const char *, n + 1);
    for (guint i = 0; i < n; i++)
        copy[i] = g_string_chunk_insert_const(kept->texts, (*list)[i]);
    g_ptr_array_add(kept->lists, copy);
    *list = copy;
}

IpbKeptOptions *
ipb_kept_options_new(const IpbSessionOptions *options)
{
    IpbKeptOptions *kept = g_new0(IpbKeptOptions, 1);
    IpbSessionOptions *copy = &kept->options;
    kept->texts = g_string_chunk_new(1024);
    kept->lists = g_ptr_array_new_with_free_func(g_free);
    *copy = *options;
    keep_path(kept, &copy->workspace);
    keep_path(kept, &copy->working_dir);
    keep_text(kept, &copy->images_dir); /* relative to the workspace */
    keep_list(kept, &copy->kernel_env);
    keep_text(kept, &copy->tool_server_host);
    keep_text(kept, &copy->tool_server_token);
    keep_list(kept, &copy->server_variables);
    keep_list(kept, &copy->env);
    keep_text(kept, &copy->allowed_servers);
    if (copy->application_tools != NULL)
        ipb_application_tools_ref(copy->application_tools);
    keep_path(kept, &copy->approval_rules);
    keep_path(kept, &copy->audit_log);
    keep_path(kept, &copy->record);
    keep_path(kept, &copy->other_record);
    keep_path(kept, &copy->sandbox_config);
    keep_list(kept, &copy->allowed_domains);
    keep_text(kept, &copy->limits);
    keep_path(kept, &copy->staging_dir);
    copy->on_approval = NULL;
    copy->on_approval_withdrawn = NULL;
    copy->on_tool_call = NULL;
    copy->on_tool_cancelled = NULL;
    copy->on_event = NULL;
    copy->on_log = NULL;
    copy->data = NULL;
    return kept;
}

const IpbSessionOptions *
ipb_kept_options_get(const IpbKeptOptions *kept)
{
    return &kept->options;
}

void
ipb_kept_options_free(IpbKeptOptions *kept)
{
    ipb_application_tools_unref(kept->options.application_tools);
    g_string_chunk_free(kept->texts);
    g_ptr_array_unref(kept->lists);
    g_free(kept);
}
