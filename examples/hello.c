/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest program: two cells, one after the other, with blocking calls. Each cell sees the
 * variables of the cells before it.
 *
 *     cc -o hello hello.c $(pkg-config --cflags --libs ipybox)
 */
#include <stdio.h>

#include <ipybox/ipybox.h>

static gboolean
run_cell(IpyboxSession *session, const char *code, GError **error)
{
    g_autoptr(IpyboxResult) result = ipybox_session_execute(session, code, NULL, NULL, error);
    if (result == NULL || !ipybox_result_check(result, error))
        return FALSE;
    puts(ipybox_result_get_text(result));
    return TRUE;
}

static gboolean
say_hello(IpyboxRuntime *runtime, GError **error)
{
    g_autoptr(IpyboxSession) session = ipybox_session_new(runtime, NULL, error);
    return session != NULL &&
           run_cell(session, "name = 'world'\nprint('I know a name now')", error) &&
           run_cell(session, "f'hello, {name}'", error) && ipybox_session_close(session, error);
}

int
main(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxRuntime) runtime = ipybox_runtime_new(NULL, &error);
    if (runtime != NULL && say_hello(runtime, &error) && ipybox_runtime_close(runtime, &error))
        return 0;
    fprintf(stderr, "hello: %s\n", error->message);
    return 1;
}
