/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacement of ${NAME} in server parameters; see params.h. One pass over each value: what a
 * variable holds is not searched for further variables.
 */
#include <string.h>

#include "base/error.h"
#include "mcp/params-private.h"

/* So many missing variables are named; of the others only the number. */
#define MAX_NAMED_MISSING 20

typedef struct {
    const char *const *env;
    GPtrArray *missing;   /* names, each once */
    const char *too_long; /* the member that grew beyond the limit, or NULL */
} Expansion;

static const char *
find_variable(const char *const *env, const char *name, size_t size)
{
    const char *found = NULL;
    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, name, size) == 0 && (*env)[size] == '=')
            found = *env + size + 1;
    return found;
}

static void
add_missing(Expansion *expansion, const char *name, size_t size)
{
    g_autofree char *text = g_strndup(name, size);
    if (!g_ptr_array_find_with_equal_func(expansion->missing, text, g_str_equal, NULL))
        g_ptr_array_add(expansion->missing, g_steal_pointer(&text));
}

/* @text with its variables; NULL stays NULL. */
static char *
expand_text(Expansion *expansion, const char *member, const char *text)
{
    if (text == NULL)
        return NULL;
    GString *out = g_string_new(NULL);
    while (*text != '\0' && expansion->too_long == NULL) {
        size_t plain = strcspn(text, "$");
        g_string_append_len(out, text, (gssize) plain);
        text += plain;
        size_t size = *text == '$' ? ipb_params_placeholder(text) : 0;
        if (size > 0) {
            const char *value = find_variable(expansion->env, text + 2, size);
            if (value == NULL)
                add_missing(expansion, text + 2, size);
            else
                g_string_append_len(out, value, (gssize) strnlen(value, MAX_PARAMS_TEXT + 1));
            text += size + 3;
        } else if (*text == '$') {
            g_string_append_c(out, *text++);
        }
        if (out->len > 2 * MAX_PARAMS_TEXT)
            expansion->too_long = member;
    }
    if (out->len > MAX_PARAMS_TEXT)
        expansion->too_long = member;
    return g_string_free(out, false);
}

static void
replace_text(Expansion *expansion, const char *member, char **text)
{
    char *expanded = expand_text(expansion, member, *text);
    g_free(*text);
    *text = expanded;
}

/* Each item; with @separator only what comes after it (values, not names). */
static char **
expand_list(Expansion *expansion, const char *member, char **list, const char *separator)
{
    g_autoptr(GStrvBuilder) out = g_strv_builder_new();
    for (char **item = list; item != NULL && *item != NULL; item++) {
        const char *value = *item;
        if (separator != NULL)
            value = strstr(*item, separator) + strlen(separator);
        g_autofree char *name = g_strndup(*item, (gsize) (value - *item));
        g_autofree char *expanded = expand_text(expansion, member, value);
        g_autofree char *text = g_strconcat(name, expanded, NULL);
        g_strv_builder_add(out, text);
    }
    return g_strv_builder_end(out);
}

static void
set_missing_error(GError **error, const GPtrArray *missing)
{
    GString *names = g_string_new(NULL);
    for (guint i = 0; i < missing->len && i < MAX_NAMED_MISSING; i++) {
        const char *name = g_ptr_array_index(missing, i);
        const char *comma = i == 0 ? "" : i + 1 == missing->len ? " and " : ", ";
        g_string_append_printf(names, "%s${%.100s}", comma, name);
    }
    if (missing->len > MAX_NAMED_MISSING)
        g_string_append_printf(names, " and %u more", missing->len - MAX_NAMED_MISSING);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "server_params uses %s, which %s not set. Set %s in the environment that ipybox is "
                "started with, or in the .env file of its workspace",
                names->str, missing->len == 1 ? "is" : "are", missing->len == 1 ? "it" : "them");
    g_string_free(names, true);
}

/* execve takes no more, and neither should we hold more. */
static bool
check_too_long(const Expansion *expansion, GError **error)
{
    if (expansion->too_long == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "server_params.%s: a value has more than %d bytes after its variables are replaced",
                expansion->too_long, MAX_PARAMS_TEXT);
    return false;
}

IpbServerParams *
ipb_server_params_expand(const IpbServerParams *params, const char *const *env, GError **error)
{
    g_autoptr(GPtrArray) missing = g_ptr_array_new_with_free_func(g_free);
    Expansion expansion = {.env = env, .missing = missing};
    g_autoptr(IpbServerParams) expanded = g_new0(IpbServerParams, 1);
    expanded->kind = params->kind;
    expanded->is_kind_given = params->is_kind_given;
    expanded->limits = params->limits;
    expanded->command = expand_text(&expansion, "command", params->command);
    expanded->args = expand_list(&expansion, "args", params->args, NULL);
    expanded->env = expand_list(&expansion, "env", params->env, "=");
    expanded->cwd = expand_text(&expansion, "cwd", params->cwd);
    expanded->sandbox = params->sandbox != NULL ? ipb_sandbox_policy_ref(params->sandbox) : NULL;
    expanded->url = expand_text(&expansion, "url", params->url);
    expanded->ca_file = expand_text(&expansion, "ca_file", params->ca_file);
    expanded->headers = expand_list(&expansion, "headers", params->headers, ": ");
    if (params->oauth != NULL) {
        IpbOAuthSettings *oauth = ipb_oauth_settings_copy(params->oauth);
        replace_text(&expansion, "oauth.clientId", &oauth->client_id);
        replace_text(&expansion, "oauth.clientSecret", &oauth->client_secret);
        expanded->oauth = oauth;
    }
    if (missing->len > 0) {
        set_missing_error(error, missing);
        return NULL;
    }
    if (!check_too_long(&expansion, error))
        return NULL;
    if (expanded->url != NULL && !expanded->is_kind_given)
        expanded->kind = ipb_params_kind_of_url(expanded->url);
    if (!ipb_params_check(expanded, /* is_expanded= */ true, error))
        return NULL;
    return g_steal_pointer(&expanded);
}
