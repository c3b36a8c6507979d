/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "login.h"

#include <sys/wait.h>

#include "oauth/login.h"

typedef struct {
    GPid browser; /* 0: none */
    bool is_done;
    GError *error;
} Login;

/* curl plays the browser. It ends with the redirect to the address of the login. */
static void
on_url(const char *url, void *data)
{
    Login *login = data;
    const char *command[] = {"curl", "-sSL",      "--noproxy", "*", "--max-time", "10",
                             "-o",   "/dev/null", "--",        url, NULL};
    g_autoptr(GError) error = NULL;
    if (!g_spawn_async(NULL, (char **) command, NULL,
                       G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &login->browser,
                       &error))
        g_printerr("%s\n", error->message);
}

static void
on_done(const IpbOAuthToken *token, const GError *error, void *data)
{
    (void) token;
    Login *login = data;
    login->is_done = true;
    if (error != NULL)
        login->error = g_error_copy(error);
}

bool
log_in(IpbLoop *loop, const IpbServerParams *params, GError **error)
{
    static const IpbOAuthLoginFuncs FUNCS = {.on_url = on_url, .on_done = on_done};
    g_autoptr(IpbHttpClient) http = ipb_http_client_new(loop, NULL, error);
    if (http == NULL)
        return false;
    IpbOAuthLoginOptions options = {
        .server_url = params->url, .settings = params->oauth, .http = http};
    Login login = {0};
    IpbOAuthLogin *oauth = ipb_oauth_login_new(loop, &options, &FUNCS, &login, error);
    if (oauth == NULL)
        return false;
    while (!login.is_done)
        g_main_context_iteration(NULL, TRUE);
    ipb_oauth_login_free(oauth);
    /* Without the login, curl has nothing left to wait for. */
    if (login.browser != 0)
        waitpid(login.browser, NULL, 0);
    if (login.error != NULL)
        g_propagate_error(error, login.error);
    return login.error == NULL;
}
