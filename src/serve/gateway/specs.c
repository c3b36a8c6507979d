/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernelspec of the gateway: there is one kind of kernel, Python in IPython.
 */
#include "serve/gateway/private.h"

static void
write_empty_object(IpbJsonWriter *writer, const char *name)
{
    ipb_json_key(writer, name);
    ipb_json_begin_object(writer);
    ipb_json_end_object(writer);
}

void
ipb_gateway_specs_describe_one(IpbJsonWriter *writer)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "name", IPB_GATEWAY_SPEC);
    ipb_json_key(writer, "spec");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "argv"); /* nobody starts it but us */
    ipb_json_begin_array(writer);
    ipb_json_end_array(writer);
    write_empty_object(writer, "env");
    ipb_json_member_string(writer, "display_name", "Python 3 (ipybox)");
    ipb_json_member_string(writer, "language", "python");
    ipb_json_member_string(writer, "interrupt_mode", "message");
    write_empty_object(writer, "metadata");
    ipb_json_end_object(writer);
    write_empty_object(writer, "resources");
    ipb_json_end_object(writer);
}

void
ipb_gateway_specs_describe(IpbJsonWriter *writer)
{
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "default", IPB_GATEWAY_SPEC);
    ipb_json_key(writer, "kernelspecs");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, IPB_GATEWAY_SPEC);
    ipb_gateway_specs_describe_one(writer);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
}
