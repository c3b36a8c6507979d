/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading libcurl; see the header. With IPB_STATIC (-Dstatic=true) it is linked into the
 * program.
 */
#include "http/curl.h"

#include <unistd.h>

#include "base/error.h"

#ifdef IPB_STATIC

static bool
open_library(IpbCurl *curl, GError **error)
{
#define TAKE(name) curl->name = curl_##name;
    IPB_CURL_FUNCTIONS(TAKE)
#undef TAKE
    return true;
}

const char *
ipb_curl_find_authorities(void)
{
    static const char *const FILES[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Arch, Alpine, Gentoo, NixOS */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* these, newer */
        "/etc/ssl/ca-bundle.pem",                            /* SUSE */
        "/etc/ssl/cert.pem",                                 /* Alpine */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(FILES); i++)
        if (access(FILES[i], R_OK) == 0)
            return FILES[i];
    return NULL;
}

#else

#include <dlfcn.h>

/* The same library, built with OpenSSL and with GnuTLS. */
static const char *const LIBRARIES[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

static bool
find_functions(IpbCurl *curl, void *library, GError **error)
{
    const struct {
        const char *name;
        void **place;
    } functions[] = {
#define FUNCTION(name) {"curl_" #name, (void **) &curl->name},
        IPB_CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    for (size_t i = 0; i < G_N_ELEMENTS(functions); i++) {
        *functions[i].place = dlsym(library, functions[i].name);
        if (*functions[i].place == NULL) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                        "the libcurl that is installed has no %s: 7.87 or later is needed",
                        functions[i].name);
            return false;
        }
    }
    return true;
}

static bool
open_library(IpbCurl *curl, GError **error)
{
    g_autofree char *why = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(LIBRARIES); i++) {
        void *library = dlopen(LIBRARIES[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library != NULL) {
            /* RTLD_NODELETE: it stays loaded. */
            bool is_usable = find_functions(curl, library, error);
            dlclose(library);
            return is_usable;
        }
        const char *text = dlerror();
        if (why == NULL)
            why = g_strdup(text);
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                "MCP servers with a \"url\" need libcurl, which cannot be loaded (%s). Install it: "
                "apt install libcurl4 (dnf install libcurl, apk add libcurl)",
                why);
    return false;
}

const char *
ipb_curl_find_authorities(void)
{
    return NULL;
}

#endif

IpbCurl *
ipb_curl_load(GError **error)
{
    g_autofree IpbCurl *curl = g_new0(IpbCurl, 1);
    if (!open_library(curl, error))
        return NULL;
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "libcurl does not start");
        return NULL;
    }
    return g_steal_pointer(&curl);
}

void
ipb_curl_unload(IpbCurl *curl)
{
    if (curl == NULL)
        return;
    curl->global_cleanup();
    g_free(curl);
}
