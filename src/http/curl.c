/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading libcurl; see the header.
 */
#include "http/curl.h"

#include <dlfcn.h>

#include "base/error.h"

/* The same library with OpenSSL and with GnuTLS. */
static const char *const LIBRARIES[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

static void *
open_library(GError **error)
{
    g_autofree char *why = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(LIBRARIES); i++) {
        void *library = dlopen(LIBRARIES[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library != NULL)
            return library;
        const char *text = dlerror();
        if (why == NULL)
            why = g_strdup(text);
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                "MCP servers with a \"url\" need libcurl, which cannot be loaded (%s). Install it: "
                "apt install libcurl4 (dnf install libcurl, apk add libcurl)",
                why);
    return NULL;
}

static bool
find_functions(IpbCurl *curl, GError **error)
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
        *functions[i].place = dlsym(curl->library, functions[i].name);
        if (*functions[i].place == NULL) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                        "the libcurl that is installed has no %s: 7.87 or later is needed",
                        functions[i].name);
            return false;
        }
    }
    return true;
}

IpbCurl *
ipb_curl_load(GError **error)
{
    void *library = open_library(error);
    if (library == NULL)
        return NULL;
    g_autofree IpbCurl *curl = g_new0(IpbCurl, 1);
    curl->library = library;
    if (!find_functions(curl, error))
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
    dlclose(curl->library);
    g_free(curl);
}
