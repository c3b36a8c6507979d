/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a verb that uses the public API; see the header.
 */
#include "cli/api-client.h"

#include "cli/cli.h"

bool
ipb_api_client_open(IpbApiClient *client, const IpyboxRuntimeOptions *options, GError **error)
{
    client->main_loop = g_main_loop_new(NULL, FALSE);
    client->runtime = ipybox_runtime_new(options, error);
    return client->runtime != NULL;
}

void
ipb_api_client_run(IpbApiClient *client)
{
    g_main_loop_run(client->main_loop);
}

/* Whatever did not close in time is killed when it is freed. */
static void
on_closed(GObject *source, GAsyncResult *result, gpointer data)
{
    IpbApiClient *client = data;
    ipybox_runtime_close_finish(client->runtime, result, NULL);
    g_main_loop_quit(client->main_loop);
}

void
ipb_api_client_end(IpbApiClient *client)
{
    if (client->is_ending) {
        g_main_loop_quit(client->main_loop);
        return;
    }
    client->is_ending = true;
    ipybox_runtime_close_async(client->runtime, on_closed, client);
}

void
ipb_api_client_clear(IpbApiClient *client)
{
    g_clear_pointer(&client->session, ipybox_session_free);
    g_clear_pointer(&client->runtime, ipybox_runtime_free);
    g_clear_pointer(&client->main_loop, g_main_loop_unref);
}

void
ipb_api_client_log(IpyboxSession *session, const char *level, const char *text, gpointer data)
{
    ipb_cli_log(level, text, NULL);
}
