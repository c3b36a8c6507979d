/* SPDX-License-Identifier: Apache-2.0 */
#include "session/install-env.h"

#include <string.h>

#include "session/package-index.h"

static void
check(char **env, const char *name, const char *value)
{
    g_assert_cmpstr(g_environ_getenv(env, name), ==, value);
}

/* The environment takes precedence over pip's configuration files. The result contains no unrelated
 * secret, and no proxy but ours. */
static void
test_make(void)
{
    const char *const env[] = {"PIP_INDEX_URL=https://user:secret@a.test",
                               "API_KEY=secret",
                               "UV_PUBLISH_TOKEN=secret",
                               "SSL_CERT_FILE=/ca.pem",
                               "PIP_PROXY=http://user:secret@proxy.test",
                               "UV_HTTPS_PROXY=http://proxy.test",
                               "https_proxy=http://user:secret@proxy.test",
                               "UV_INDEX=https://b.test",
                               NULL};
    const char *const settings[] = {"PIP_INDEX_URL=https://c.test", "PIP_TRUSTED_HOST=c.test",
                                    NULL};
    g_auto(GStrv) plain = ipb_install_env_make(env, settings, NULL);
    g_assert_cmpuint(g_strv_length(plain), ==, 4);
    check(plain, "PIP_INDEX_URL", "https://user:secret@a.test");
    check(plain, "SSL_CERT_FILE", "/ca.pem");
    check(plain, "UV_INDEX", "https://b.test");
    check(plain, "PIP_TRUSTED_HOST", "c.test");
    g_auto(GStrv) proxied = ipb_install_env_make(env, NULL, "http://localhost:3128");
    check(proxied, "PIP_PROXY", "http://localhost:3128");
}

static void
test_paths(void)
{
    const char *const env[] = {"PIP_CERT=/etc/passwd",
                               "SSL_CERT_DIR=/etc",
                               "PIP_FIND_LINKS=https://a.test /usr relative",
                               "REQUESTS_CA_BUNDLE=/no/such/file",
                               "HOME=/root",
                               NULL};
    g_auto(GStrv) paths = ipb_install_env_paths(env);
    g_autofree char *all = g_strjoinv(" ", paths);
    g_assert_cmpstr(all, ==, "/etc /etc/passwd /usr");
}

static void
test_names_and_advice(void)
{
    const char *const nothing[] = {"PIP_NO_CACHE_DIR=1", "https_proxy=", NULL};
    const char *const some[] = {"PIP_CERT=/ca.pem", "https_proxy=http://user:secret@proxy.test",
                                NULL};
    const char *const trust[] = {"PIP_CERT=/ca.pem", NULL};
    g_assert_null(ipb_install_env_names(nothing));
    g_autofree char *names = ipb_install_env_names(some);
    g_assert_cmpstr(names, ==, "https_proxy, PIP_CERT");

    static const char NETWORK[] =
        "WARNING: Retrying … after connection broken by 'NewConnectionError(…)'";
    g_assert_null(ipb_install_env_advise(nothing, "ERROR: No matching distribution found for x"));
    g_autofree char *unset = ipb_install_env_advise(trust, NETWORK);
    g_assert_nonnull(strstr(unset, "set https_proxy or PIP_INDEX_URL"));
    g_autofree char *set = ipb_install_env_advise(some, NETWORK);
    g_assert_nonnull(strstr(set, "sets https_proxy: check"));
    g_assert_null(strstr(set, "secret"));
    g_autofree char *certificate =
        ipb_install_env_advise(some, "SSLError(… certificate verify failed …)");
    g_assert_nonnull(strstr(certificate, "SSL_CERT_FILE and PIP_CERT"));
}

/* The lines are the output of `pip config list`. */
static void
test_pip_config(void)
{
    const char *const env[] = {NULL};
    g_autoptr(IpbPackageIndex) index = ipb_package_index_new(env);
    static const char *const LINES[] = {
        ":env:.index-url='https://env.test'",
        "global.extra-index-url='\\nhttps://a.test\\nhttps://b.test'",
        "global.index-url='https://user:secret@global.test/simple'",
        "install.index-url=\"https://install.test/it's\"",
        "global.proxy='http://proxy.test'",
        "global.timeout='60'",
        "freeze.index-url='https://freeze.test'",
        "nonsense",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(LINES); i++)
        ipb_package_index_take_line(index, LINES[i]);
    char **settings = (char **) ipb_package_index_settings(index);
    g_assert_cmpuint(g_strv_length(settings), ==, 3);
    check(settings, "PIP_EXTRA_INDEX_URL", "https://a.test https://b.test");
    check(settings, "PIP_INDEX_URL", "https://install.test/it's");
    check(settings, "PIP_PROXY", "http://proxy.test");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session/install-env/make", test_make);
    g_test_add_func("/session/install-env/paths", test_paths);
    g_test_add_func("/session/install-env/names-and-advice", test_names_and_advice);
    g_test_add_func("/session/install-env/pip-config", test_pip_config);
    return g_test_run();
}
