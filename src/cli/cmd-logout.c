/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox logout`: removes the tokens of `ipybox login`.
 */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/login-server.h"
#include "oauth/logout.h"
#include "oauth/store.h"

typedef struct {
    GMainLoop *main_loop;
    const char *server;
    int status;
} Logout;

static void
report_unrevoked(const char *url, const GError *why)
{
    g_autofree char *server = ipb_cli_printable(url);
    ipb_cli_fail(&ipb_verb_logout, IPB_EXIT_FAILED,
                 "%s: logged out here, but the tokens were not revoked at the server: %s", server,
                 why->message);
}

static void
on_done(bool had_token, bool is_forgotten, const GError *error, void *data)
{
    Logout *logout = data;
    g_autofree char *server = ipb_cli_printable(logout->server);
    if (!is_forgotten && error != NULL)
        logout->status =
            ipb_cli_fail(&ipb_verb_logout, ipb_cli_status(error), "%s", error->message);
    else if (error != NULL)
        report_unrevoked(logout->server, error);
    else if (had_token)
        printf("Logged out of %s.\n", server);
    else
        printf("There was no login at %s.\n", server);
    g_main_loop_quit(logout->main_loop);
}

/* @params: NULL if they are not known. */
static int
log_out(const char *url, const IpbServerParams *params)
{
    g_autoptr(GError) error = NULL, no_http = NULL;
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, &error);
    g_autoptr(GMainLoop) main_loop = g_main_loop_new(NULL, false);
    Logout state = {.main_loop = main_loop, .server = url, .status = IPB_EXIT_OK};
    g_autoptr(IpbHttpClient) http =
        loop != NULL ? ipb_login_server_http(loop, params, &no_http) : NULL;
    IpbOAuthLogoutOptions options = {
        .server_url = url,
        .settings = params != NULL ? params->oauth : NULL,
        .http = http,
    };
    g_autoptr(IpbOAuthLogout) logout =
        loop != NULL ? ipb_oauth_logout_new(loop, &options, on_done, &state, &error) : NULL;
    if (logout == NULL)
        return ipb_cli_fail(&ipb_verb_logout, ipb_cli_status(error), "%s", error->message);
    g_main_loop_run(main_loop);
    if (no_http != NULL)
        report_unrevoked(url, no_http);
    return state.status;
}

static int
log_out_of_all(void)
{
    int status = IPB_EXIT_OK;
    g_auto(GStrv) servers = ipb_oauth_store_list(NULL);
    for (char **server = servers; *server != NULL; server++)
        status = MAX(status, log_out(*server, NULL));
    return status;
}

static int
run_logout(int argc, char **argv)
{
    int all = 0, status;
    const GOptionEntry options[] = {
        {"all", 0, 0, G_OPTION_ARG_NONE, &all, "log out of every server", NULL},
        G_OPTION_ENTRY_NULL,
    };
    if (!ipb_cli_parse(&ipb_verb_logout, options,
                       "SERVER is the name or id of a registered server, or a URL. Its tokens are "
                       "removed here, and\n"
                       "revoked at the server if it supports that.",
                       &argc, &argv, &status))
        return status;
    if (argc != (all ? 1 : 2))
        return ipb_cli_fail(&ipb_verb_logout, IPB_EXIT_USAGE,
                            "give the name, id or URL of one server, or --all");
    if (all)
        return log_out_of_all();
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbServerParams) params = ipb_login_server_find(argv[1], &error);
    if (params == NULL)
        return ipb_cli_fail(&ipb_verb_logout, ipb_cli_status(error), "%s", error->message);
    return log_out(params->url, params);
}

const IpbVerb ipb_verb_logout = {"logout", "SERVER | --all", "remove the tokens of a login",
                                 run_logout};
