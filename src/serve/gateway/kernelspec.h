/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayKernelspec: a directory NAME with the file kernel.json, which has the command that
 * starts a kernel, and with logos. It is ours if the command is `ipybox kernel`.
 *
 * Nothing here follows a symbolic link below the folder of kernelspecs, and files are read that
 * only their owner's programs can have written: what is in them is run.
 *
 * Ownership: the caller frees it. The texts live as long as it does.
 */
#pragma once

#include "base/beneath.h"
#include "json/writer.h"

typedef struct {
    char *name; /* lower case, as Jupyter lists it */
    char *path; /* of kernel.json */
    /* What follows `ipybox kernel`; NULL: another program is started */
    char **arguments;
    IpbBeneath *directory;
    IpbJsonDoc *doc;
} IpbGatewayKernelspec;

/* INVALID: Jupyter would not find a kernelspec of this name. */
bool ipb_gateway_kernelspec_check_name(const char *name, GError **error);
/* Reads NAME/kernel.json below @folder. Errors name the file: NOT_FOUND, LIMIT, INVALID, and
 * REFUSED: a link, or other users can write it. */
IpbGatewayKernelspec *ipb_gateway_kernelspec_read(const IpbBeneath *folder, const char *name,
                                                  GError **error);
void ipb_gateway_kernelspec_free(IpbGatewayKernelspec *spec);

/* NULL: it has none. */
const char *ipb_gateway_kernelspec_title(const IpbGatewayKernelspec *spec);
/* The variables that it has for the program, "NAME=value"; the caller frees them. NULL with
 * INVALID. */
char **ipb_gateway_kernelspec_env(const IpbGatewayKernelspec *spec, GError **error);
/* Writes what Jupyter's clients get: {"name", "spec", "resources"}. Commands and variables are not
 * for clients. @base_path: of the gateway, or NULL. */
void ipb_gateway_kernelspec_describe(const IpbGatewayKernelspec *spec, const char *base_path,
                                     IpbJsonWriter *writer);
/* The same of a kernel that has no file. */
void ipb_gateway_kernelspec_describe_own(const char *name, IpbJsonWriter *writer);
/* A logo, by the name of its file. NOT_FOUND: there is no such logo; and errors as above. */
GBytes *ipb_gateway_kernelspec_read_logo(const IpbGatewayKernelspec *spec, const char *file,
                                         GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewayKernelspec, ipb_gateway_kernelspec_free)
