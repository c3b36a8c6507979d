/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters; see the header.
 */
#include "serve/rpc/params.h"

#include <math.h>
#include <string.h>

#include "base/error.h"

/* The most characters of a name in an error. */
#define MAX_SHOWN 60

void
ipb_rpc_params_init(IpbRpcParams *params, const IpbJson *object)
{
    *params = (IpbRpcParams){.object = object, .known = g_ptr_array_new()};
    if (object != NULL && !ipb_json_is(object, IPB_JSON_OBJECT))
        g_set_error_literal(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "params must be an object");
}

void
ipb_rpc_params_clear(IpbRpcParams *params)
{
    g_clear_pointer(&params->known, g_ptr_array_unref);
    g_clear_error(&params->error);
}

void
ipb_rpc_params_refuse(IpbRpcParams *params, const char *name, const char *wanted)
{
    if (params->error == NULL)
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s must be %s", name,
                    wanted);
}

const IpbJson *
ipb_rpc_params_get(IpbRpcParams *params, const char *name)
{
    g_ptr_array_add(params->known, (char *) name);
    const IpbJson *value = ipb_json_get(params->object, name);
    return ipb_json_is(value, IPB_JSON_NULL) ? NULL : value;
}

/* NULL, with an error, unless @value is a string without NUL. */
static const char *
read_string(IpbRpcParams *params, const IpbJson *value, const char *name)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL || strlen(text) != size) {
        ipb_rpc_params_refuse(params, name, text == NULL ? "a string" : "a string without NUL");
        return NULL;
    }
    return text;
}

const char *
ipb_rpc_params_string(IpbRpcParams *params, const char *name)
{
    const IpbJson *value = ipb_rpc_params_get(params, name);
    return value != NULL ? read_string(params, value, name) : NULL;
}

const char *
ipb_rpc_params_need_string(IpbRpcParams *params, const char *name)
{
    return read_string(params, ipb_rpc_params_get(params, name), name);
}

const char *
ipb_rpc_params_path(IpbRpcParams *params, const char *name)
{
    const char *path = ipb_rpc_params_string(params, name);
    if (path != NULL && !g_path_is_absolute(path))
        ipb_rpc_params_refuse(params, name, "an absolute path");
    else if (path != NULL && !g_utf8_validate(path, -1, NULL))
        ipb_rpc_params_refuse(params, name, "a path in UTF-8");
    return path;
}

const IpbJson *
ipb_rpc_params_object(IpbRpcParams *params, const char *name)
{
    const IpbJson *value = ipb_rpc_params_get(params, name);
    if (value != NULL && !ipb_json_is(value, IPB_JSON_OBJECT))
        ipb_rpc_params_refuse(params, name, "an object");
    return value;
}

const IpbJson *
ipb_rpc_params_need_object(IpbRpcParams *params, const char *name)
{
    const IpbJson *value = ipb_rpc_params_object(params, name);
    if (value == NULL)
        ipb_rpc_params_refuse(params, name, "an object");
    return value;
}

bool
ipb_rpc_params_bool(IpbRpcParams *params, const char *name, bool fallback)
{
    const IpbJson *value = ipb_rpc_params_get(params, name);
    if (value != NULL && !ipb_json_is(value, IPB_JSON_BOOL))
        ipb_rpc_params_refuse(params, name, "true or false");
    return ipb_json_bool(value, fallback);
}

int64_t
ipb_rpc_params_int(IpbRpcParams *params, const char *name, int64_t fallback, int64_t min,
                   int64_t max)
{
    const IpbJson *value = ipb_rpc_params_get(params, name);
    int64_t number;
    if (value == NULL)
        return fallback;
    if (ipb_json_int64(value, &number) && number >= min && number <= max)
        return number;
    g_autofree char *wanted = g_strdup_printf(
        "an integer from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, (gint64) min, (gint64) max);
    ipb_rpc_params_refuse(params, name, wanted);
    return fallback;
}

int64_t
ipb_rpc_params_ms(IpbRpcParams *params, const char *name, int64_t fallback)
{
    const IpbJson *value = ipb_rpc_params_get(params, name);
    double seconds;
    if (value == NULL)
        return fallback;
    if (ipb_json_double(value, &seconds) && seconds > 0)
        return (int64_t) fmin(ceil(seconds * 1000), INT32_MAX);
    ipb_rpc_params_refuse(params, name, "a number of seconds above 0, or null");
    return fallback;
}

char **
ipb_rpc_params_strings(IpbRpcParams *params, const char *name)
{
    const IpbJson *value = ipb_rpc_params_get(params, name);
    if (value == NULL)
        return NULL;
    g_autoptr(GPtrArray) strings = g_ptr_array_new_with_free_func(g_free);
    bool is_right = ipb_json_is(value, IPB_JSON_ARRAY);
    IPB_JSON_FOREACH (item, value) {
        size_t size;
        const char *text = ipb_json_string(item, &size);
        is_right = is_right && text != NULL && strlen(text) == size;
        if (is_right)
            g_ptr_array_add(strings, g_strdup(text));
    }
    if (!is_right) {
        ipb_rpc_params_refuse(params, name, "an array of strings (without NUL)");
        return NULL;
    }
    g_ptr_array_add(strings, NULL);
    return (char **) g_ptr_array_free(g_steal_pointer(&strings), FALSE);
}

/* Are all members strings without NUL, with names that are so, too, and not empty? */
static bool
has_strings_only(const IpbJson *object)
{
    bool is_right = ipb_json_is(object, IPB_JSON_OBJECT);
    IPB_JSON_FOREACH (member, object) {
        size_t size = 0, name_size = 0;
        const char *text = ipb_json_string(member, &size);
        const char *name = ipb_json_name(member, &name_size);
        is_right = is_right && text != NULL && strlen(text) == size && name != NULL &&
                   *name != '\0' && strlen(name) == name_size;
    }
    return is_right;
}

char **
ipb_rpc_params_pairs(IpbRpcParams *params, const char *name)
{
    const IpbJson *value = ipb_rpc_params_get(params, name);
    if (value == NULL)
        return NULL;
    if (!has_strings_only(value)) {
        ipb_rpc_params_refuse(params, name, "an object of strings");
        return NULL;
    }
    g_autoptr(GStrvBuilder) pairs = g_strv_builder_new();
    IPB_JSON_FOREACH (member, value) {
        g_strv_builder_add(pairs, ipb_json_name(member, NULL));
        g_strv_builder_add(pairs, ipb_json_string(member, NULL));
    }
    return g_strv_builder_end(pairs);
}

/* Replaces, in place, the lone surrogates U+DC80 to U+DCFF (in WTF-8 ED B2 80 to ED B3 BF) by the
 * bytes that they stand for. */
static void
restore_bytes(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        const uint8_t *bytes = (const uint8_t *) from;
        if (bytes[0] == 0xed && (bytes[1] == 0xb2 || bytes[1] == 0xb3)) {
            *to++ = (char) (uint8_t) (bytes[1] << 6 | (bytes[2] & 0x3f));
            from += 3;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

char **
ipb_rpc_params_arguments(IpbRpcParams *params, const char *name)
{
    char **arguments = ipb_rpc_params_strings(params, name);
    for (char **argument = arguments; argument != NULL && *argument != NULL; argument++)
        restore_bytes(*argument);
    return arguments;
}

char *
ipb_rpc_params_need_id(IpbRpcParams *params, const char *name)
{
    const IpbJson *id = ipb_rpc_params_get(params, name);
    if (!ipb_json_is(id, IPB_JSON_NUMBER) && !ipb_json_is(id, IPB_JSON_STRING)) {
        ipb_rpc_params_refuse(params, name, "the id of a request");
        return NULL;
    }
    IpbSpan raw = ipb_json_raw(id);
    return g_strndup(raw.start, raw.size);
}

GBytes *
ipb_rpc_params_bytes(IpbRpcParams *params, const char *name)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = ipb_rpc_params_string(params, name);
    if (text == NULL)
        return NULL;
    /* GLib's decoder skips what is no base64. */
    size_t size = strlen(text), n = strspn(text, digits);
    if (size % 4 != 0 || size - n > 2 || strspn(text + n, "=") != size - n) {
        ipb_rpc_params_refuse(params, name, "a string in base64");
        return NULL;
    }
    gsize n_bytes;
    guchar *bytes = g_base64_decode(text, &n_bytes);
    return g_bytes_new_take(bytes, n_bytes);
}

char **
ipb_rpc_params_environment(IpbRpcParams *params, const char *name)
{
    g_auto(GStrv) pairs = ipb_rpc_params_pairs(params, name);
    if (pairs == NULL)
        return NULL;
    g_autoptr(GStrvBuilder) entries = g_strv_builder_new();
    for (char **pair = pairs; *pair != NULL; pair += 2) {
        g_autofree char *entry = g_strconcat(pair[0], "=", pair[1], NULL);
        restore_bytes(entry);
        g_strv_builder_add(entries, entry);
        if (strchr(pair[0], '=') != NULL)
            ipb_rpc_params_refuse(params, name, "an object of strings, without = in their names");
    }
    return g_strv_builder_end(entries);
}

int
ipb_rpc_params_word(IpbRpcParams *params, const char *name, const char *const *words, int fallback)
{
    const char *word = ipb_rpc_params_string(params, name);
    if (word == NULL)
        return fallback;
    for (int i = 0; words[i] != NULL; i++)
        if (g_str_equal(words[i], word))
            return i;
    g_autofree char *all = g_strjoinv("\", \"", (char **) words);
    g_autofree char *wanted = g_strdup_printf("one of \"%s\"", all);
    ipb_rpc_params_refuse(params, name, wanted);
    return fallback;
}

static bool
is_known(const IpbRpcParams *params, const char *name)
{
    for (guint i = 0; i < params->known->len; i++)
        if (g_str_equal(g_ptr_array_index(params->known, i), name))
            return true;
    return false;
}

bool
ipb_rpc_params_finish(IpbRpcParams *params, GError **error)
{
    IPB_JSON_FOREACH (member, params->object) {
        const char *name = ipb_json_name(member, NULL);
        if (params->error == NULL && name != NULL && !ipb_json_is(member, IPB_JSON_NULL) &&
            !is_known(params, name))
            g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "there is no parameter \"%.*s\"", MAX_SHOWN, name);
    }
    if (params->error == NULL)
        return true;
    g_propagate_error(error, g_steal_pointer(&params->error));
    return false;
}
