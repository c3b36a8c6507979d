/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/gateway/sessions.h"

#include <string.h>

#include "base/error.h"

static bool
parse(const char *text, IpbJsonDoc **ret_doc, IpbGatewaySessionFields *ret_fields, GError **error)
{
    return ipb_gateway_session_fields_parse((IpbSpan){text, strlen(text)}, ret_doc, ret_fields,
                                            error);
}

static void
test_fields(void)
{
    static const struct {
        const char *text, *path, *name, *type, *kernel_id, *kernel_name;
    } ROWS[] = {
        {"{}", NULL, NULL, NULL, NULL, NULL},
        {"{\"path\":\"\",\"name\":null,\"kernel\":null}", "", NULL, NULL, NULL, NULL},
        {"{\"path\":\"../a\\n\",\"name\":\"b\",\"type\":\"file\",\"kernel\":{\"id\":\"c\"}}",
         "../a\n", "b", "file", "c", NULL},
        {"{\"notebook\":{\"path\":\"a\",\"name\":\"b\"},\"kernel\":{\"name\":\"c\"}}", "a", NULL,
         "notebook", NULL, "c"},
        {"{\"notebook\":{\"name\":\"b\"},\"path\":\"a\",\"type\":\"file\"}", "b", NULL, "notebook",
         NULL, NULL},
        {"{\"notebook\":{},\"path\":\"a\"}", "a", NULL, "notebook", NULL, NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        g_autoptr(IpbJsonDoc) doc = NULL;
        IpbGatewaySessionFields fields;
        g_autoptr(GError) error = NULL;
        parse(ROWS[i].text, &doc, &fields, &error);
        g_assert_no_error(error);
        g_assert_cmpstr(fields.path, ==, ROWS[i].path);
        g_assert_cmpstr(fields.name, ==, ROWS[i].name);
        g_assert_cmpstr(fields.type, ==, ROWS[i].type);
        g_assert_cmpstr(fields.kernel_id, ==, ROWS[i].kernel_id);
        g_assert_cmpstr(fields.kernel_name, ==, ROWS[i].kernel_name);
    }
}

static void
assert_refused(const char *text, const char *part)
{
    IpbJsonDoc *doc = NULL;
    IpbGatewaySessionFields fields;
    g_autoptr(GError) error = NULL;
    g_assert_false(parse(text, &doc, &fields, &error));
    g_assert_null(doc);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    if (strstr(error->message, part) == NULL)
        g_error("%s: no \"%s\" in: %s", text, part, error->message);
}

static void
test_refused(void)
{
    assert_refused("", "no body");
    assert_refused("{", "byte");
    assert_refused("[]", "not a JSON object");
    assert_refused("{\"path\":1}", "path must be a string");
    assert_refused("{\"path\":\"a\\u0000b\"}", "path must be a string");
    assert_refused("{\"type\":[]}", "type must be a string");
    assert_refused("{\"notebook\":\"a\"}", "notebook must be an object");
    assert_refused("{\"notebook\":{\"path\":{}}}", "path must be a string");
    assert_refused("{\"kernel\":\"a\"}", "kernel must be an object");
    assert_refused("{\"kernel\":{\"id\":1}}", "id must be a string");
}

/* Each text has a maximum; one byte less is accepted. */
static void
test_maxima(void)
{
    static const struct {
        const char *before, *after;
        size_t max;
    } ROWS[] = {
        {"{\"path\":\"", "\"}", 4096},           {"{\"notebook\":{\"path\":\"", "\"}}", 4096},
        {"{\"name\":\"", "\"}", 1024},           {"{\"type\":\"", "\"}", 256},
        {"{\"kernel\":{\"id\":\"", "\"}}", 256}, {"{\"kernel\":{\"name\":\"", "\"}}", 256},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        g_autofree char *most = g_strnfill(ROWS[i].max, 'x');
        g_autofree char *good = g_strconcat(ROWS[i].before, most, ROWS[i].after, NULL);
        g_autofree char *bad = g_strconcat(ROWS[i].before, most, "x", ROWS[i].after, NULL);
        g_autoptr(IpbJsonDoc) doc = NULL;
        IpbGatewaySessionFields fields;
        g_assert_true(parse(good, &doc, &fields, NULL));
        assert_refused(bad, "bytes, and may have");
    }
}

static void
test_number(void)
{
    g_autoptr(IpbGatewaySessions) sessions = ipb_gateway_sessions_new();
    IpbGatewaySessionFields fields = {.path = "a", .type = "file"};
    g_autoptr(GError) error = NULL;
    for (int i = 0; i < 1000; i++) {
        g_assert_true(ipb_gateway_sessions_check_room(sessions, NULL));
        ipb_gateway_sessions_add(sessions, &fields, NULL);
    }
    g_assert_false(ipb_gateway_sessions_check_room(sessions, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    ipb_gateway_sessions_forget_kernel(sessions, NULL);
    g_assert_null(ipb_gateway_sessions_find_path(sessions, "a"));
    g_assert_true(ipb_gateway_sessions_check_room(sessions, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sessions/fields", test_fields);
    g_test_add_func("/sessions/refused", test_refused);
    g_test_add_func("/sessions/maxima", test_maxima);
    g_test_add_func("/sessions/number", test_number);
    return g_test_run();
}
