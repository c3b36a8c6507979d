/* SPDX-License-Identifier: Apache-2.0
 *
 * Does what an HTTP transport does, for tests/integration/test_oauth.py: it sends one POST to the
 * server, with the Authorization header of IpbOAuth, again after each challenge that can be met.
 * Prints {"status": …, "body": …} or {"error": …, "code": …}.
 *
 * usage: oauth-tool URL NAME [SETTINGS [TIMES]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "json/writer.h"
#include "oauth/fetch.h"
#include "oauth/oauth.h"

typedef struct {
    GMainLoop *main_loop;
    IpbLoop *loop;
    IpbHttpClient *http;
    IpbOAuth *oauth;
    const char *url;
    char *authorization;
    unsigned n_retries;
    int left; /* requests */
} Tool;

static void
finish(Tool *tool, unsigned status, const char *body, const GError *error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    if (error != NULL) {
        ipb_json_member_string(writer, "error", error->message);
        ipb_json_member_int(writer, "code", error->code);
    } else {
        ipb_json_member_int(writer, "status", status);
        ipb_json_member_string(writer, "body", body);
    }
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    puts(text);
    fflush(stdout);
    tool->n_retries = 0;
    if (--tool->left == 0)
        g_main_loop_quit(tool->main_loop);
}

static void on_authorization(const char *authorization, const GError *error, void *data);

static void
on_reply(const IpbOAuthReply *reply, const GError *error, void *data)
{
    Tool *tool = data;
    if (error != NULL || (reply->status != 401 && reply->status != 403)) {
        finish(tool, reply != NULL ? reply->status : 0, reply != NULL ? reply->body : "", error);
        if (tool->left > 0)
            ipb_oauth_get(tool->oauth, on_authorization, tool);
        return;
    }
    IpbOAuthRefusal challenge = {
        .status = reply->status,
        .www_authenticate = reply->www_authenticate,
        .authorization = tool->authorization,
        .n_retries = tool->n_retries++,
    };
    ipb_oauth_handle_refusal(tool->oauth, &challenge, on_authorization, tool);
}

static void
on_authorization(const char *authorization, const GError *error, void *data)
{
    Tool *tool = data;
    g_free(tool->authorization);
    tool->authorization = g_strdup(authorization);
    if (error != NULL) {
        finish(tool, 0, NULL, error);
        return;
    }
    IpbOAuthFetchRequest request = {
        .url = tool->url,
        .json = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}",
        .authorization = authorization,
    };
    ipb_oauth_fetch(tool->http, &request, on_reply, tool);
}

static void
on_warning(const char *text, void *data)
{
    fprintf(stderr, "%s\n", text);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbOAuthSettings) settings = NULL;
    if (argc < 3)
        return 2;
    if (argc > 3 && *argv[3] != '\0') {
        g_autoptr(IpbJsonDoc) document =
            ipb_json_parse(argv[3], strlen(argv[3]), &IPB_JSON_LIMITS_SMALL, &error);
        g_assert_no_error(error);
        settings = ipb_oauth_settings_parse(ipb_json_root(document), "oauth", &error);
        g_assert_no_error(error);
    }
    Tool tool = {
        .main_loop = g_main_loop_new(NULL, false),
        .loop = ipb_loop_new(NULL, NULL),
        .url = argv[1],
        .left = argc > 4 ? atoi(argv[4]) : 1,
    };
    tool.http = ipb_http_client_new(tool.loop, NULL, &error);
    g_assert_no_error(error);
    IpbOAuthOptions options = {
        .server_url = argv[1],
        .server_name = argv[2],
        .settings = settings,
        .http = tool.http,
        .on_warning = on_warning,
    };
    tool.oauth = ipb_oauth_new(tool.loop, &options, &error);
    if (tool.oauth == NULL) {
        tool.left = 1;
        finish(&tool, 0, NULL, error);
    } else {
        ipb_oauth_get(tool.oauth, on_authorization, &tool);
        g_main_loop_run(tool.main_loop);
    }
    ipb_oauth_free(tool.oauth);
    ipb_http_client_free(tool.http);
    g_free(tool.authorization);
    ipb_loop_unref(tool.loop);
    g_main_loop_unref(tool.main_loop);
    return 0;
}
