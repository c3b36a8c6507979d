/* SPDX-License-Identifier: Apache-2.0
 *
 * The authorization of one server; see the header. Calls are answered in order, one at a time, from
 * a timer. Only one renewal of the token runs at a time. Calls that arrive while it runs wait for
 * it.
 */
#include "oauth/oauth.h"

#include <string.h>

#include "base/error.h"
#include "oauth/account.h"
#include "oauth/renewal.h"

/* How often a request is sent again because of refusals. */
#define MAX_RETRIES 2
#define MAX_SHOWN 300

struct IpbOAuth {
    IpbLoop *loop;
    IpbOAuthAccount account;
    GQueue calls;    /* IpbOAuthCall without an answer */
    IpbTimer *timer; /* for the next answer */
    IpbOAuthRenewal *renewal;
};

struct IpbOAuthCall {
    IpbOAuth *oauth;
    IpbOAuthFunc func;
    void *data;
    bool is_refused; /* the server requires a token */
    bool is_ready;
    char *authorization;
    GError *error;
};

/* --- calls --- */

static void
free_call(IpbOAuthCall *call)
{
    if (call->authorization != NULL)
        explicit_bzero(call->authorization, strlen(call->authorization));
    g_free(call->authorization);
    g_clear_error(&call->error);
    g_free(call);
}

static void on_answer_due(void *data);

static void
arm(IpbOAuth *oauth)
{
    IpbOAuthCall *head = g_queue_peek_head(&oauth->calls);
    g_clear_pointer(&oauth->timer, ipb_timer_free);
    if (head != NULL && head->is_ready)
        oauth->timer = ipb_timer_new(oauth->loop, 0, on_answer_due, oauth);
}

/* The callback is called last: it may free everything. */
static void
on_answer_due(void *data)
{
    IpbOAuth *oauth = data;
    IpbOAuthCall *call = g_queue_pop_head(&oauth->calls);
    arm(oauth);
    call->func(call->authorization, call->error, call->data);
    free_call(call);
}

static IpbOAuthCall *
add_call(IpbOAuth *oauth, IpbOAuthFunc func, void *data)
{
    IpbOAuthCall *call = g_new0(IpbOAuthCall, 1);
    call->oauth = oauth;
    call->func = func;
    call->data = data;
    g_queue_push_tail(&oauth->calls, call);
    return call;
}

/* Prepares the answer, with the current token if there is one. Takes @error. */
static void
make_ready(IpbOAuthCall *call, GError *error)
{
    const IpbOAuthToken *token = ipb_oauth_account_token(&call->oauth->account);
    call->is_ready = true;
    call->error = error;
    if (error == NULL && token != NULL)
        call->authorization = ipb_oauth_token_header(token);
}

void
ipb_oauth_call_cancel(IpbOAuthCall *call)
{
    IpbOAuth *oauth = call->oauth;
    g_queue_remove(&oauth->calls, call);
    free_call(call);
    arm(oauth);
}

/* --- life --- */

IpbOAuth *
ipb_oauth_new(IpbLoop *loop, const IpbOAuthOptions *options, GError **error)
{
    g_autoptr(IpbOAuth) oauth = g_new0(IpbOAuth, 1);
    oauth->loop = ipb_loop_ref(loop);
    g_queue_init(&oauth->calls);
    if (!ipb_oauth_account_init(&oauth->account, options, error))
        return NULL;
    return g_steal_pointer(&oauth);
}

void
ipb_oauth_free(IpbOAuth *oauth)
{
    if (oauth == NULL)
        return;
    g_clear_pointer(&oauth->renewal, ipb_oauth_renewal_cancel);
    ipb_timer_free(oauth->timer);
    for (IpbOAuthCall *call; (call = g_queue_pop_head(&oauth->calls)) != NULL;)
        free_call(call);
    ipb_oauth_account_clear(&oauth->account);
    ipb_loop_unref(oauth->loop);
    g_free(oauth);
}

/* --- headers --- */

static void
on_renewed(const GError *error, void *data)
{
    IpbOAuth *oauth = data;
    bool has_token = ipb_oauth_account_token(&oauth->account) != NULL;
    oauth->renewal = NULL;
    for (GList *item = oauth->calls.head; item != NULL; item = item->next) {
        IpbOAuthCall *call = item->data;
        GError *own = error != NULL ? g_error_copy(error) : NULL;
        if (own == NULL && call->is_refused && !has_token)
            own =
                ipb_oauth_account_login_error(&oauth->account, "the MCP server wants a login", "");
        if (!call->is_ready)
            make_ready(call, own);
        else
            g_clear_error(&own);
    }
    arm(oauth);
}

static void
renew(IpbOAuth *oauth, const char *wanted_scope, const char *resource_metadata)
{
    g_autoptr(GError) error = NULL;
    oauth->renewal = ipb_oauth_renew(oauth->loop, &oauth->account, wanted_scope, resource_metadata,
                                     on_renewed, oauth, &error);
    if (oauth->renewal == NULL)
        on_renewed(error, oauth);
}

static bool
is_expired(const IpbOAuthToken *token)
{
    return ipb_oauth_token_is_expired(token, g_get_real_time() / G_USEC_PER_SEC);
}

IpbOAuthCall *
ipb_oauth_get(IpbOAuth *oauth, IpbOAuthFunc func, void *data)
{
    IpbOAuthCall *call = add_call(oauth, func, data);
    GError *error = NULL;
    if (oauth->renewal != NULL)
        return call;
    if (oauth->account.server_url != NULL && oauth->account.record == NULL)
        ipb_oauth_account_reload(&oauth->account, &error);
    const IpbOAuthToken *token = ipb_oauth_account_token(&oauth->account);
    if (token != NULL && is_expired(token) && ipb_oauth_account_can_renew(&oauth->account))
        renew(oauth, token->scope, NULL);
    else
        make_ready(call, error);
    arm(oauth);
    return call;
}

/* --- refusals --- */

/* " (the server says: …)", or nothing. Caller frees. */
static char *
describe(const IpbOAuthChallenge *challenge)
{
    const char *text =
        challenge->error_description != NULL ? challenge->error_description : challenge->error;
    return text != NULL ? g_strdup_printf(" (the server says: %.*s)", MAX_SHOWN, text)
                        : g_strdup("");
}

static GError *
make_refusal(const IpbOAuthRefusal *refusal, const IpbOAuthChallenge *challenge, const char *why)
{
    bool has_words = challenge->error_description != NULL || challenge->error != NULL;
    bool has_body = !has_words && refusal->body != NULL && *refusal->body != '\0';
    g_autofree char *words =
        has_body ? g_strdup_printf(" (the server says: %s)", refusal->body) : describe(challenge);
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                       "the MCP server refuses the request with status %u%s%s", refusal->status,
                       words, why);
}

static GError *
refuse_scope(IpbOAuth *oauth, const IpbOAuthChallenge *challenge)
{
    g_autofree char *why =
        g_strdup_printf("the login does not allow this%s%.*s",
                        challenge->scope != NULL ? ", the server wants the scopes " : "", MAX_SHOWN,
                        challenge->scope != NULL ? challenge->scope : "");
    g_autofree char *words = describe(challenge);
    ipb_oauth_account_keep_challenge(&oauth->account, challenge, /* is_step_up= */ true);
    return ipb_oauth_account_login_error(&oauth->account, why, words);
}

/* Returns the error that ends the request; NULL: @call has an answer, or waits for one. */
static GError *
decide(IpbOAuth *oauth, const IpbOAuthRefusal *refusal, const IpbOAuthChallenge *challenge,
       IpbOAuthCall *call)
{
    GError *error = NULL;
    bool lacks_scope =
        refusal->status == 403 && g_strcmp0(challenge->error, "insufficient_scope") == 0;
    if (oauth->account.server_url == NULL)
        return make_refusal(refusal, challenge,
                            ": set the header that it requires in \"headers\" of its parameters");
    if (refusal->status != 401 && !lacks_scope)
        return make_refusal(refusal, challenge, "");
    if (!ipb_oauth_account_reload(&oauth->account, &error))
        return error;
    const IpbOAuthToken *token = ipb_oauth_account_token(&oauth->account);
    g_autofree char *header = token != NULL ? ipb_oauth_token_header(token) : NULL;
    bool is_new = header != NULL && g_strcmp0(header, refusal->authorization) != 0;
    if (is_new && !is_expired(token) && refusal->n_retries < MAX_RETRIES) {
        make_ready(call, NULL);
        return NULL;
    }
    bool can_be_renewed = ipb_oauth_account_has_credentials(&oauth->account) ||
                          (!lacks_scope && ipb_oauth_account_can_renew(&oauth->account));
    unsigned max_retries = ipb_oauth_account_has_credentials(&oauth->account) ? MAX_RETRIES : 1;
    if (can_be_renewed && refusal->n_retries < max_retries) {
        g_autofree char *scope =
            ipb_oauth_scope_union(token != NULL ? token->scope : NULL, challenge->scope);
        renew(oauth, scope, challenge->resource_metadata);
        return NULL;
    }
    if (ipb_oauth_account_has_credentials(&oauth->account))
        return make_refusal(refusal, challenge, ", with a new token too");
    if (lacks_scope)
        return refuse_scope(oauth, challenge);
    bool had_token = token != NULL;
    ipb_oauth_account_keep_challenge(&oauth->account, challenge, /* is_step_up= */ false);
    g_autofree char *words = describe(challenge);
    return ipb_oauth_account_login_error(
        &oauth->account,
        had_token ? "the MCP server does not accept the stored token any more"
                  : "the MCP server wants a login",
        words);
}

IpbOAuthCall *
ipb_oauth_handle_refusal(IpbOAuth *oauth, const IpbOAuthRefusal *refusal, IpbOAuthFunc func,
                         void *data)
{
    IpbOAuthCall *call = add_call(oauth, func, data);
    g_auto(IpbOAuthChallenge) challenge = {0};
    ipb_oauth_challenge_parse(refusal->www_authenticate, &challenge);
    call->is_refused = true;
    if (oauth->renewal == NULL || refusal->n_retries >= MAX_RETRIES) {
        GError *error = decide(oauth, refusal, &challenge, call);
        if (error != NULL)
            make_ready(call, error);
    }
    arm(oauth);
    return call;
}
