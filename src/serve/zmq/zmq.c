/* SPDX-License-Identifier: Apache-2.0
 *
 * libzmq and its sockets; see the header. What we need of zmq.h is repeated here, so that ipybox
 * can be built without it: these names and numbers have been the same since libzmq 4.1. With
 * IPB_STATIC (-Dstatic=true) libzmq is linked into the program.
 *
 * The fd of a socket is edge-triggered: it says that something may have happened, and it is quiet
 * afterwards until the socket's events are read. So each read and each send is followed by a look
 * at the events, from the loop.
 */
#include "serve/zmq/zmq.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/error.h"

#define LINGER_MS 1000
/* Messages that wait in a socket, for each peer: replies, which the peer asked for, and others. */
#define MAX_REPLIES 1000
#define MAX_WAITING 64
/* Messages that one socket takes before the loop turns to others. */
#define MAX_IN_A_ROW 16

#define ZMQ_REP 4
#define ZMQ_ROUTER 6
#define ZMQ_XPUB 9
#define ZMQ_DONTWAIT 1
#define ZMQ_SNDMORE 2
#define ZMQ_POLLIN 1
#define ZMQ_FD 14
#define ZMQ_EVENTS 15
#define ZMQ_LINGER 17
#define ZMQ_MAXMSGSIZE 22
#define ZMQ_SNDHWM 23
#define ZMQ_RCVHWM 24
#define ZMQ_ROUTER_HANDOVER 56
#define ZMQ_XPUB_NODROP 69

typedef struct {
    _Alignas(void *) unsigned char opaque[64];
} ZmqMessage;

/* The functions that are used: result, member of Functions, name in libzmq, parameters. */
#define FUNCTIONS(X)                                                                               \
    X(void, version, zmq_version, (int *major, int *minor, int *patch))                            \
    X(void *, ctx_new, zmq_ctx_new, (void) )                                                       \
    X(int, ctx_term, zmq_ctx_term, (void *context))                                                \
    X(void *, socket, zmq_socket, (void *context, int type))                                       \
    X(int, close, zmq_close, (void *socket))                                                       \
    X(int, bind, zmq_bind, (void *socket, const char *address))                                    \
    X(int, setsockopt, zmq_setsockopt, (void *socket, int option, const void *value, size_t size)) \
    X(int, getsockopt, zmq_getsockopt, (void *socket, int option, void *value, size_t *size))      \
    X(int, send, zmq_send, (void *socket, const void *bytes, size_t size, int flags))              \
    X(int, msg_init, zmq_msg_init, (ZmqMessage * message))                                         \
    X(int, msg_recv, zmq_msg_recv, (ZmqMessage * message, void *socket, int flags))                \
    X(void *, msg_data, zmq_msg_data, (ZmqMessage * message))                                      \
    X(size_t, msg_size, zmq_msg_size, (const ZmqMessage *message))                                 \
    X(int, msg_more, zmq_msg_more, (const ZmqMessage *message))                                    \
    X(int, msg_close, zmq_msg_close, (ZmqMessage * message))                                       \
    X(int, errno_, zmq_errno, (void) )                                                             \
    X(const char *, strerror, zmq_strerror, (int number))

typedef struct {
#define MEMBER(result, name, symbol, parameters) result(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
} Functions;

struct IpbZmq {
    Functions f;
    void *context;
};

struct IpbZmqSocket {
    const Functions *f;
    IpbLoop *loop;
    IpbZmqType type;
    void *socket;
    IpbWatch *watch;
    IpbTimer *look_timer;
    IpbZmqFunc func;
    void *data;
};

static const int TYPES[] = {
    [IPB_ZMQ_REPLY] = ZMQ_REP,
    [IPB_ZMQ_ROUTER] = ZMQ_ROUTER,
    [IPB_ZMQ_PUBLISH] = ZMQ_XPUB,
};

/* --- the library ------------------------------------------------------------------------------ */

#ifdef IPB_STATIC

#define DECLARE(result, name, symbol, parameters) extern result symbol parameters;
FUNCTIONS(DECLARE)
#undef DECLARE

static bool
open_library(Functions *functions, GError **error)
{
#define TAKE(result, name, symbol, parameters) functions->name = symbol;
    FUNCTIONS(TAKE)
#undef TAKE
    return true;
}

#else

#include <dlfcn.h>

#define LIBRARY "libzmq.so.5"

static bool
find_functions(Functions *functions, void *library, GError **error)
{
    const struct {
        const char *name;
        void **place;
    } table[] = {
#define ENTRY(result, name, symbol, parameters) {#symbol, (void **) &functions->name},
        FUNCTIONS(ENTRY)
#undef ENTRY
    };
    for (size_t i = 0; i < G_N_ELEMENTS(table); i++) {
        *table[i].place = dlsym(library, table[i].name);
        if (*table[i].place == NULL) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                        LIBRARY " has no %s: libzmq 4.1 or later is needed", table[i].name);
            return false;
        }
    }
    return true;
}

static bool
open_library(Functions *functions, GError **error)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "Jupyter's kernel protocol needs libzmq, which cannot be loaded (%s). Install "
                    "it: apt install libzmq5 (dnf install zeromq, apk add libzmq)",
                    dlerror());
        return false;
    }
    bool is_usable = find_functions(functions, library, error);
    dlclose(library); /* RTLD_NODELETE: it stays loaded */
    return is_usable;
}

#endif

IpbZmq *
ipb_zmq_new(GError **error)
{
    g_autofree IpbZmq *zmq = g_new0(IpbZmq, 1);
    if (!open_library(&zmq->f, error))
        return NULL;
    zmq->context = zmq->f.ctx_new();
    if (zmq->context == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "libzmq does not start: %s",
                    zmq->f.strerror(zmq->f.errno_()));
        return NULL;
    }
    return g_steal_pointer(&zmq);
}

char *
ipb_zmq_version(const IpbZmq *zmq)
{
    int major, minor, patch;
    zmq->f.version(&major, &minor, &patch);
    return g_strdup_printf("libzmq %d.%d.%d", major, minor, patch);
}

void
ipb_zmq_free(IpbZmq *zmq)
{
    if (zmq == NULL)
        return;
    while (zmq->f.ctx_term(zmq->context) < 0 && zmq->f.errno_() == EINTR)
        ;
    g_free(zmq);
}

/* --- receiving -------------------------------------------------------------------------------- */

typedef struct {
    ZmqMessage messages[IPB_ZMQ_MAX_PARTS];
    IpbSpan spans[IPB_ZMQ_MAX_PARTS];
    size_t n, n_bytes;
    bool is_too_large;
} Parts;

/* All parts of the next message. False: there is none. */
static bool
receive(IpbZmqSocket *socket, Parts *parts)
{
    const Functions *f = socket->f;
    *parts = (Parts){0};
    for (bool has_more = true; has_more;) {
        ZmqMessage message;
        f->msg_init(&message);
        /* The parts after the first one are there. */
        if (f->msg_recv(&message, socket->socket, ZMQ_DONTWAIT) < 0) {
            f->msg_close(&message);
            return parts->n > 0;
        }
        has_more = f->msg_more(&message) != 0;
        size_t size = f->msg_size(&message);
        parts->n_bytes += size;
        if (parts->n == IPB_ZMQ_MAX_PARTS || parts->n_bytes > IPB_ZMQ_MAX_MESSAGE) {
            parts->is_too_large = true;
            f->msg_close(&message);
            continue;
        }
        parts->messages[parts->n] = message;
        ZmqMessage *kept = &parts->messages[parts->n];
        parts->spans[parts->n++] = (IpbSpan){f->msg_data(kept), size};
    }
    return true;
}

static void
clear_parts(const IpbZmqSocket *socket, Parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        socket->f->msg_close(&parts->messages[i]);
}

static bool
has_message(const IpbZmqSocket *socket)
{
    int events = 0;
    size_t size = sizeof events;
    return socket->f->getsockopt(socket->socket, ZMQ_EVENTS, &events, &size) == 0 &&
           (events & ZMQ_POLLIN) != 0;
}

static void schedule_look(IpbZmqSocket *socket);

static void
look(void *data)
{
    IpbZmqSocket *socket = data;
    g_clear_pointer(&socket->look_timer, ipb_timer_free);
    for (unsigned i = 0; i < MAX_IN_A_ROW; i++) {
        if (!has_message(socket))
            return;
        Parts parts;
        if (receive(socket, &parts) && !parts.is_too_large && socket->func != NULL)
            socket->func(parts.spans, parts.n, socket->data);
        clear_parts(socket, &parts);
    }
    schedule_look(socket);
}

static void
schedule_look(IpbZmqSocket *socket)
{
    if (socket->look_timer == NULL)
        socket->look_timer = ipb_timer_new(socket->loop, 0, look, socket);
}

static void
on_fd(uint32_t events, void *data)
{
    look(data);
}

/* --- sending ---------------------------------------------------------------------------------- */

bool
ipb_zmq_socket_send(IpbZmqSocket *socket, const IpbSpan *parts, size_t n_parts)
{
    const Functions *f = socket->f;
    schedule_look(socket);
    for (size_t i = 0; i < n_parts; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < n_parts ? ZMQ_SNDMORE : 0);
        /* Only the first part can fail: what follows belongs to it. */
        if (f->send(socket->socket, parts[i].start, parts[i].size, flags) < 0)
            return f->errno_() != EAGAIN;
    }
    return true;
}

static bool
set_int(IpbZmqSocket *socket, int option, int value)
{
    return socket->f->setsockopt(socket->socket, option, &value, sizeof value) == 0;
}

void
ipb_zmq_socket_set_lossy(IpbZmqSocket *socket, bool is_lossy)
{
    set_int(socket, ZMQ_XPUB_NODROP, !is_lossy);
}

/* --- life ------------------------------------------------------------------------------------- */

static bool
set_up(IpbZmqSocket *socket, const char *address, GError **error)
{
    int64_t max_part = IPB_ZMQ_MAX_PART;
    const Functions *f = socket->f;
    int max_waiting = socket->type == IPB_ZMQ_PUBLISH ? MAX_WAITING : MAX_REPLIES;
    bool ok = set_int(socket, ZMQ_LINGER, LINGER_MS) && set_int(socket, ZMQ_SNDHWM, max_waiting) &&
              set_int(socket, ZMQ_RCVHWM, MAX_WAITING) &&
              f->setsockopt(socket->socket, ZMQ_MAXMSGSIZE, &max_part, sizeof max_part) == 0;
    if (ok && socket->type == IPB_ZMQ_ROUTER)
        ok = set_int(socket, ZMQ_ROUTER_HANDOVER, 1); /* a client connects again */
    if (ok && socket->type == IPB_ZMQ_PUBLISH)
        ok = set_int(socket, ZMQ_XPUB_NODROP, 1);
    /* The file of an ipc socket is for this user only. */
    mode_t mask = umask(0177);
    ok = ok && f->bind(socket->socket, address) == 0;
    umask(mask);
    if (ok)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "cannot listen on %s: %s", address,
                f->strerror(f->errno_()));
    return false;
}

static bool
watch(IpbZmqSocket *socket, GError **error)
{
    int fd = -1;
    size_t size = sizeof fd;
    if (socket->f->getsockopt(socket->socket, ZMQ_FD, &fd, &size) < 0)
        return ipb_error_set_errno(error, socket->f->errno_(), "a socket of libzmq has no fd");
    socket->watch = ipb_watch_new(socket->loop, fd, EPOLLIN, on_fd, socket, error);
    return socket->watch != NULL;
}

IpbZmqSocket *
ipb_zmq_socket_new(IpbZmq *zmq, IpbLoop *loop, IpbZmqType type, const char *address,
                   IpbZmqFunc func, void *data, GError **error)
{
    g_autoptr(IpbZmqSocket) socket = g_new0(IpbZmqSocket, 1);
    socket->f = &zmq->f;
    socket->loop = ipb_loop_ref(loop);
    socket->type = type;
    socket->func = func;
    socket->data = data;
    socket->socket = zmq->f.socket(zmq->context, TYPES[type]);
    if (socket->socket == NULL) {
        ipb_error_set_errno(error, zmq->f.errno_(), "libzmq cannot make a socket");
        return NULL;
    }
    if (!set_up(socket, address, error) || !watch(socket, error))
        return NULL;
    schedule_look(socket);
    return g_steal_pointer(&socket);
}

void
ipb_zmq_socket_free(IpbZmqSocket *socket)
{
    if (socket == NULL)
        return;
    ipb_watch_free(socket->watch);
    ipb_timer_free(socket->look_timer);
    if (socket->socket != NULL)
        socket->f->close(socket->socket);
    ipb_loop_unref(socket->loop);
    g_free(socket);
}
