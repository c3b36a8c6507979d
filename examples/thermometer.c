/* SPDX-License-Identifier: Apache-2.0
 *
 * Offers a function of its own to the code of a cell, which calls it as
 * `mcptools.home.temperature`. The answer comes later: the program "measures" for a while, and
 * other calls arrive in this time.
 *
 *     cc -o thermometer thermometer.c $(pkg-config --cflags --libs ipybox)
 *     ./thermometer
 */
#include <stdio.h>
#include <string.h>

#include <ipybox/ipybox.h>

#define MEASURING_MS 100

static const char TOOLS[] =
    "{\"home\": [{"
    "  \"name\": \"temperature\","
    "  \"description\": \"Measures the temperature of a room, in degrees Celsius.\","
    "  \"inputSchema\": {\"type\": \"object\","
    "    \"properties\": {\"room\": {\"type\": \"string\", \"enum\": [\"kitchen\", \"cellar\"]}},"
    "    \"required\": [\"room\"]},"
    "  \"outputSchema\": {\"type\": \"number\"}}]}";
static const char CELL[] = "from concurrent.futures import ThreadPoolExecutor\n"
                           "from mcptools.home import temperature\n"
                           "def measure(room):\n"
                           "    return room, temperature.run(room=room)\n"
                           "with ThreadPoolExecutor() as pool:\n"
                           "    for room, celsius in pool.map(measure, ['kitchen', 'cellar']):\n"
                           "        print(f'{room}: {celsius} degrees')\n";

/* The arguments come from the code, which may send anything: here two texts are right. */
static gboolean
on_measured(gpointer data)
{
    IpyboxToolCall *call = data;
    const char *arguments = ipybox_tool_call_get_arguments(call);
    if (strcmp(arguments, "{\"room\":\"kitchen\"}") == 0)
        ipybox_tool_call_return(call, "21.5", NULL);
    else if (strcmp(arguments, "{\"room\":\"cellar\"}") == 0)
        ipybox_tool_call_return(call, "12", NULL);
    else
        ipybox_tool_call_fail(call, "there is no such room");
    return G_SOURCE_REMOVE;
}

/* A call that was cancelled in the meantime takes its answer, and nothing happens. */
static void
on_tool_call(IpyboxSession *session, IpyboxToolCall *call, gpointer user_data)
{
    (void) session;
    (void) user_data;
    g_timeout_add_full(G_PRIORITY_DEFAULT, MEASURING_MS, on_measured, ipybox_tool_call_ref(call),
                       (GDestroyNotify) ipybox_tool_call_unref);
}

int
main(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpyboxRuntime) runtime = ipybox_runtime_new(NULL, &error);
    IpyboxSessionOptions options = IPYBOX_SESSION_OPTIONS_INIT;
    options.application_tools = TOOLS;
    options.on_tool_call = on_tool_call;
    options.approval = IPYBOX_APPROVAL_ALLOW; /* it only measures */
    g_autoptr(IpyboxSession) session =
        runtime != NULL ? ipybox_session_new(runtime, &options, &error) : NULL;
    g_autoptr(IpyboxResult) result =
        session != NULL ? ipybox_session_execute(session, CELL, NULL, NULL, &error) : NULL;
    if (result == NULL || !ipybox_result_check(result, &error)) {
        fprintf(stderr, "thermometer: %s\n", error->message);
        return 1;
    }
    puts(ipybox_result_get_text(result));
    return 0;
}
