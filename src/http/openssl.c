/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading OpenSSL; see the header. With IPB_STATIC (-Dstatic=true) it is linked into the
 * program.
 */
#include "http/openssl.h"

#include "base/error.h"

#ifdef IPB_STATIC

static bool
open_library(IpbOpenssl *openssl, GError **error)
{
#define TAKE(name) openssl->name = name;
    IPB_OPENSSL_FUNCTIONS(TAKE)
#undef TAKE
    return true;
}

/* The machine's configuration may name modules for another build of OpenSSL. */
#define INIT_OPTIONS OPENSSL_INIT_NO_LOAD_CONFIG

#else

#include <dlfcn.h>

#define LIBRARY "libssl.so.3"
#define INIT_OPTIONS 0

static bool
open_library(IpbOpenssl *openssl, GError **error)
{
    const struct {
        const char *name;
        void **place;
    } functions[] = {
#define FUNCTION(name) {#name, (void **) &openssl->name},
        IPB_OPENSSL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "TLS needs OpenSSL 3, which cannot be loaded (%s). Install it: apt install "
                    "libssl3 (dnf install openssl-libs, apk add libssl3)",
                    dlerror());
        return false;
    }
    bool is_usable = true;
    /* libcrypto's are found, too, because libssl needs it. */
    for (size_t i = 0; i < G_N_ELEMENTS(functions) && is_usable; i++) {
        *functions[i].place = dlsym(library, functions[i].name);
        is_usable = *functions[i].place != NULL;
        if (!is_usable)
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                        "the " LIBRARY " that is installed has no %s: OpenSSL 3.0 or later is "
                        "needed",
                        functions[i].name);
    }
    /* RTLD_NODELETE: it stays loaded. */
    dlclose(library);
    return is_usable;
}

#endif

IpbOpenssl *
ipb_openssl_load(GError **error)
{
    g_autofree IpbOpenssl *openssl = g_new0(IpbOpenssl, 1);
    if (!open_library(openssl, error))
        return NULL;
    if (openssl->OPENSSL_init_ssl(INIT_OPTIONS, NULL) != 1) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                    "OpenSSL does not start: %s; check openssl.cnf of this machine",
                    openssl->ERR_reason_error_string(openssl->ERR_peek_last_error()));
        return NULL;
    }
    return g_steal_pointer(&openssl);
}
