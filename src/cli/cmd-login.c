/* SPDX-License-Identifier: Apache-2.0
 *
 * `ipybox login`: logs the user in to an MCP server over HTTP, in a browser on this machine or on
 * another one.
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd-limit.h"
#include "cli/cli.h"
#include "cli/login-server.h"
#include "oauth/login.h"

#define DEFAULT_TIMEOUT_S 600
#define MAX_PASTE (16 * 1024)

typedef struct {
    GMainLoop *main_loop;
    IpbLoop *loop;
    IpbHttpClient *http;
    IpbOAuthLogin *login;
    IpbWatch *input; /* standard input, for a pasted address; NULL: not readable */
    IpbTimer *timer;
    GString *pasted;
    bool opens_browser;
    int timeout;
    int status;
} Login;

static void
open_browser(const char *url)
{
    const char *const argv[] = {"xdg-open", url, NULL};
    const char *x11 = g_getenv("DISPLAY"), *wayland = g_getenv("WAYLAND_DISPLAY");
    if ((x11 == NULL || *x11 == '\0') && (wayland == NULL || *wayland == '\0'))
        return;
    /* If this fails, the user opens the URL that is on the terminal. */
    g_spawn_async(NULL, (char **) argv, NULL,
                  G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL,
                  ipb_fd_limit_restore, NULL, NULL, NULL);
}

static void
on_url(const char *url, void *data)
{
    Login *login = data;
    g_autofree char *printable = ipb_cli_printable(url);
    printf("Open this address in a browser and log in there:\n\n%s\n\n"
           "If the browser runs on another machine, it ends at an address that it cannot load. "
           "Paste that\n"
           "address here.\n",
           printable);
    fflush(stdout);
    if (login->opens_browser)
        open_browser(url);
}

static void
finish(Login *login, int status)
{
    login->status = status;
    g_main_loop_quit(login->main_loop);
}

static void
on_done(const IpbOAuthToken *token, const GError *error, void *data)
{
    Login *login = data;
    if (error != NULL) {
        finish(login, ipb_cli_fail(&ipb_verb_login, ipb_cli_status(error), "%s", error->message));
        return;
    }
    g_autofree char *resource = ipb_cli_printable(token->resource);
    g_autofree char *scope = ipb_cli_printable(token->scope != NULL ? token->scope : "none");
    printf("Logged in to %s; scopes: %s.\n", resource, scope);
    if (token->refresh_token == NULL && token->expires != 0)
        puts("The server gave no refresh token: this login ends when its token expires.");
    finish(login, IPB_EXIT_OK);
}

static void
on_timeout(void *data)
{
    Login *login = data;
    finish(login, ipb_cli_fail(&ipb_verb_login, IPB_EXIT_TIMEOUT,
                               "no login within %d s: try again, with a longer --timeout if needed",
                               login->timeout));
}

static void
take_lines(Login *login)
{
    char *end;
    while ((end = strchr(login->pasted->str, '\n')) != NULL) {
        g_autoptr(GError) error = NULL;
        *end = '\0';
        if (login->pasted->str[strspn(login->pasted->str, " \t\r")] != '\0' &&
            !ipb_oauth_login_paste(login->login, login->pasted->str, &error))
            ipb_cli_fail(&ipb_verb_login, IPB_EXIT_FAILED, "%s", error->message);
        g_string_erase(login->pasted, 0, end - login->pasted->str + 1);
    }
}

static void
on_input(uint32_t events, void *data)
{
    Login *login = data;
    char bytes[4096];
    ssize_t size = read(STDIN_FILENO, bytes, sizeof bytes);
    if (size <= 0 || login->pasted->len + (size_t) size > MAX_PASTE ||
        memchr(bytes, '\0', (size_t) size) != NULL) {
        g_clear_pointer(&login->input, ipb_watch_free);
        return;
    }
    g_string_append_len(login->pasted, bytes, size);
    take_lines(login);
}

static void
clear(Login *login)
{
    ipb_watch_free(login->input);
    ipb_timer_free(login->timer);
    ipb_oauth_login_free(login->login);
    ipb_http_client_free(login->http);
    ipb_loop_unref(login->loop);
    g_main_loop_unref(login->main_loop);
    g_string_free(login->pasted, true);
}

static int
run_with(Login *login, const char *server, int port, const char *scope)
{
    static const IpbOAuthLoginFuncs FUNCS = {on_url, on_done};
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbServerParams) params = ipb_login_server_find(server, &error);
    if (params == NULL)
        return ipb_cli_fail(&ipb_verb_login, ipb_cli_status(error), "%s", error->message);
    if (params->oauth != NULL && params->oauth->grant == IPB_OAUTH_GRANT_CREDENTIALS)
        return ipb_cli_fail(&ipb_verb_login, IPB_EXIT_USAGE,
                            "%s uses client_credentials: its tokens come by themselves", server);
    login->loop = ipb_loop_new(NULL, &error);
    if (login->loop != NULL)
        login->http = ipb_login_server_http(login->loop, params, &error);
    IpbOAuthLoginOptions options = {
        .server_url = params->url,
        .settings = params->oauth,
        .http = login->http,
        .scope = scope,
        .port = (unsigned) port,
    };
    if (login->http != NULL)
        login->login = ipb_oauth_login_new(login->loop, &options, &FUNCS, login, &error);
    if (login->login == NULL)
        return ipb_cli_fail(&ipb_verb_login, ipb_cli_status(error), "%s", error->message);
    login->timer = ipb_timer_new(login->loop, (unsigned) login->timeout * 1000, on_timeout, login);
    /* This fails for a file, which cannot be watched. Then no address can be pasted. */
    login->input = ipb_watch_new(login->loop, STDIN_FILENO, EPOLLIN, on_input, login, NULL);
    g_main_loop_run(login->main_loop);
    return login->status;
}

static int
run_login(int argc, char **argv)
{
    int port = 0, timeout = DEFAULT_TIMEOUT_S, no_browser = 0;
    g_autofree char *scope = NULL;
    const GOptionEntry options[] = {
        {"port", 0, 0, G_OPTION_ARG_INT, &port,
         "port of 127.0.0.1 for the redirect of the browser (default: any)", "PORT"},
        {"scope", 0, 0, G_OPTION_ARG_STRING, &scope,
         "request these scopes, not those that the server names", "SCOPES"},
        {"timeout", 0, 0, G_OPTION_ARG_INT, &timeout, "time to wait for the login (default: 600)",
         "SECONDS"},
        {"no-browser", 0, 0, G_OPTION_ARG_NONE, &no_browser,
         "print the address, do not open a browser", NULL},
        G_OPTION_ENTRY_NULL,
    };
    int status;
    if (!ipb_cli_parse(&ipb_verb_login, options,
                       "SERVER is the name or id of a registered server, or a URL. The tokens are "
                       "kept in the state\ndirectory, where only you can read them.",
                       &argc, &argv, &status))
        return status;
    if (argc != 2)
        return ipb_cli_fail(&ipb_verb_login, IPB_EXIT_USAGE,
                            "give the name, id or URL of one server");
    if (port < 0 || port > 65535)
        return ipb_cli_fail(&ipb_verb_login, IPB_EXIT_USAGE,
                            "--port must be a number from 1 to 65535");
    if (timeout < 1 || timeout > 86400)
        return ipb_cli_fail(&ipb_verb_login, IPB_EXIT_USAGE,
                            "--timeout must be a number of seconds from 1 to 86400");
    Login login = {
        .main_loop = g_main_loop_new(NULL, false),
        .pasted = g_string_new(NULL),
        .opens_browser = !no_browser,
        .timeout = timeout,
    };
    status = run_with(&login, argv[1], port, scope);
    clear(&login);
    return status;
}

const IpbVerb ipb_verb_login = {"login", "SERVER",
                                "log in to an MCP server over HTTP that requires OAuth", run_login};
