/* SPDX-License-Identifier: Apache-2.0
 *
 * Which peers may send requests; see the header.
 */
#include "http/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "http/target.h"

#define MAX_TOKENS 16
#define MAX_TOKEN_SIZE 1024
#define TOKEN_BYTES 32
#define MAX_HOST 255

typedef struct {
    char *text;
    unsigned role;
} Token;

struct IpbHttpGate {
    unsigned everybody;
    unsigned own_user;
    unsigned known;
    bool (*knows)(uint64_t inode, void *data);
    void *knows_data;
    Token tokens[MAX_TOKENS];
    size_t n_tokens;
    unsigned (*find)(IpbSpan token, void *data);
    void *find_data;
    bool admits_strangers;
    bool takes_query_token;
    bool is_public;
    bool allows_all_origins;
    const char *hint;
    /* char *; hosts without port */
    GPtrArray *hosts;
    GPtrArray *origins;
};

IpbHttpGate *
ipb_http_gate_new(void)
{
    IpbHttpGate *gate = g_new0(IpbHttpGate, 1);
    gate->hosts = g_ptr_array_new_with_free_func(g_free);
    gate->origins = g_ptr_array_new_with_free_func(g_free);
    return gate;
}

void
ipb_http_gate_free(IpbHttpGate *gate)
{
    if (gate == NULL)
        return;
    for (size_t i = 0; i < gate->n_tokens; i++)
        g_free(gate->tokens[i].text);
    g_ptr_array_unref(gate->hosts);
    g_ptr_array_unref(gate->origins);
    g_free(gate);
}

void
ipb_http_gate_set_everybody(IpbHttpGate *gate, unsigned role)
{
    gate->everybody = role;
}

void
ipb_http_gate_set_own_user(IpbHttpGate *gate, unsigned role)
{
    gate->own_user = role;
}

bool
ipb_http_gate_trusts_own_user(const IpbHttpGate *gate)
{
    return gate->own_user != 0;
}

void
ipb_http_gate_set_known(IpbHttpGate *gate, unsigned role, bool (*knows)(uint64_t inode, void *data),
                        void *data)
{
    gate->known = role;
    gate->knows = knows;
    gate->knows_data = data;
}

void
ipb_http_gate_add_token(IpbHttpGate *gate, const char *token, unsigned role)
{
    g_return_if_fail(token[0] != '\0' && gate->n_tokens < MAX_TOKENS);
    gate->tokens[gate->n_tokens++] = (Token){g_strdup(token), role};
}

void
ipb_http_gate_set_tokens(IpbHttpGate *gate, unsigned (*find)(IpbSpan token, void *data), void *data)
{
    gate->find = find;
    gate->find_data = data;
}

void
ipb_http_gate_admit_strangers(IpbHttpGate *gate)
{
    gate->admits_strangers = true;
}

const char *
ipb_http_gate_hint(const IpbHttpGate *gate)
{
    return gate->hint != NULL ? gate->hint : "the token is missing or wrong";
}

void
ipb_http_gate_take_query_token(IpbHttpGate *gate)
{
    gate->takes_query_token = true;
}

char *
ipb_http_gate_make_token(GError **error)
{
    uint8_t bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        ipb_error_set_errno(error, errno, "cannot get random bytes");
        return NULL;
    }
    char *token = g_malloc(2 * TOKEN_BYTES + 1);
    for (size_t i = 0; i < sizeof bytes; i++)
        g_snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return token;
}

void
ipb_http_gate_set_hint(IpbHttpGate *gate, const char *hint)
{
    gate->hint = hint;
}

void
ipb_http_gate_allow_host(IpbHttpGate *gate, const char *host)
{
    /* As a Host header has it. */
    bool is_ipv6 = strchr(host, ':') != NULL && host[0] != '[';
    g_ptr_array_add(gate->hosts, is_ipv6 ? g_strdup_printf("[%s]", host) : g_strdup(host));
}

void
ipb_http_gate_set_public(IpbHttpGate *gate)
{
    gate->is_public = true;
}

void
ipb_http_gate_allow_origin(IpbHttpGate *gate, const char *origin)
{
    g_ptr_array_add(gate->origins, g_strdup(origin));
}

void
ipb_http_gate_allow_all_origins(IpbHttpGate *gate)
{
    gate->allows_all_origins = true;
}

/* --- Host and Origin -------------------------------------------------------------------------- */

static bool
has_text(const GPtrArray *texts, IpbSpan span)
{
    for (guint i = 0; i < texts->len; i++)
        if (ipb_span_equal_nocase(span, g_ptr_array_index(texts, i)))
            return true;
    return false;
}

static bool
is_loopback_name(IpbSpan name)
{
    return ipb_span_equal_nocase(name, "localhost") || ipb_span_equal(name, "127.0.0.1") ||
           ipb_span_equal(name, "[::1]");
}

static bool
is_address(IpbSpan name)
{
    char text[64];
    struct in6_addr address;
    bool is_ipv6 = name.size > 2 && name.start[0] == '[' && name.start[name.size - 1] == ']';
    if (name.size == 0 || name.size >= sizeof text)
        return false;
    /* The text continues after the span, so it cannot be copied as a string. */
    memcpy(text, name.start + is_ipv6, name.size - 2 * is_ipv6);
    text[name.size - 2 * is_ipv6] = '\0';
    return inet_pton(is_ipv6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

/* Splits "name:port"; @ret_port: empty if there is none. */
static void
split_host(IpbSpan host, IpbSpan *ret_name, IpbSpan *ret_port)
{
    size_t colon = host.size;
    while (colon > 0 && host.start[colon - 1] != ':' && host.start[colon - 1] != ']')
        colon--;
    *ret_name = host;
    *ret_port = (IpbSpan){host.start + host.size, 0};
    if (colon == 0 || host.start[colon - 1] != ':')
        return;
    *ret_name = (IpbSpan){host.start, colon - 1};
    *ret_port = (IpbSpan){host.start + colon, host.size - colon};
}

/* A browser that was sent to a foreign name that resolves to us sends that name. Only our names are
 * allowed. */
static bool
is_our_host(const IpbHttpGate *gate, IpbSpan host, unsigned port)
{
    IpbSpan name, port_text;
    char our_port[16];
    if (host.size > MAX_HOST)
        return false;
    split_host(host, &name, &port_text);
    if (has_text(gate->hosts, name) || (gate->is_public && is_address(name)))
        return true;
    if (!is_loopback_name(name))
        return false;
    g_snprintf(our_port, sizeof our_port, "%u", port);
    return gate->is_public || ipb_span_equal(port_text, our_port) ||
           ((port == 80 || port == 443) && port_text.size == 0);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Compares in a time that does not depend on the bytes. */
static bool
is_equal(const char *token, IpbSpan text)
{
    unsigned difference = 0;
    if (text.size != strlen(token))
        return false;
    for (size_t i = 0; i < text.size; i++)
        difference |= (unsigned char) (text.start[i] ^ token[i]);
    return difference == 0;
}

static unsigned
find_token(const IpbHttpGate *gate, IpbSpan text)
{
    unsigned role = gate->find != NULL ? gate->find(text, gate->find_data) : 0;
    for (size_t i = 0; i < gate->n_tokens; i++)
        if (is_equal(gate->tokens[i].text, text))
            role |= gate->tokens[i].role;
    return role;
}

bool
ipb_http_gate_get_token(const IpbHttpHead *head, IpbSpan *ret_token)
{
    static const char *const SCHEMES[] = {"Bearer ", "token "};
    IpbSpan value;
    if (!ipb_http_head_get(head, "Authorization", &value))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(SCHEMES); i++) {
        size_t size = strlen(SCHEMES[i]);
        if (value.size > size && g_ascii_strncasecmp(value.start, SCHEMES[i], size) == 0) {
            *ret_token = (IpbSpan){value.start + size, value.size - size};
            return true;
        }
    }
    return false;
}

/* A token decides even if none is needed: a wrong one is never ignored. */
static bool
decide_by_token(const IpbHttpGate *gate, const IpbHttpHead *head, unsigned *ret_role)
{
    g_autofree char *query_token = NULL;
    IpbSpan token, value;
    bool has_token = ipb_http_gate_get_token(head, &token);
    if (!has_token && gate->takes_query_token &&
        (query_token = ipb_http_target_query(head->target, "token")) != NULL) {
        token = (IpbSpan){query_token, strlen(query_token)};
        has_token = true;
    }
    if (!has_token && !ipb_http_head_get(head, "Authorization", &value))
        return false;
    *ret_role = has_token && token.size <= MAX_TOKEN_SIZE ? find_token(gate, token) : 0;
    return true;
}

static unsigned
find_role(const IpbHttpGate *gate, const IpbHttpHead *head, IpbHttpPeer *peer)
{
    unsigned role;
    uint64_t inode;
    if (gate->everybody != 0)
        return gate->everybody;
    if ((gate->n_tokens > 0 || gate->find != NULL) && decide_by_token(gate, head, &role))
        return role;
    if (gate->own_user != 0 && ipb_http_peer_is_own(peer))
        return gate->own_user;
    bool is_known = gate->known != 0 && ipb_http_peer_get_own_socket(peer, &inode) &&
                    gate->knows(inode, gate->knows_data);
    if (is_known)
        return gate->known;
    return gate->admits_strangers ? IPB_HTTP_ROLE_STRANGER : 0;
}

static unsigned
refuse(IpbHttpHead *head, unsigned status, const char *reason)
{
    head->status = status;
    head->reason = reason;
    return 0;
}

bool
ipb_http_gate_get_origin(const IpbHttpGate *gate, const IpbHttpHead *head, IpbSpan *ret_origin)
{
    return ipb_http_head_get(head, "Origin", ret_origin) &&
           (gate->allows_all_origins || has_text(gate->origins, *ret_origin));
}

bool
ipb_http_gate_is_preflight(const IpbHttpGate *gate, const IpbHttpHead *head, unsigned port)
{
    IpbSpan value;
    return ipb_span_equal(head->method, "OPTIONS") && head->content_length == 0 &&
           !head->is_chunked && ipb_http_head_get(head, "Access-Control-Request-Method", &value) &&
           ipb_http_gate_get_origin(gate, head, &value) && is_our_host(gate, head->host, port);
}

unsigned
ipb_http_gate_admit(const IpbHttpGate *gate, IpbHttpHead *head, unsigned port, IpbHttpPeer *peer)
{
    IpbSpan value;
    if (ipb_http_head_get(head, "Origin", &value) && !ipb_http_gate_get_origin(gate, head, &value))
        return refuse(head, 403, "requests of web pages (with an Origin header) are not accepted");
    if (!is_our_host(gate, head->host, port))
        return refuse(head, 403, "the Host header does not name this server");
    unsigned role = find_role(gate, head, peer);
    if (role == 0)
        return refuse(head, 401, ipb_http_gate_hint(gate));
    if (role != IPB_HTTP_ROLE_STRANGER && ipb_http_head_get(head, "Ipybox-Role", &value)) {
        if (!ipb_span_equal(value, "kernel"))
            return refuse(head, 400, "the header Ipybox-Role must be kernel");
        return IPB_HTTP_ROLE_KERNEL;
    }
    return role;
}
